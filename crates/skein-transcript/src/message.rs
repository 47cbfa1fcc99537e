//! What is said in a transcript.

use serde_json::Value;
use skein_domain::Timestamp;

use crate::id::{MessageId, Run};
use crate::usage::Usage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    /// Carries the results of tool calls.
    Tool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub role: Role,
    pub blocks: Vec<Block>,
    /// What the provider sent, as it sent it, so that it can be given back unchanged.
    pub native: Option<Native>,
    /// What it cost to get this message; of a tool result, what its handler spent.
    pub usage: Usage,
    /// Never before the message ahead of it, whatever the clock said.
    pub at: Timestamp,
    /// Who wrote it; set when it is appended.
    pub run: Run,
    /// Makes this a summary that stands for others.
    pub covers: Option<Covers>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(String),
    Thinking {
        text: String,
        /// By which a provider knows its own thoughts again.
        signature: Option<String>,
    },
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Image(Image),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's; told apart only within a batch, since some providers use ids again.
    pub id: String,
    pub name: String,
    pub input: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    pub call: String,
    pub content: Vec<Part>,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    Image(Image),
}

/// A picture by reference; its bytes are not part of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub media_type: String,
    pub source: String,
}

/// A provider's own form of a message, verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    pub provider: String,
    pub payload: String,
}

/// The positions a summary stands for, `from` included, `end` not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covers {
    pub from: u64,
    pub end: u64,
}

impl Message {
    /// Most bytes of one message in its stored form.
    pub const MOST: usize = 16 * 1024 * 1024;

    pub fn new(id: MessageId, role: Role, blocks: Vec<Block>, at: Timestamp) -> Self {
        Self {
            id,
            role,
            blocks,
            native: None,
            usage: Usage::default(),
            at,
            run: Run::default(),
            covers: None,
        }
    }

    /// Whether saying `other` again says nothing new. Who says it and when may differ: a retry comes
    /// later, and after a crash from a later run.
    pub fn says_the_same(&self, other: &Self) -> bool {
        (
            self.role,
            &self.blocks,
            &self.native,
            self.usage,
            self.covers,
        ) == (
            other.role,
            &other.blocks,
            &other.native,
            other.usage,
            other.covers,
        ) && self.id == other.id
    }

    /// About how many bytes it takes: those of everything in it that can be long.
    pub fn weight(&self) -> usize {
        let part = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Image(image) => image.source.len(),
        };
        let block = |block: &Block| match block {
            Block::Text(text) => text.len(),
            Block::Thinking { text, signature } => {
                text.len() + signature.as_ref().map_or(0, String::len)
            }
            Block::ToolCall(call) => weight(&call.input),
            Block::ToolResult(result) => result.content.iter().map(part).sum(),
            Block::Image(image) => image.source.len(),
        };
        let native = self.native.as_ref().map_or(0, |n| n.payload.len());
        native + self.blocks.iter().map(|b| 64 + block(b)).sum::<usize>()
    }

    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

/// As much as it is in memory or as text, whichever is more; what was read is nested only so deep.
fn weight(value: &Value) -> usize {
    let inner = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(k, v)| k.len() + 24 + weight(v)).sum(),
    };
    size_of::<Value>() + inner
}

/// A message with its place in the transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Grows along the transcript, with gaps where the state was changed; the same in every fork.
    pub position: u64,
    pub message: Message,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tool_was_told_has_its_weight() {
        let input = json!({"edits": [{"new": "x".repeat(5_000)}, {"new": "y".repeat(5_000)}]});
        let call = ToolCall {
            id: "c".into(),
            name: "Edit".into(),
            input,
        };
        let id = "m".parse().unwrap();
        let at = Timestamp::from_micros(0);
        let message = Message::new(id, Role::Assistant, vec![Block::ToolCall(call)], at);
        assert!((10_000..11_000).contains(&message.weight()));
    }
}
