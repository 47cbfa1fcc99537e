//! Collects the messages of a turn for the journal, which gets each message once it is complete.
//!
//! Programs send text a few letters at a time, and calls before their inputs are known. A resumed conversation repeats
//! messages outside of turns; they are not journalled again.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::protocol::DisplayItem;

/// Longest text of a message. Longer text is truncated with a marker.
const LONGEST: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct MessageCollector {
    thinking: String,
    text: String,
    /// Calls that are not journalled yet, because their inputs may still come.
    calls: Vec<ToolCall>,
    journalled: HashSet<String>,
}

#[derive(Debug)]
struct ToolCall {
    id: String,
    name: String,
    title: String,
    input: Value,
}

/// A message, as the journal has it.
pub(crate) fn message(role: &str, blocks: Vec<Value>) -> Value {
    json!({"role": role, "blocks": blocks})
}

pub(crate) fn text(text: &str) -> Value {
    json!({"type": "text", "text": bounded(text)})
}

impl MessageCollector {
    /// The messages that are complete now.
    pub(crate) fn show(&mut self, shown: &DisplayItem) -> Vec<Value> {
        match shown {
            DisplayItem::Text(text) => {
                let before = self.finish_calls();
                grow(&mut self.text, text);
                before
            }
            DisplayItem::Thinking(text) => {
                let before = self.finish_message();
                grow(&mut self.thinking, text);
                before
            }
            DisplayItem::TextEnd if self.text.trim().is_empty() => vec![],
            DisplayItem::TextEnd => self.finish_text(),
            DisplayItem::Tool {
                id,
                title,
                name,
                input,
            } => {
                let before = self.finish_text();
                self.call(id, title, name, input);
                before
            }
            DisplayItem::ToolDone {
                id,
                title,
                failed,
                result,
            } => {
                // Programs announce some calls only when they are over.
                if let Some(title) = title {
                    self.call(id, title, "tool", &Value::Null);
                }
                let mut out = self.finish_message();
                if self.journalled.contains(id) {
                    let result = bounded(result);
                    let block =
                        json!({"type": "result", "call": id, "text": result, "failed": failed});
                    out.push(message("tool", vec![block]));
                }
                out
            }
            DisplayItem::Prompt(_) | DisplayItem::Plan(_) | DisplayItem::Note(_) => vec![],
        }
    }

    /// The turn is over, or waits for an answer, so all messages are complete.
    pub(crate) fn finish_message(&mut self) -> Vec<Value> {
        let mut out = self.finish_text();
        out.extend(self.finish_calls());
        out
    }

    pub(crate) fn end_turn(&mut self) -> Vec<Value> {
        let out = self.finish_message();
        self.journalled.clear();
        out
    }

    fn call(&mut self, id: &str, title: &str, name: &str, input: &Value) {
        if self.journalled.contains(id) {
            return;
        }
        match self.calls.iter_mut().find(|call| call.id == id) {
            Some(call) if !is_empty(input) => call.input = input.clone(),
            Some(_) => {}
            None => self.calls.push(ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                title: title.to_owned(),
                input: input.clone(),
            }),
        }
    }

    fn finish_text(&mut self) -> Vec<Value> {
        let (thinking, answer) = (
            std::mem::take(&mut self.thinking),
            std::mem::take(&mut self.text),
        );
        let mut blocks = vec![];
        if !thinking.trim().is_empty() {
            blocks.push(json!({"type": "thinking", "text": bounded(&thinking)}));
        }
        if !answer.trim().is_empty() {
            blocks.push(text(answer.trim_end()));
        }
        if blocks.is_empty() {
            return vec![];
        }
        vec![message("assistant", blocks)]
    }

    fn finish_calls(&mut self) -> Vec<Value> {
        let calls = std::mem::take(&mut self.calls);
        let blocks: Vec<Value> = calls
            .into_iter()
            .map(|call| {
                let input = match is_empty(&call.input) {
                    true => json!({"title": call.title}),
                    false => call.input,
                };
                let (id, name) = (call.id, call.name);
                let block = json!({"type": "call", "id": id, "name": name, "input": input});
                self.journalled.insert(id);
                block
            })
            .collect();
        if blocks.is_empty() {
            return vec![];
        }
        vec![message("assistant", blocks)]
    }
}

fn is_empty(input: &Value) -> bool {
    input.is_null() || input.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Keeps a little more than the longest text, which shows that there was more.
fn grow(text: &mut String, more: &str) {
    if text.len() <= LONGEST {
        text.push_str(more);
    }
}

fn bounded(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST);
    format!("{}\n[the rest was left out]", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(id: &str, input: Value) -> DisplayItem {
        DisplayItem::Tool {
            id: id.into(),
            title: "run".into(),
            name: "bash".into(),
            input,
        }
    }

    fn done(id: &str) -> DisplayItem {
        DisplayItem::ToolDone {
            id: id.into(),
            title: None,
            failed: false,
            result: "ok".into(),
        }
    }

    #[test]
    fn text_is_journalled_when_it_is_whole_and_calls_with_what_is_known_of_them() {
        let mut collector = MessageCollector::default();
        let shown = [
            DisplayItem::Thinking("hm".into()),
            DisplayItem::TextEnd,
            DisplayItem::Text("I will ".into()),
            DisplayItem::Text("run it\n".into()),
            tool("c1", json!({})),
            tool("c1", json!({"command": "ls"})),
            tool("c2", Value::Null),
            done("c1"),
            done("c2"),
            done("unheard of"),
            DisplayItem::Text("done".into()),
        ];
        let messages: Vec<Value> = shown.iter().flat_map(|s| collector.show(s)).collect();
        let call = |id: &str, input: Value| json!({"type": "call", "id": id, "name": "bash", "input": input});
        let result =
            |id: &str| json!({"type": "result", "call": id, "text": "ok", "failed": false});
        let thought = json!({"type": "thinking", "text": "hm"});
        assert_eq!(
            messages,
            [
                message("assistant", vec![thought, text("I will run it")]),
                message(
                    "assistant",
                    vec![
                        call("c1", json!({"command": "ls"})),
                        call("c2", json!({"title": "run"}))
                    ]
                ),
                message("tool", vec![result("c1")]),
                message("tool", vec![result("c2")]),
            ]
        );
        assert_eq!(
            collector.end_turn(),
            [message("assistant", vec![text("done")])]
        );
        assert_eq!(collector.end_turn(), [Value::Null; 0]);
    }
}
