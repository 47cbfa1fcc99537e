//! The protocols, one file each: how to read a request and write an answer.

mod anthropic;
mod chat;
mod gemini;
mod limits;
mod responses;

use serde::Serialize;
use serde_json::{Value, json};

use crate::model_server::conversation::Conversation;
use crate::model_server::reply::{Answer, Content, Finish, Piece, Rendered, Stamp, What};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    Anthropic,
    Responses,
    Chat,
    Gemini,
    /// None of them: health, lists of models, probes of an agent program at its start.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Talk(Protocol),
    Count(Protocol),
}

impl Endpoint {
    /// Decides by the end of the path, because programs disagree on the base address.
    pub(crate) fn find(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        for (end, endpoint) in [
            ("/messages/count_tokens", Self::Count(Protocol::Anthropic)),
            ("/messages", Self::Talk(Protocol::Anthropic)),
            ("/responses", Self::Talk(Protocol::Responses)),
            ("/chat/completions", Self::Talk(Protocol::Chat)),
            (":streamGenerateContent", Self::Talk(Protocol::Gemini)),
            (":generateContent", Self::Talk(Protocol::Gemini)),
            (":countTokens", Self::Count(Protocol::Gemini)),
        ] {
            if path.ends_with(end) {
                return Some(endpoint);
            }
        }
        None
    }

    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Talk(protocol) | Self::Count(protocol) => *protocol,
        }
    }
}

impl Protocol {
    /// Reads a request; missing fields count as absent, because agents' versions differ.
    pub(crate) fn read(self, path: &str, query: &str, body: &Value) -> Conversation {
        match self {
            Self::Anthropic => anthropic::read(body),
            Self::Responses => responses::read(body),
            Self::Chat => chat::read(body),
            Self::Gemini => gemini::read(path, query, body),
            Self::Other => Conversation::default(),
        }
    }

    /// Writes an answer. `now` is the time in seconds, for limits with a point in time.
    pub(crate) fn write(
        self,
        conversation: &Conversation,
        answer: &Answer,
        stamp: Stamp,
        now: u64,
    ) -> Rendered {
        if let Some(failed) = limits::failure(self, &answer.what, now) {
            return failed;
        }
        let mut rendered = match self {
            Self::Anthropic => anthropic::write(conversation, answer, stamp),
            Self::Responses => responses::write(conversation, answer, stamp, now),
            Self::Chat => chat::write(conversation, answer, stamp, now),
            Self::Gemini => gemini::write(conversation, answer, stamp),
            Self::Other => Rendered::empty(200),
        };
        if is_cut(answer) && rendered.content == Content::Json {
            rendered.pieces = vec![Piece::Bytes("{".into()), Piece::Cut];
        }
        rendered
    }

    pub(crate) fn count(self, tokens: u64) -> Rendered {
        let name = match self {
            Self::Gemini => "totalTokens",
            _ => "input_tokens",
        };
        Rendered::json(200, &json!({ name: tokens }))
    }

    /// A refusal in this protocol's form.
    pub(crate) fn refuse(self, status: u16, message: &str) -> Rendered {
        limits::error(self, status, message)
    }
}

/// The list of models, in a form that suits all clients.
pub(crate) fn models() -> Rendered {
    let model = json!({
        "id": "fake-1",
        "object": "model",
        "type": "model",
        "display_name": "Scripted",
        "created": 0,
        "created_at": "2025-01-01T00:00:00Z",
        "owned_by": "skein",
    });
    Rendered::json(
        200,
        &json!({
            "object": "list",
            "data": [model],
            "has_more": false,
            "first_id": "fake-1",
            "last_id": "fake-1",
        }),
    )
}

/// Whether the connection breaks before the answer is complete.
fn is_cut(answer: &Answer) -> bool {
    matches!(
        answer.what,
        What::Parts {
            finish: Finish::Cut,
            ..
        }
    )
}
