//! The `Turns` port: an agent that takes prompts, answers and interrupts as calls with ids, and reports events that
//! name them. The counterpart is the terminal, where the engine types and looks.
//!
//! The engine calls [`Turns`]; protocol drivers receive the calls and report the events. Both ends share these types:
//! a call and an event are one line of JSON each.
//!
//! # Contract
//! A call that returns `Ok` is durable at its receiver. The receiver records [`TurnEvent::Accepted`] durably before it
//! acts on a call and acts once on each id, so a caller may repeat a call after a crash. A call without that event when
//! the run is over was not acted on.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skein_domain::{Key, QuestionId};

use crate::agent::WatchedFile;

/// Names one call. The call of a message has the id of its receipt.
pub type CallId = Key;

/// One call, as it is written and read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCall {
    pub id: CallId,
    #[serde(flatten)]
    pub request: TurnRequest,
}

/// What is asked of the agent. Steering a running turn would be one more variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum TurnRequest {
    /// Begin a turn with this text, after those that were asked for before.
    Prompt { text: String },
    /// Answer exactly this question.
    Answer {
        question: QuestionId,
        #[serde(flatten)]
        answer: TurnAnswer,
    },
    /// Stop the running turn; nothing when none runs.
    Interrupt,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnAnswer {
    /// An option of the question, counted from 0.
    Choice(usize),
    Text(String),
}

/// What the receiver reports of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// The receiver acts on the call from now on, and on no other with this id.
    Accepted(CallId),
    /// The call is not acted on.
    Refused { call: CallId, reason: String },
    /// The agent works on the prompt.
    TurnStarted(CallId),
    /// The turn of the prompt is over; it had begun, seen or not.
    TurnEnded(CallId),
    /// The agent has the answer.
    Answered(CallId),
}

/// The names of the events, as they stand in a journal.
pub const ACCEPTED: &str = "accepted";
pub const REFUSED: &str = "refused";
/// The key of a payload that names a call.
pub const CALL: &str = "call";

impl TurnEvent {
    /// The event that a line of a journal reports; none when the line is about no call.
    pub fn read(event: &str, payload: &Value) -> Option<Self> {
        let call: CallId = payload.get(CALL)?.as_str()?.parse().ok()?;
        match event {
            ACCEPTED => Some(Self::Accepted(call)),
            REFUSED => {
                let reason = payload.get("reason").and_then(Value::as_str);
                let reason = reason.unwrap_or("no reason given").to_owned();
                Some(Self::Refused { call, reason })
            }
            "prompt" => Some(Self::TurnStarted(call)),
            "turn-end" => Some(Self::TurnEnded(call)),
            "answered" => Some(Self::Answered(call)),
            _ => None,
        }
    }

    pub const fn call(&self) -> &CallId {
        match self {
            Self::Accepted(call)
            | Self::Refused { call, .. }
            | Self::TurnStarted(call)
            | Self::TurnEnded(call)
            | Self::Answered(call) => call,
        }
    }
}

/// Resolves once the call is durable at its receiver.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>;

/// One run of an agent that takes calls. Dropping a [`CallFuture`] early leaves open whether the call was made; making it
/// again with the same id is safe.
pub trait Turns: Send + Sync + fmt::Debug {
    fn call(&self, call: TurnCall) -> CallFuture<'_>;

    /// Where the receiver reports events, in order.
    fn events(&self) -> WatchedFile;

    fn prompt(&self, id: CallId, text: String) -> CallFuture<'_> {
        let request = TurnRequest::Prompt { text };
        self.call(TurnCall { id, request })
    }

    fn answer(&self, id: CallId, question: QuestionId, answer: TurnAnswer) -> CallFuture<'_> {
        let request = TurnRequest::Answer { question, answer };
        self.call(TurnCall { id, request })
    }

    fn interrupt(&self, id: CallId) -> CallFuture<'_> {
        let request = TurnRequest::Interrupt;
        self.call(TurnCall { id, request })
    }
}

/// The file in a session's private folder that carries the calls of one run to its driver.
pub fn calls_file(private: &Path, run: u64) -> PathBuf {
    private.join(format!("calls-{run}.jsonl"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_lines_that_read_back() {
        let id = || "rcp_1".parse::<CallId>().unwrap();
        for (request, line) in [
            (
                TurnRequest::Prompt {
                    text: "do it\nnow".into(),
                },
                json!({"id": "rcp_1", "call": "prompt", "text": "do it\nnow"}),
            ),
            (
                TurnRequest::Answer {
                    question: "1.p1".parse().unwrap(),
                    answer: TurnAnswer::Choice(2),
                },
                json!({"id": "rcp_1", "call": "answer", "question": "1.p1", "choice": 2}),
            ),
            (
                TurnRequest::Answer {
                    question: "1.p1".parse().unwrap(),
                    answer: TurnAnswer::Text("blue".into()),
                },
                json!({"id": "rcp_1", "call": "answer", "question": "1.p1", "text": "blue"}),
            ),
            (
                TurnRequest::Interrupt,
                json!({"id": "rcp_1", "call": "interrupt"}),
            ),
        ] {
            let call = TurnCall { id: id(), request };
            assert_eq!(serde_json::to_value(&call).unwrap(), line);
            let read: TurnCall = serde_json::from_str(&line.to_string()).unwrap();
            assert_eq!(read, call);
        }
    }

    #[test]
    fn l13_lines_that_are_no_call_or_no_event_are_none() {
        for line in [
            r#"{"id":"a","call":"steer","text":"x"}"#,
            r#"{"id":"a b","call":"interrupt"}"#,
            r#"{"call":"interrupt"}"#,
            r#"{"id":"a","call":"answer","question":"1"}"#,
            "nonsense",
        ] {
            assert!(serde_json::from_str::<TurnCall>(line).is_err(), "{line}");
        }
        for (event, payload) in [
            ("accepted", json!({})),
            ("accepted", json!({"call": 7})),
            ("usage", json!({"call": "a"})),
        ] {
            assert_eq!(TurnEvent::read(event, &payload), None, "{event} {payload}");
        }
    }
}
