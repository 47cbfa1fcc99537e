//! The searchable text of a message.

use serde_json::Value;

use crate::index::Document;
use crate::message::{Block, Part, PositionedMessage};

/// Only this many bytes of a message are searchable.
const MOST: usize = 64 * 1024;

pub(crate) fn document(placed: &PositionedMessage) -> Document {
    let message = &placed.message;
    let mut words = Words(String::new());
    for block in &message.blocks {
        words.block(block);
    }
    Document {
        position: placed.position,
        message: message.id.clone(),
        role: message.role,
        at: message.at,
        text: words.0,
    }
}

struct Words(String);

impl Words {
    fn block(&mut self, block: &Block) {
        match block {
            Block::Text(text) | Block::Thinking { text, .. } => self.push(text),
            Block::ToolCall(call) => {
                self.push(&call.name);
                self.value(&call.input);
            }
            Block::ToolResult(result) => {
                for part in &result.content {
                    match part {
                        Part::Text(text) => self.push(text),
                        Part::Image(_) => {}
                    }
                }
            }
            Block::Image(_) => {}
        }
    }

    /// All strings in the value; field names belong to the tool and are not indexed.
    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.push(text),
            Value::Array(values) => values.iter().for_each(|value| self.value(value)),
            Value::Object(fields) => fields.values().for_each(|value| self.value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces control characters, because excerpts use them as marks.
    fn push(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        let room = MOST.saturating_sub(self.0.len());
        let plain = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
        let fitting = text
            .char_indices()
            .take_while(|(at, c)| at + c.len_utf8() <= room);
        self.0.extend(fitting.map(|(_, c)| plain(c)));
    }
}
