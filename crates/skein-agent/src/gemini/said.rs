//! What the lines of a chat say.
//!
//! A reply is written when it is whole, and again with the calls it made once their tools have answered; what the
//! tools answered follows as a line of its own. A line that sets the list of messages anew repeats what was said.

use serde_json::Value;
use skein_transcript::message::Part;
use skein_transcript::{Block, MessageId, Role, Usage, json};

use crate::agent::Reading;
use crate::said::{self, Latest};

const PROVIDER: &str = "google";

/// How prompts begin that the program itself writes.
const NOT_SAID: [&str; 2] = ["<session_context>", "<hook_context>"];

/// The latest messages: the line's own id, and the message's.
#[derive(Debug, Default)]
pub(super) struct Said {
    told: Latest<(String, MessageId)>,
}

impl Said {
    pub(super) fn line(&mut self, line: &str) -> Vec<Reading> {
        let Ok(told) = json::read::<Value>(line) else {
            return vec![];
        };
        if let Some(from) = told["$rewindTo"].as_str() {
            return self.rewound(from).into_iter().collect();
        }
        let Some(id) = told["id"].as_str() else {
            return vec![];
        };
        match told["type"].as_str() {
            Some("user") => self.user(id, &told, line).into_iter().collect(),
            Some("gemini") => {
                let words = self.reply(id, &told, line);
                let calls = told["toolCalls"].as_array().into_iter().flatten();
                let calls: Vec<Reading> = calls.filter_map(|c| self.call(id, &told, c)).collect();
                words.into_iter().chain(calls).collect()
            }
            _ => vec![],
        }
    }

    /// Everything from this line on is taken back.
    fn rewound(&mut self, from: &str) -> Option<Reading> {
        let first = self.told.iter().position(|(line, _)| line == from)?;
        let (_, to) = self.told.iter().nth(first.checked_sub(1)?)?.clone();
        self.told.truncate(first);
        Some(Reading::Rewound { to })
    }

    fn user(&mut self, id: &str, told: &Value, line: &str) -> Option<Reading> {
        let content = &told["content"];
        let results: Vec<Block> = parts(content).filter_map(result).collect();
        if !results.is_empty() {
            return self.tell(id, said::id(id), Role::Tool, results, told, Some(line));
        }
        let mut words: Vec<Block> = text(content).collect();
        let by_program = |text: &String| NOT_SAID.iter().any(|start| text.starts_with(start));
        words.retain(|block| !matches!(block, Block::Text(text) if by_program(text)));
        self.tell(id, said::id(id), Role::User, words, told, Some(line))
    }

    fn reply(&mut self, id: &str, told: &Value, line: &str) -> Option<Reading> {
        let thoughts = told["thoughts"].as_array().into_iter().flatten();
        let thoughts = thoughts.filter_map(|thought| {
            let part = |key: &str| thought[key].as_str().unwrap_or_default();
            let both = [part("subject"), part("description")].join("\n");
            said::thinking(both.trim(), None)
        });
        let blocks: Vec<Block> = thoughts.chain(text(&told["content"])).collect();
        self.tell(id, said::id(id), Role::Assistant, blocks, told, Some(line))
    }

    fn call(&mut self, id: &str, told: &Value, call: &Value) -> Option<Reading> {
        let name = call["id"].as_str()?;
        let block = said::call(name, call["name"].as_str()?, call["args"].clone());
        let own = said::id(&format!("{id}:{name}"));
        self.tell(id, own, Role::Assistant, vec![block], told, None)
    }

    fn tell(
        &mut self,
        line_id: &str,
        id: MessageId,
        role: Role,
        blocks: Vec<Block>,
        told: &Value,
        line: Option<&str>,
    ) -> Option<Reading> {
        if self.told.iter().any(|(_, known)| *known == id) {
            return None;
        }
        let first = !self.told.iter().any(|(known, _)| known == line_id);
        let at = said::at(told["timestamp"].as_str());
        let mut message = said::message(id.clone(), role, blocks, at)?;
        if role == Role::Assistant && first {
            message.usage = used(&told["tokens"]);
        }
        // With its calls it is not what the model said, but what became of it.
        let whole = line.filter(|_| told["toolCalls"].is_null() && !line_has_pictures(told));
        message.native = whole.and_then(|line| said::native(PROVIDER, line));
        self.told.push((line_id.to_owned(), id));
        Some(said::reading(message))
    }
}

fn line_has_pictures(told: &Value) -> bool {
    parts(&told["content"]).any(|part| part["inlineData"].is_object())
}

fn used(tokens: &Value) -> Usage {
    let number = |key: &str| tokens[key].as_u64().unwrap_or(0);
    let cached = number("cached");
    Usage {
        input: number("input")
            .saturating_add(number("tool"))
            .saturating_sub(cached),
        cache_read: cached,
        output: number("output").saturating_add(number("thoughts")),
        reasoning: number("thoughts"),
        ..Usage::default()
    }
}

/// A text, or a list of parts.
fn parts(content: &Value) -> impl Iterator<Item = &Value> {
    content.as_array().into_iter().flatten()
}

fn text(content: &Value) -> impl Iterator<Item = Block> {
    let whole = content.as_str().and_then(said::text);
    let part = |part: &Value| match part["inlineData"]["data"].as_str() {
        Some(data) => {
            let kind = part["inlineData"]["mimeType"].as_str().unwrap_or("image/*");
            Some(Block::Image(said::image(kind, &format!("data:{data}"))))
        }
        None => said::text(part["text"].as_str()?),
    };
    whole.into_iter().chain(parts(content).filter_map(part))
}

fn result(part: &Value) -> Option<Block> {
    let answer = part.get("functionResponse")?;
    let response = &answer["response"];
    let (told, failed) = match (&response["output"], &response["error"]) {
        (Value::Null, Value::Null) => (response, false),
        (Value::Null, error) => (error, true),
        (output, _) => (output, false),
    };
    let told = told
        .as_str()
        .map_or_else(|| told.to_string(), str::to_owned);
    let content: Vec<Part> = vec![said::part(&told)];
    Some(said::result(answer["id"].as_str()?, content, failed))
}
