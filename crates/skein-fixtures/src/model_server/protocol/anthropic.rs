//! Anthropic Messages.

use serde_json::{Value, json};

use crate::model_server::conversation::{Conversation, Entry, texts};
use crate::model_server::reply::{Answer, Part, Piece, Rendered, Stamp, stream};

pub(super) fn read(body: &Value) -> Conversation {
    let mut conversation = Conversation {
        model: body["model"].as_str().map(str::to_owned),
        stream: body["stream"] == true,
        tools: names(&body["tools"]),
        schema: ["output_config", "output_format"]
            .iter()
            .flat_map(|key| [&body[key]["format"]["schema"], &body[key]["schema"]])
            .find(|schema| schema.is_object())
            .cloned(),
        ..Conversation::default()
    };
    for text in texts(&body["system"]) {
        conversation.push_instructions(text);
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        conversation.messages += 1;
        match message["role"].as_str() {
            Some("user") => read_user(&mut conversation, &message["content"]),
            Some("assistant") => conversation.entries.push(Entry::Assistant),
            _ => {
                for text in texts(&message["content"]) {
                    conversation.entries.push(Entry::Note(text.to_owned()));
                }
            }
        }
    }
    conversation
}

fn names(tools: &Value) -> Vec<String> {
    let tools = tools.as_array().into_iter().flatten();
    tools
        .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
        .collect()
}

/// Results, texts and additions of the program are separate parts of one list.
fn read_user(conversation: &mut Conversation, content: &Value) {
    match content {
        Value::String(text) => conversation.push_user(text),
        Value::Array(blocks) => {
            for block in blocks {
                match block["type"].as_str() {
                    Some("tool_result") => conversation.entries.push(Entry::Result),
                    Some("text") => conversation.push_user(block["text"].as_str().unwrap_or("")),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

pub(super) fn write(conversation: &Conversation, answer: &Answer, stamp: Stamp) -> Rendered {
    if conversation.stream {
        Rendered::events(events(conversation, answer, stamp))
    } else {
        let mut message = message(conversation, answer, stamp);
        message["content"] = answer
            .parts()
            .iter()
            .enumerate()
            .map(|(index, part)| block(part, stamp, index))
            .collect();
        message["stop_reason"] = stop_reason(answer).into();
        message["usage"]["output_tokens"] = answer.usage.output.into();
        Rendered::json(200, &message)
    }
}

fn message(conversation: &Conversation, answer: &Answer, stamp: Stamp) -> Value {
    json!({
        "id": stamp.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": conversation.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": answer.usage.input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": answer.usage.output.min(1),
        },
    })
}

fn stop_reason(answer: &Answer) -> &'static str {
    if answer.calls() {
        "tool_use"
    } else {
        "end_turn"
    }
}

fn block(part: &Part, stamp: Stamp, index: usize) -> Value {
    match part {
        Part::Text { text, .. } => json!({ "type": "text", "text": text }),
        Part::Call { name, arguments } => json!({
            "type": "tool_use",
            "id": stamp.part("toolu_", index),
            "name": name,
            "input": arguments,
        }),
    }
}

fn event(kind: &str, mut data: Value) -> Piece {
    data["type"] = kind.into();
    Piece::event(Some(kind), &data)
}

fn events(conversation: &Conversation, answer: &Answer, stamp: Stamp) -> Vec<Piece> {
    let start = message(conversation, answer, stamp);
    let mut pieces = vec![event("message_start", json!({ "message": start }))];
    for (index, part) in answer.parts().iter().enumerate() {
        let delta = |delta: Value| {
            event(
                "content_block_delta",
                json!({ "index": index, "delta": delta }),
            )
        };
        let mut empty = block(part, stamp, index);
        match part {
            Part::Text { .. } => empty["text"] = "".into(),
            Part::Call { .. } => empty["input"] = json!({}),
        }
        let start = json!({ "index": index, "content_block": empty });
        pieces.push(event("content_block_start", start));
        match part {
            Part::Text { text, pace } => stream(&mut pieces, text, *pace, |word| {
                delta(json!({ "type": "text_delta", "text": word }))
            }),
            Part::Call { arguments, .. } => pieces.push(delta(json!({
                "type": "input_json_delta",
                "partial_json": arguments.to_string(),
            }))),
        }
        if super::is_cut(answer) {
            pieces.push(Piece::Cut);
            return pieces;
        }
        pieces.push(event("content_block_stop", json!({ "index": index })));
    }
    pieces.push(event(
        "message_delta",
        json!({
            "delta": { "stop_reason": stop_reason(answer), "stop_sequence": null },
            "usage": { "output_tokens": answer.usage.output },
        }),
    ));
    pieces.push(event("message_stop", json!({})));
    pieces
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
        let events = data(&write(&conversation, &example(Duration::ZERO), STAMP));
        let kinds: Vec<&str> = events.iter().filter_map(|e| e["type"].as_str()).collect();
        assert_eq!(
            kinds,
            [
                "message_start",
                "content_block_start",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
                "content_block_start",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop",
            ]
        );
        assert_eq!(events[0]["message"]["id"], "msg_ff0007");
        assert_eq!(events[0]["message"]["usage"]["input_tokens"], 5);
        let call =
            json!({ "type": "tool_use", "id": "toolu_ff000701", "name": "Bash", "input": {} });
        assert_eq!(events[5]["content_block"], call);
        assert_eq!(events[6]["delta"]["partial_json"], r#"{"command":"ls"}"#);
        assert_eq!(events[8]["delta"]["stop_reason"], "tool_use");
        assert_eq!(events[8]["usage"]["output_tokens"], 6);
    }

    #[test]
    fn what_the_program_adds_is_not_the_users() {
        let conversation = read(&json!({ "messages": [
            { "role": "user", "content": [
                { "type": "text", "text": "<system-reminder>a</system-reminder>" },
                { "type": "text", "text": "first" },
            ] },
            { "role": "system", "content": "surroundings" },
            { "role": "assistant", "content": [{ "type": "tool_use" }] },
            { "role": "user", "content": [
                { "type": "tool_result", "content": "second" },
                { "type": "text", "text": "<system-reminder>b</system-reminder>" },
            ] },
        ] }));
        assert_eq!(conversation.users().collect::<Vec<_>>(), ["first"]);
        assert_eq!((conversation.results(), conversation.messages), (1, 4));
    }

    #[test]
    fn an_interrupted_turn_does_not_hide_the_next() {
        let conversation = read(&json!({ "messages": [{ "role": "user", "content": [
            { "type": "text", "text": "first" },
            { "type": "text", "text": "[Request interrupted by user]\n" },
            { "type": "text", "text": "second" },
        ] }] }));
        assert_eq!(
            conversation.users().collect::<Vec<_>>(),
            ["first", "second"]
        );
    }
}
