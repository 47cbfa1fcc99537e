//! The words of a message.

use serde_json::Value;

use crate::index::Document;
use crate::message::{Block, Part, Placed};

/// Of longer messages only the beginning can be found.
const MOST: usize = 64 * 1024;

pub(crate) fn document(placed: &Placed) -> Document {
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
            Block::Text(text) | Block::Thinking { text, .. } => self.say(text),
            Block::ToolCall(call) => {
                self.say(&call.name);
                self.value(&call.input);
            }
            Block::ToolResult(result) => {
                for part in &result.content {
                    match part {
                        Part::Text(text) => self.say(text),
                        Part::Image(_) => {}
                    }
                }
            }
            Block::Image(_) => {}
        }
    }

    /// Texts anywhere in it; names of fields are the tool's words, not the speaker's.
    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.say(text),
            Value::Array(values) => values.iter().for_each(|value| self.value(value)),
            Value::Object(fields) => fields.values().for_each(|value| self.value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Without control characters, which excerpts use for themselves.
    fn say(&mut self, text: &str) {
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
