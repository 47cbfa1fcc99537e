//! OpenAI Chat Completions.

use serde_json::{Value, json};

use crate::model_server::conversation::{Conversation, Entry, texts};
use crate::model_server::reply::{Answer, Part, Piece, Rendered, Stamp, stream};

pub(super) fn read(body: &Value) -> Conversation {
    let tools = body["tools"].as_array().into_iter().flatten();
    let mut conversation = Conversation {
        model: body["model"].as_str().map(str::to_owned),
        stream: body["stream"] == true,
        tools: tools
            .filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned))
            .collect(),
        schema: Some(&body["response_format"]["json_schema"]["schema"])
            .filter(|schema| schema.is_object())
            .cloned(),
        ..Conversation::default()
    };
    for message in body["messages"].as_array().into_iter().flatten() {
        conversation.messages += 1;
        let texts = texts(&message["content"]);
        match message["role"].as_str() {
            Some("user") => texts.iter().for_each(|text| conversation.push_user(text)),
            Some("assistant") => conversation.entries.push(Entry::Assistant),
            Some("tool" | "function") => conversation.entries.push(Entry::Result),
            _ => texts
                .iter()
                .for_each(|text| conversation.push_instructions(text)),
        }
    }
    conversation
}

pub(super) fn write(
    conversation: &Conversation,
    answer: &Answer,
    stamp: Stamp,
    now: u64,
) -> Rendered {
    if conversation.stream {
        return Rendered::events(events(conversation, answer, stamp, now));
    }
    let mut message = json!({ "role": "assistant", "content": answer.text() });
    let calls = calls(answer, stamp);
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let mut whole = envelope(conversation, stamp, now, "chat.completion");
    whole["choices"] =
        json!([{ "index": 0, "message": message, "finish_reason": finish_reason(answer) }]);
    whole["usage"] = usage(answer);
    Rendered::json(200, &whole)
}

fn envelope(conversation: &Conversation, stamp: Stamp, now: u64, object: &str) -> Value {
    json!({
        "id": stamp.id("chatcmpl-"),
        "object": object,
        "created": now,
        "model": conversation.model,
        "choices": [],
    })
}

fn finish_reason(answer: &Answer) -> &'static str {
    if answer.calls() { "tool_calls" } else { "stop" }
}

fn usage(answer: &Answer) -> Value {
    json!({
        "prompt_tokens": answer.usage.input,
        "completion_tokens": answer.usage.output,
        "total_tokens": answer.usage.total(),
    })
}

fn calls(answer: &Answer, stamp: Stamp) -> Vec<Value> {
    let mut calls: Vec<Value> = vec![];
    for part in answer.parts() {
        if let Part::Call { name, arguments } = part {
            let index = calls.len();
            calls.push(json!({
                "index": index,
                "id": stamp.part("call_", index),
                "type": "function",
                "function": { "name": name, "arguments": arguments.to_string() },
            }));
        }
    }
    calls
}

fn events(conversation: &Conversation, answer: &Answer, stamp: Stamp, now: u64) -> Vec<Piece> {
    let chunk = |choices: Value| {
        let mut chunk = envelope(conversation, stamp, now, "chat.completion.chunk");
        chunk["choices"] = choices;
        chunk
    };
    let delta = |delta: Value| {
        let choice = json!([{ "index": 0, "delta": delta, "finish_reason": null }]);
        Piece::event(None, &chunk(choice))
    };
    let mut pieces = vec![delta(json!({ "role": "assistant", "content": "" }))];
    let mut first = true;
    for part in answer.parts() {
        if let Part::Text { text, pace } = part {
            if !std::mem::take(&mut first) {
                pieces.push(delta(json!({ "content": "\n\n" })));
            }
            stream(&mut pieces, text, *pace, |word| {
                delta(json!({ "content": word }))
            });
        }
    }
    if super::is_cut(answer) {
        pieces.push(Piece::Cut);
        return pieces;
    }
    for call in calls(answer, stamp) {
        pieces.push(delta(json!({ "tool_calls": [call] })));
    }
    let last = json!([{ "index": 0, "delta": {}, "finish_reason": finish_reason(answer) }]);
    pieces.push(Piece::event(None, &chunk(last)));
    let mut tail = chunk(json!([]));
    tail["usage"] = usage(answer);
    pieces.push(Piece::event(None, &tail));
    pieces.push(Piece::Bytes("data: [DONE]\n\n".into()));
    pieces
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model_server::reply::{data, example};

    const STAMP: Stamp = Stamp { began: 255, n: 7 };

    #[test]
    fn a_stream_has_the_chunks_that_clients_expect() {
        let conversation = read(&json!({ "model": "m", "stream": true }));
        let rendered = write(&conversation, &example(Duration::ZERO), STAMP, 9);
        let chunks = data(&rendered);
        let deltas: Vec<&Value> = chunks.iter().map(|c| &c["choices"][0]["delta"]).collect();
        assert_eq!(deltas[0], &json!({ "role": "assistant", "content": "" }));
        assert_eq!(deltas[1], &json!({ "content": "one " }));
        assert_eq!(deltas[2], &json!({ "content": "two" }));
        let function = json!({ "name": "Bash", "arguments": r#"{"command":"ls"}"# });
        let call =
            json!({ "index": 0, "id": "call_ff000700", "type": "function", "function": function });
        assert_eq!(deltas[3], &json!({ "tool_calls": [call] }));
        assert_eq!(chunks[4]["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(chunks[5]["choices"], json!([]));
        assert_eq!(chunks[5]["usage"]["total_tokens"], 11);
        assert_eq!(chunks.len(), 6);
        let Some(Piece::Bytes(last)) = rendered.pieces.last() else {
            panic!("{rendered:?}");
        };
        assert_eq!(&last[..], b"data: [DONE]\n\n");
    }
}
