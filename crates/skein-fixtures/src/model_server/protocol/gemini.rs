//! Gemini's `generateContent` and `streamGenerateContent`.

use serde_json::{Value, json};

use crate::model_server::conversation::{Asker, Conversation, Entry, texts};
use crate::model_server::reply::{Answer, Part, Piece, Rendered, Stamp, stream};

pub(super) fn read(path: &str, query: &str, body: &Value) -> Conversation {
    let last = path.rsplit('/').next().unwrap_or("");
    let streams = last.ends_with(":streamGenerateContent");
    let tools = body["tools"].as_array().into_iter().flatten();
    let config = &body["generationConfig"];
    let mut conversation = Conversation {
        model: last.split(':').next().map(str::to_owned),
        // Without this the stream is one JSON array, which no streaming client requests.
        stream: streams && query.split('&').any(|pair| pair == "alt=sse"),
        tools: tools
            .flat_map(|tool| {
                tool["functionDeclarations"]
                    .as_array()
                    .into_iter()
                    .flatten()
            })
            .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
            .collect(),
        schema: ["responseJsonSchema", "responseSchema"]
            .iter()
            .map(|key| &config[key])
            .find(|schema| schema.is_object())
            .cloned(),
        asker: Asker::AlwaysTools,
        ..Conversation::default()
    };
    for text in texts(&body["systemInstruction"]["parts"]) {
        conversation.push_instructions(text);
    }
    for content in body["contents"].as_array().into_iter().flatten() {
        conversation.messages += 1;
        if content["role"] == "model" {
            conversation.entries.push(Entry::Assistant);
            continue;
        }
        for part in content["parts"].as_array().into_iter().flatten() {
            if part["functionResponse"].is_object() {
                conversation.entries.push(Entry::Result);
            } else if let Some(text) = part["text"].as_str() {
                conversation.push_user(text);
            }
        }
    }
    conversation
}

pub(super) fn write(conversation: &Conversation, answer: &Answer, stamp: Stamp) -> Rendered {
    if conversation.stream {
        return Rendered::events(events(conversation, answer, stamp));
    }
    let parts = answer.parts().iter().map(part).collect();
    let mut whole = chunk(conversation, stamp, parts);
    finish(&mut whole, answer);
    Rendered::json(200, &whole)
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text { text, .. } => json!({ "text": text }),
        Part::Call { name, arguments } => {
            json!({ "functionCall": { "name": name, "args": arguments } })
        }
    }
}

fn chunk(conversation: &Conversation, stamp: Stamp, parts: Vec<Value>) -> Value {
    json!({
        "candidates": [{ "content": { "role": "model", "parts": parts }, "index": 0 }],
        "modelVersion": conversation.model,
        "responseId": stamp.id("resp-"),
    })
}

fn finish(chunk: &mut Value, answer: &Answer) {
    chunk["candidates"][0]["finishReason"] = "STOP".into();
    chunk["usageMetadata"] = json!({
        "promptTokenCount": answer.usage.input,
        "candidatesTokenCount": answer.usage.output,
        "cachedContentTokenCount": 0,
        "totalTokenCount": answer.usage.total(),
    });
}

fn events(conversation: &Conversation, answer: &Answer, stamp: Stamp) -> Vec<Piece> {
    let event = |parts: Vec<Value>| Piece::event(None, &chunk(conversation, stamp, parts));
    let mut pieces = vec![];
    for each in answer.parts() {
        match each {
            Part::Text { text, pace } => {
                stream(&mut pieces, text, *pace, |word| {
                    event(vec![json!({ "text": word })])
                });
            }
            Part::Call { .. } => pieces.push(event(vec![part(each)])),
        }
    }
    if super::is_cut(answer) {
        pieces.push(Piece::Cut);
        return pieces;
    }
    let mut last = chunk(conversation, stamp, vec![json!({ "text": "" })]);
    finish(&mut last, answer);
    pieces.push(Piece::event(None, &last));
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
        let path = "/v1beta/models/m:streamGenerateContent";
        let conversation = read(path, "key=x&alt=sse", &json!({}));
        assert_eq!(conversation.model.as_deref(), Some("m"));
        let chunks = data(&write(&conversation, &example(Duration::ZERO), STAMP));
        let parts: Vec<&Value> = chunks
            .iter()
            .map(|chunk| &chunk["candidates"][0]["content"]["parts"][0])
            .collect();
        let call = json!({ "functionCall": { "name": "Bash", "args": { "command": "ls" } } });
        assert_eq!(
            parts,
            [
                &json!({ "text": "one " }),
                &json!({ "text": "two" }),
                &call,
                &json!({ "text": "" })
            ]
        );
        assert_eq!(chunks[3]["candidates"][0]["finishReason"], "STOP");
        assert_eq!(chunks[3]["usageMetadata"]["totalTokenCount"], 11);
    }
}
