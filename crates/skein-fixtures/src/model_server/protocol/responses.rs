//! OpenAI Responses.

use serde_json::{Value, json};

use crate::model_server::conversation::{Conversation, Entry, texts};
use crate::model_server::reply::{Answer, Part, Piece, Rendered, Stamp, stream};

pub(super) fn read(body: &Value) -> Conversation {
    let format = &body["text"]["format"];
    let mut conversation = Conversation {
        model: body["model"].as_str().map(str::to_owned),
        stream: body["stream"] == true,
        schema: Some(&format["schema"])
            .filter(|schema| schema.is_object())
            .cloned(),
        ..Conversation::default()
    };
    if let Some(text) = body["instructions"].as_str() {
        conversation.push_instructions(text);
    }
    add_tools(&mut conversation, &body["tools"]);
    match &body["input"] {
        Value::String(text) => {
            conversation.messages = 1;
            conversation.push_user(text);
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| read_item(&mut conversation, item)),
        _ => {}
    }
    conversation
}

/// Tools may be in groups.
fn add_tools(conversation: &mut Conversation, tools: &Value) {
    for tool in tools.as_array().into_iter().flatten() {
        if tool["tools"].is_array() {
            add_tools(conversation, &tool["tools"]);
        } else if let Some(name) = tool["name"].as_str().or_else(|| tool["type"].as_str()) {
            conversation.tools.push(name.to_owned());
        }
    }
}

fn read_item(conversation: &mut Conversation, item: &Value) {
    let kind = item["type"].as_str().unwrap_or("message");
    if kind.ends_with("_output") {
        conversation.messages += 1;
        conversation.entries.push(Entry::Result);
        return;
    }
    if kind == "additional_tools" {
        add_tools(conversation, &item["tools"]);
        return;
    }
    conversation.messages += 1;
    if kind != "message" {
        return;
    }
    let texts = texts(&item["content"]);
    match item["role"].as_str() {
        Some("user") => texts.iter().for_each(|text| conversation.push_user(text)),
        Some("assistant") => conversation.entries.push(Entry::Assistant),
        _ => texts
            .iter()
            .for_each(|text| conversation.push_instructions(text)),
    }
}

pub(super) fn write(
    conversation: &Conversation,
    answer: &Answer,
    stamp: Stamp,
    now: u64,
) -> Rendered {
    let items = answer.parts().iter().enumerate();
    let items: Vec<Value> = items
        .map(|(index, part)| item(part, stamp, index, "completed"))
        .collect();
    let mut whole = json!({
        "id": stamp.id("resp_"),
        "object": "response",
        "created_at": now,
        "status": "completed",
        "model": conversation.model,
        "output": items,
        "usage": {
            "input_tokens": answer.usage.input,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": answer.usage.output,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": answer.usage.total(),
        },
    });
    if !conversation.stream {
        return Rendered::json(200, &whole);
    }
    let mut writer = Writer::default();
    let done = whole.clone();
    whole["status"] = "in_progress".into();
    whole["output"] = json!([]);
    whole["usage"] = Value::Null;
    writer.event("response.created", json!({ "response": whole }));
    for (index, part) in answer.parts().iter().enumerate() {
        writer.part(part, stamp, index);
        if super::is_cut(answer) {
            writer.pieces.push(Piece::Cut);
            return Rendered::events(writer.pieces);
        }
        let item = item(part, stamp, index, "completed");
        writer.event(
            "response.output_item.done",
            json!({ "output_index": index, "item": item }),
        );
    }
    writer.event("response.completed", json!({ "response": done }));
    Rendered::events(writer.pieces)
}

