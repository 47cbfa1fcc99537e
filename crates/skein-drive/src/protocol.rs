//! What a protocol is: messages in, effects out, nothing touched.
//!
//! A [`Protocol`] is called by the conversation only: with what the program said, with prompts (one at a time, after
//! [`Effect::Ready`] and after the turn before is [`Effect::Over`]), with answers to questions that are open, and with
//! interrupts. It answers with effects in the order in which they are to happen.

pub(crate) mod acp;
pub(crate) mod claude;
pub(crate) mod codex;
mod limit;
pub(crate) mod opencode;
mod questions;
mod rpc;

use std::path::PathBuf;

use serde_json::Value;

use crate::args::{Begin, Permission};

/// What every protocol needs to know at its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) cwd: PathBuf,
    pub(crate) begin: Begin,
    pub(crate) permission: Permission,
    pub(crate) model: Option<String>,
}

pub(crate) trait Protocol {
    /// What is to be said before the program says anything.
    fn begin(&mut self) -> Vec<Effect>;
    /// One message of the program. What cannot be understood has no effects.
    fn hear(&mut self, line: &str) -> Vec<Effect>;
    fn submit(&mut self, text: &str) -> Vec<Effect>;
    fn answer(&mut self, ticket: Ticket, answer: &Answer) -> Vec<Effect>;
    /// Asks for the end of the running turn; [`Effect::Over`] tells when it came.
    fn interrupt(&mut self) -> Vec<Effect>;
}

/// Names a question; given by the protocol, never twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// A message to the program's standard input.
    Send(Value),
    /// Its events are at this address.
    Connect(String),
    /// A request to that address; the answer is heard as `{"call": tag, "status", "body"}`.
    Call(Call),
    /// It can take a prompt.
    Ready,
    Native(String),
    /// The program was seen to have the prompt that was submitted last.
    Took,
    /// The turn is over.
    Over(Over),
    Ask(Question),
    /// The program does not want the answer any more.
    Withdrawn(Ticket),
    /// Used since the last time.
    Used(Used),
    /// Used in the whole conversation, also before the program was started.
    Total(Used),
    Limit {
        text: String,
        resets: Option<Resets>,
    },
    Show(Shown),
    /// It cannot go on.
    Stop(String),
}

/// A request by HTTP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// What the answer is for; comes back with it.
    pub(crate) tag: &'static str,
    pub(crate) path: String,
    /// Posted; without one it is a question only.
    pub(crate) body: Option<Value>,
}

/// When a quota is there again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resets {
    /// In seconds.
    In(u64),
    /// At a time, in seconds since 1970.
    At(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Done,
    Interrupted,
    Failed(String),
}

/// What is not known is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    pub(crate) input_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    pub(crate) cost_usd: Option<f64>,
}

impl Used {
    pub(crate) fn is_nothing(&self) -> bool {
        let some = |n: Option<u64>| n.is_some_and(|n| n > 0);
        !some(self.input_tokens)
            && !some(self.output_tokens)
            && self.cost_usd.is_none_or(|c| c <= 0.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) ticket: Ticket,
    /// The program's own id of its request.
    pub(crate) request: String,
    /// As the program put it.
    pub(crate) text: String,
    pub(crate) options: Vec<Choice>,
    pub(crate) wants: Wants,
    /// The files it would change, when that is all it would do.
    pub(crate) edits: Vec<PathBuf>,
}

impl Question {
    /// What answers name. The program's id alone may repeat: one request may ask several questions.
    pub(crate) fn id(&self) -> String {
        let request: String = self
            .request
            .chars()
            .filter(char::is_ascii_graphic)
            .take(200)
            .collect();
        format!("{}.{request}", self.ticket.0)
    }
}

/// The id of a JSON-RPC request as text.
pub(crate) fn id_text(id: &Value) -> String {
    id.as_str()
        .map_or_else(|| id.to_string(), ToOwned::to_owned)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Permission,
    /// One of the options, or another text where `free`.
    Choice {
        free: bool,
    },
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    /// No matter of permission.
    Other,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowAlways => "allow_always",
            Self::RejectOnce => "reject_once",
            Self::RejectAlways => "reject_always",
            Self::Other => "other",
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "allow_once" => Self::AllowOnce,
            "allow_always" => Self::AllowAlways,
            "reject_once" => Self::RejectOnce,
            "reject_always" => Self::RejectAlways,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Option(usize),
    Text(String),
    /// None of the options: people want the program to stop asking.
    Dismissed,
}

/// What people are to see; never journalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Text of the agent, as it comes.
    Say(String),
    Think(String),
    /// What was being said is said.
    Pause,
    /// A prompt of an earlier run.
    You(String),
    Tool {
        id: String,
        title: String,
        /// What is called, and with what, as far as it is known.
        name: String,
        input: Value,
    },
    ToolDone {
        id: String,
        title: Option<String>,
        failed: bool,
        result: String,
    },
    Plan(Vec<(Step, String)>),
    Note(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Open,
    Doing,
    Done,
}
