//! A protocol as a pure machine: messages in, effects out, no IO.
//!
//! Only the conversation calls a [`Protocol`]: with messages of the program, with prompts (one at a time, after
//! [`Effect::Ready`] and after [`Effect::TurnEnded`] of the turn before), with answers to open questions, and with
//! interrupts. It returns effects in the order in which the driver performs them.

pub(crate) mod acp;
pub(crate) mod claude;
pub(crate) mod codex;
mod limit;
pub(crate) mod opencode;
mod questions;
mod rpc;

use std::path::PathBuf;

use serde_json::Value;

use crate::args::{ConversationStart, Permission};

/// The parameters of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) cwd: PathBuf,
    pub(crate) start: ConversationStart,
    pub(crate) permission: Permission,
    pub(crate) model: Option<String>,
}

pub(crate) trait Protocol: std::fmt::Debug {
    /// The first messages to the program.
    fn begin(&mut self) -> Vec<Effect>;
    /// Handles one message of the program; an unknown one has no effects.
    fn on_message(&mut self, line: &str) -> Vec<Effect>;
    fn submit(&mut self, text: &str) -> Vec<Effect>;
    fn answer(&mut self, local_id: QuestionId, answer: &Answer) -> Vec<Effect>;
    /// Asks for the end of the running turn, which [`Effect::TurnEnded`] reports.
    fn interrupt(&mut self) -> Vec<Effect>;
}

/// Identifies a question; a protocol never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QuestionId(pub(crate) u64);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// A message to the program's standard input.
    Send(Value),
    /// Its events are at this address.
    Connect(String),
    /// A request to that address; the answer comes as `{"call": tag, "status", "body"}`.
    Request(HttpRequest),
    /// It can take a prompt.
    Ready,
    Native(String),
    /// A message showed that the program has the prompt that was submitted last.
    PromptTaken,
    /// The turn is over.
    TurnEnded(TurnOutcome),
    Ask(Question),
    /// The program does not want the answer any more.
    Withdrawn(QuestionId),
    /// Usage since the last time.
    UsageDelta(UsageAmounts),
    /// Usage of the whole conversation, also before the program was started.
    UsageTotal(UsageAmounts),
    Limit {
        text: String,
        resets: Option<Resets>,
    },
    Show(DisplayItem),
    /// It cannot go on.
    Stop(String),
}

/// A request by HTTP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HttpRequest {
    /// Names the purpose of the request; the answer repeats it.
    pub(crate) tag: &'static str,
    pub(crate) path: String,
    /// The body of a POST; none for a GET.
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
pub(crate) enum TurnOutcome {
    Done,
    Interrupted,
    Failed(String),
}

/// Unknown amounts are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct UsageAmounts {
    pub(crate) input_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    pub(crate) cost_usd: Option<f64>,
}

impl UsageAmounts {
    /// The total, unless it is nothing.
    pub(crate) fn total(self) -> Option<Effect> {
        (!self.is_nothing()).then_some(Effect::UsageTotal(self))
    }

    pub(crate) fn is_nothing(&self) -> bool {
        let some = |n: Option<u64>| n.is_some_and(|n| n > 0);
        !some(self.input_tokens)
            && !some(self.output_tokens)
            && self.cost_usd.is_none_or(|c| c <= 0.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) local_id: QuestionId,
    /// The program's own id of its request.
    pub(crate) request: String,
    /// As the program put it.
    pub(crate) text: String,
    pub(crate) options: Vec<Choice>,
    pub(crate) form: QuestionForm,
    /// The files it would change, if it would do nothing else.
    pub(crate) edits: Vec<PathBuf>,
}

impl Question {
    /// The id that answers name. The program's id alone may repeat: one request may ask several questions.
    pub(crate) fn id(&self) -> String {
        let request: String = self
            .request
            .chars()
            .filter(char::is_ascii_graphic)
            .take(200)
            .collect();
        format!("{}.{request}", self.local_id.0)
    }
}

/// A text of a message; empty if it has none.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The items of a list; none if it is none.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// `Bash: touch a`: a tool, and the first of these inputs that it has.
pub(crate) fn titled(tool: &str, input: &Value, keys: &[&str]) -> String {
    match keys.iter().find_map(|key| input[*key].as_str()) {
        Some(about) => format!("{tool}: {about}"),
        None => tool.to_owned(),
    }
}

/// A plan, with the text of each step under this key.
pub(crate) fn plan(steps: &Value, key: &str) -> DisplayItem {
    let step = |entry: &Value| match entry["status"].as_str() {
        Some("completed" | "cancelled") => Step::Done,
        Some("in_progress" | "inProgress") => Step::Doing,
        _ => Step::Open,
    };
    DisplayItem::Plan(
        list(steps)
            .map(|entry| (step(entry), text(&entry[key])))
            .collect(),
    )
}

/// A message showed that the program has the prompt of the turn; reported once.
pub(crate) fn prompt_taken(taken: Option<&mut bool>) -> Vec<Effect> {
    let is_new = taken.is_some_and(|taken| !std::mem::replace(taken, true));
    is_new.then_some(Effect::PromptTaken).into_iter().collect()
}

/// Shows a note of the driver.
pub(crate) fn note(text: impl Into<String>) -> Effect {
    Effect::Show(DisplayItem::Note(text.into()))
}

/// The id of a JSON-RPC request as text.
pub(crate) fn id_text(id: &Value) -> String {
    id.as_str()
        .map_or_else(|| id.to_string(), ToOwned::to_owned)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionForm {
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

impl Choice {
    pub(crate) fn new(name: impl Into<String>, kind: Kind) -> Self {
        let name = name.into();
        Self { name, kind }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    /// It neither allows nor rejects.
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
    /// None of the options: the user rejects the question.
    Dismissed,
}

/// A part of the conversation, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DisplayItem {
    /// Text of the agent, as it comes.
    Text(String),
    Thinking(String),
    /// The text before is complete.
    TextEnd,
    /// A prompt of an earlier run.
    Prompt(String),
    Tool {
        id: String,
        title: String,
        /// The name of the tool and its input, as far as they are known.
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