fn item(part: &Part, stamp: Stamp, index: usize, status: &str) -> Value {
    match part {
        Part::Text { text, .. } => json!({
            "id": stamp.part("msg_", index),
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Part::Call {
            name,
            arguments: Value::String(input),
        } => json!({
            "id": stamp.part("ctc_", index),
            "type": "custom_tool_call",
            "status": status,
            "call_id": stamp.part("call_", index),
            "name": name,
            "input": input,
        }),
        Part::Call { name, arguments } => json!({
            "id": stamp.part("fc_", index),
            "type": "function_call",
            "status": status,
            "call_id": stamp.part("call_", index),
            "name": name,
            "arguments": arguments.to_string(),
        }),
    }
}

/// Numbers the events.
#[derive(Default)]
struct Writer {
    pieces: Vec<Piece>,
    next: u64,
}

impl Writer {
    fn made(&mut self, kind: &str, mut data: Value) -> Piece {
        data["type"] = kind.into();
        data["sequence_number"] = self.next.into();
        self.next += 1;
        Piece::event(Some(kind), &data)
    }

    fn event(&mut self, kind: &str, data: Value) {
        let piece = self.made(kind, data);
        self.pieces.push(piece);
    }

    fn part(&mut self, part: &Part, stamp: Stamp, index: usize) {
        let mut empty = item(part, stamp, index, "in_progress");
        let id = empty["id"].clone();
        match part {
            Part::Text { .. } => empty["content"] = json!([]),
            Part::Call {
                arguments: Value::String(_),
                ..
            } => empty["input"] = "".into(),
            Part::Call { .. } => empty["arguments"] = "".into(),
        }
        self.event(
            "response.output_item.added",
            json!({ "output_index": index, "item": empty }),
        );
        let about = json!({ "item_id": id, "output_index": index });
        let with = |more: Value| {
            let mut data = about.clone();
            if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
                data.extend(more);
            }
            data
        };
        match part {
            Part::Text { text, pace } => {
                let content =
                    |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
                self.event(
                    "response.content_part.added",
                    with(json!({ "content_index": 0, "part": content("") })),
                );
                let mut pieces = std::mem::take(&mut self.pieces);
                stream(&mut pieces, text, *pace, |word| {
                    let data = with(json!({ "content_index": 0, "delta": word }));
                    self.made("response.output_text.delta", data)
                });
                self.pieces = pieces;
                self.event(
                    "response.output_text.done",
                    with(json!({ "content_index": 0, "text": text })),
                );
                self.event(
                    "response.content_part.done",
                    with(json!({ "content_index": 0, "part": content(text) })),
                );
            }
            Part::Call {
                arguments: Value::String(input),
                ..
            } => {
                self.event(
                    "response.custom_tool_call_input.delta",
                    with(json!({ "delta": input })),
                );
                self.event(
                    "response.custom_tool_call_input.done",
                    with(json!({ "input": input })),
                );
            }
            Part::Call { arguments, .. } => {
                let arguments = arguments.to_string();
                self.event(
                    "response.function_call_arguments.delta",
                    with(json!({ "delta": arguments })),
                );
                self.event(
                    "response.function_call_arguments.done",
                    with(json!({ "arguments": arguments })),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model_server::reply::{data, example};

    const STAMP: Stamp = Stamp { began: 255, n: 7 };

    #[test]
    fn a_stream_has_the_events_that_clients_expect() {
        let conversation = read(&json!({ "model": "m", "stream": true }));
        let events = data(&write(&conversation, &example(Duration::ZERO), STAMP, 9));
        let kinds: Vec<&str> = events.iter().filter_map(|e| e["type"].as_str()).collect();
        assert_eq!(
            kinds,
            [
                "response.created",
                "response.output_item.added",
                "response.content_part.added",
                "response.output_text.delta",
                "response.output_text.delta",
                "response.output_text.done",
                "response.content_part.done",
                "response.output_item.done",
                "response.output_item.added",
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "response.output_item.done",
                "response.completed",
            ]
        );
        let numbers: Vec<u64> = events
            .iter()
            .filter_map(|e| e["sequence_number"].as_u64())
            .collect();
        assert_eq!(numbers, (0..13).collect::<Vec<_>>());
        assert_eq!(events[11]["item"]["call_id"], "call_ff000701");
        let response = &events[12]["response"];
        assert_eq!(response["usage"]["total_tokens"], 11);
        assert_eq!(response["output"][0]["content"][0]["text"], "one two");
    }

    #[test]
    fn tools_are_found_in_groups_and_among_the_input() {
        let conversation = read(&json!({
            "tools": [{ "type": "web_search" }, { "type": "function", "name": "a" }],
            "input": [
                { "type": "additional_tools", "role": "developer", "tools": [
                    { "type": "namespace", "name": "functions", "tools": [{ "type": "custom", "name": "exec" }] },
                ] },
                { "role": "user", "content": "hello" },
            ],
        }));
        assert_eq!(conversation.tools, ["web_search", "a", "exec"]);
        assert_eq!(conversation.last_user().as_deref(), Some("hello"));
    }

    #[test]
    fn a_free_text_tool_gets_free_text() {
        let mut answer = example(Duration::ZERO);
        answer.what = crate::model_server::reply::What::Parts {
            parts: vec![Part::Call {
                name: "exec".into(),
                arguments: "text(1)".into(),
            }],
            finish: crate::model_server::reply::Finish::Properly,
        };
        let conversation = read(&json!({ "stream": true }));
        let events = data(&write(&conversation, &answer, STAMP, 9));
        let item = &events[4]["item"];
        assert_eq!(
            (&item["type"], &item["input"]),
            (&json!("custom_tool_call"), &json!("text(1)"))
        );
    }
}
