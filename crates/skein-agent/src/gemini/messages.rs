//! Reads messages from the lines of a chat.
//!
//! The program writes a reply when it is complete, and again with its calls once their tools have answered; a
//! separate line with the answers follows. A line that sets the whole list of messages repeats them.

use serde_json::Value;
use skein_transcript::message::Part;
use skein_transcript::{Block, MessageId, MessageRole, TokenUsage, json};

use crate::agent::Reading;
use crate::messages::{self, Latest};

const PROVIDER: &str = "google";

/// Beginnings of prompts that the program itself writes.
const NOT_MESSAGES: [&str; 2] = ["<session_context>", "<hook_context>"];

/// The latest messages: the line's id, and the message's.
#[derive(Debug, Default)]
pub(super) struct ChatMessages {
    known: Latest<(String, MessageId)>,
}

/// A line with an id.
struct Line<'a> {
    id: &'a str,
    fields: &'a Value,
    text: &'a str,
}

impl ChatMessages {
    pub(super) fn line(&mut self, text: &str) -> Vec<Reading> {
        let Ok(fields) = json::read::<Value>(text) else {
            return vec![];
        };
        if let Some(from) = fields["$rewindTo"].as_str() {
            return self.rewound(from).into_iter().collect();
        }
        let Some(id) = fields["id"].as_str() else {
            return vec![];
        };
        let fields = &fields;
        let line = Line { id, fields, text };
        match fields["type"].as_str() {
            Some("user") => self.user(&line).into_iter().collect(),
            Some("gemini") => {
                let words = self.reply(&line);
                let calls = fields["toolCalls"].as_array().into_iter().flatten();
                let calls: Vec<Reading> = calls.filter_map(|c| self.call(&line, c)).collect();
                words.into_iter().chain(calls).collect()
            }
            _ => vec![],
        }
    }

    /// Everything from this line on is undone.
    fn rewound(&mut self, from: &str) -> Option<Reading> {
        let first = self.known.iter().position(|(line, _)| line == from)?;
        let (_, to) = self.known.iter().nth(first.checked_sub(1)?)?.clone();
        self.known.truncate(first);
        Some(Reading::Rewound { to })
    }

    fn user(&mut self, line: &Line<'_>) -> Option<Reading> {
        let content = &line.fields["content"];
        let results: Vec<Block> = parts(content).filter_map(result).collect();
        if !results.is_empty() {
            return self.add(line, messages::id(line.id), MessageRole::Tool, results);
        }
        let mut words: Vec<Block> = text(content).collect();
        let by_program = |text: &String| NOT_MESSAGES.iter().any(|start| text.starts_with(start));
        words.retain(|block| !matches!(block, Block::Text(text) if by_program(text)));
        self.add(line, messages::id(line.id), MessageRole::User, words)
    }

    fn reply(&mut self, line: &Line<'_>) -> Option<Reading> {
        let thoughts = line.fields["thoughts"].as_array().into_iter().flatten();
        let thoughts = thoughts.filter_map(|thought| {
            let part = |key: &str| thought[key].as_str().unwrap_or_default();
            let both = [part("subject"), part("description")].join("\n");
            messages::thinking(both.trim(), None)
        });
        let blocks: Vec<Block> = thoughts.chain(text(&line.fields["content"])).collect();
        self.add(line, messages::id(line.id), MessageRole::Assistant, blocks)
    }

    fn call(&mut self, line: &Line<'_>, call: &Value) -> Option<Reading> {
        let name = call["id"].as_str()?;
        let block = messages::call(name, call["name"].as_str()?, call["args"].clone());
        let own = messages::id(&format!("{}:{name}", line.id));
        self.add(line, own, MessageRole::Assistant, vec![block])
    }

    fn add(
        &mut self,
        line: &Line<'_>,
        id: MessageId,
        role: MessageRole,
        blocks: Vec<Block>,
    ) -> Option<Reading> {
        if self.known.iter().any(|(_, known)| *known == id) {
            return None;
        }
        let first = !self.known.iter().any(|(known, _)| known == line.id);
        let at = messages::at(line.fields["timestamp"].as_str());
        let mut message = messages::message(id.clone(), role, blocks, at)?;
        if role == MessageRole::Assistant && first {
            message.usage = used(&line.fields["tokens"]);
        }
        // With its calls the line is no longer the model's own message.
        let whole = line.fields["toolCalls"].is_null() && !line_has_pictures(line.fields);
        message.native = messages::native(PROVIDER, line.text).filter(|_| whole);
        self.known.push((line.id.to_owned(), id));
        Some(messages::reading(message))
    }
}

fn line_has_pictures(line_fields: &Value) -> bool {
    parts(&line_fields["content"]).any(|part| part["inlineData"].is_object())
}

fn used(tokens: &Value) -> TokenUsage {
    let number = |key: &str| tokens[key].as_u64().unwrap_or(0);
    let cached = number("cached");
    TokenUsage {
        input: number("input")
            .saturating_add(number("tool"))
            .saturating_sub(cached),
        cache_read: cached,
        output: number("output").saturating_add(number("thoughts")),
        reasoning: number("thoughts"),
        ..TokenUsage::default()
    }
}

/// A text, or a list of parts.
fn parts(content: &Value) -> impl Iterator<Item = &Value> {
    content.as_array().into_iter().flatten()
}

fn text(content: &Value) -> impl Iterator<Item = Block> {
    let whole = content.as_str().and_then(messages::text);
    let part = |part: &Value| match part["inlineData"]["data"].as_str() {
        Some(data) => {
            let kind = part["inlineData"]["mimeType"].as_str().unwrap_or("image/*");
            Some(Block::Image(messages::image(kind, &format!("data:{data}"))))
        }
        None => messages::text(part["text"].as_str()?),
    };
    whole.into_iter().chain(parts(content).filter_map(part))
}

fn result(part: &Value) -> Option<Block> {
    let answer = part.get("functionResponse")?;
    let response = &answer["response"];
    let (line_fields, failed) = match (&response["output"], &response["error"]) {
        (Value::Null, Value::Null) => (response, false),
        (Value::Null, error) => (error, true),
        (output, _) => (output, false),
    };
    let line_fields = line_fields
        .as_str()
        .map_or_else(|| line_fields.to_string(), str::to_owned);
    let content: Vec<Part> = vec![messages::part(&line_fields)];
    Some(messages::result(answer["id"].as_str()?, content, failed))
}
