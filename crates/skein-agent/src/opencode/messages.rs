//! Reads messages from its database.
//!
//! A row is a message with all its parts. A reply contains its calls and the tools' answers; the answers become a
//! separate message.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use skein_transcript::{Block, MessageRole, TokenUsage, json};

use crate::agent::{Reader, Reading};
use crate::messages;

const PROVIDER: &str = "opencode";

#[derive(Deserialize)]
struct Row<'a> {
    id: String,
    at: Option<u64>,
    message: Value,
    #[serde(borrow)]
    parts: &'a RawValue,
}

#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The id of the latest message.
    mark: Option<String>,
}

impl Reader for Messages {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let mut readings = vec![];
        for line in text.lines() {
            if let Ok(row) = serde_json::from_str::<Row<'_>>(line) {
                readings.extend(read(&row));
                self.mark = Some(row.id);
            }
        }
        readings
    }

    fn mark(&self) -> Option<String> {
        self.mark.clone()
    }
}

fn read(row: &Row<'_>) -> Vec<Reading> {
    let parts: Vec<Value> = json::read(row.parts.get()).unwrap_or_default();
    let role = match row.message["role"].as_str() {
        Some("user") => MessageRole::User,
        Some("assistant") => MessageRole::Assistant,
        _ => return vec![],
    };
    let (id, at) = (messages::id(&row.id), messages::at_millis(row.at));
    let mut spoken = messages::message(id, role, parts.iter().filter_map(block), at);
    if let Some(message) = &mut spoken {
        // The rest of the row still changes.
        let pictures = row.parts.get().contains("\"data:");
        message.native = messages::native(PROVIDER, row.parts.get()).filter(|_| !pictures);
        message.usage = used(&row.message);
    }
    let results = messages::id(&format!("{}:results", row.id));
    let answers = parts.iter().filter_map(result);
    let answers = messages::message(results, MessageRole::Tool, answers, at);
    let both = spoken.into_iter().chain(answers);
    both.map(messages::reading).collect()
}

fn block(part: &Value) -> Option<Block> {
    let text = |key: &str| part[key].as_str().unwrap_or_default();
    match part["type"].as_str()? {
        // Added to a prompt by the program, or not sent to the model.
        "text" if part["synthetic"] == true || part["ignored"] == true => None,
        "text" => messages::text(text("text")),
        "reasoning" => messages::thinking(text("text"), None),
        "tool" => {
            let input = part["state"]["input"].clone();
            Some(messages::call(text("callID"), text("tool"), input))
        }
        "file" if text("mime").starts_with("image/") => {
            Some(Block::Image(messages::image(text("mime"), text("url"))))
        }
        _ => None,
    }
}

fn result(part: &Value) -> Option<Block> {
    if part["type"] != "tool" {
        return None;
    }
    let state = &part["state"];
    let failed = match state["status"].as_str()? {
        "completed" => false,
        "error" => true,
        // It was interrupted and will get no answer.
        _ => return None,
    };
    let output = [&state["output"], &state["error"]];
    let output = output.iter().find_map(|value| value.as_str());
    let content = vec![messages::part(output.unwrap_or_default())];
    Some(messages::result(part["callID"].as_str()?, content, failed))
}

fn used(info: &Value) -> TokenUsage {
    let tokens = &info["tokens"];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let reasoning = number(&tokens["reasoning"]);
    let cost = info["cost"].as_f64().map(|cost| cost.to_string());
    TokenUsage {
        input: number(&tokens["input"]),
        output: number(&tokens["output"]).saturating_add(reasoning),
        cache_read: number(&tokens["cache"]["read"]),
        cache_write: number(&tokens["cache"]["write"]),
        reasoning,
        cost_micros: cost.and_then(|c| crate::hooks::micros(&c)).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_with_calls_is_two_messages_and_the_mark_goes_with_it() {
        let prompt = r#"{"id":"msg_1","at":5,"message":{"role":"user"},"parts":[{"type":"text","text":"do it"},{"type":"text","text":"called the tool","synthetic":true}]}"#;
        let reply = r#"{"id":"msg_2","at":6,"message":{"role":"assistant","cost":0.023307,"tokens":{"input":7689,"output":16,"reasoning":4,"cache":{"read":3,"write":2}}},"parts":[{"type":"step-start"},{"type":"reasoning","text":"hm"},{"type":"text","text":"I run it"},{"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","input":{"command":"echo"},"output":"hello\n"}},{"type":"tool","tool":"bash","callID":"c2","state":{"status":"error","input":{},"error":"no"}},{"type":"tool","tool":"bash","callID":"c3","state":{"status":"running","input":{}}}]}"#;
        let mut reader = Messages::default();
        assert_eq!(reader.mark(), None);
        let found = reader.read(&format!("{prompt}\n{reply}\nnonsense\n"));
        let found: Vec<_> = found
            .into_iter()
            .map(|reading| match reading {
                Reading::Message(message) => *message,
                other => panic!("{other:?}"),
            })
            .collect();
        let ids: Vec<&str> = found.iter().map(|m| m.id.as_str()).collect();
        assert_eq!(ids, ["msg_1", "msg_2", "msg_2:results"]);
        assert_eq!(found[0].blocks, [Block::Text("do it".into())]);
        assert_eq!(found[1].calls().count(), 3);
        assert_eq!(found[1].blocks.len(), 5);
        assert_eq!(found[1].usage.output, 20);
        assert_eq!(found[1].usage.cost_micros, 23_307);
        assert_eq!(found[2].role, MessageRole::Tool);
        assert_eq!(found[2].results().count(), 2);
        assert_eq!(reader.mark().as_deref(), Some("msg_2"));
    }
}
