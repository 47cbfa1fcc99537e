//! `{id, content: {role, parts}}`: a content of the Google GenAI SDK.

use serde_json::{Value, json};

use super::{Content, ToolNames, call, has_only_results, inline_picture, outcome, picture};
use crate::message::{Block, Message, MessageRole, Part, ToolOutcome, ToolResult};

pub(super) fn is_one(envelope: &Value) -> bool {
    let content = &envelope["content"];
    content["parts"].is_array() || (content["role"].is_string() && content["parts"].is_null())
}

pub(super) fn read(envelope: &Value) -> Content {
    let content = &envelope["content"];
    let (blocks, unknown) = Content::collect(&content["parts"], block, kind);
    let role = match content["role"].as_str() {
        Some("system") => MessageRole::System,
        Some("model") => MessageRole::Assistant,
        Some("function" | "tool") => MessageRole::Tool,
        _ if has_only_results(&blocks) => MessageRole::Tool,
        _ => MessageRole::User,
    };
    Content {
        role,
        blocks,
        unknown,
    }
}

fn block(part: &Value) -> Option<Block> {
    if let Some(text) = part["text"].as_str() {
        let text = text.to_owned();
        return Some(match part["thought"] {
            Value::Bool(true) => Block::Thinking {
                text,
                signature: part["thoughtSignature"].as_str().map(str::to_owned),
            },
            _ => Block::Text(text),
        });
    }
    let asked = &part["functionCall"];
    if asked.is_object() {
        let input = match &asked["args"] {
            Value::Null => json!({}),
            args => args.clone(),
        };
        return call(&asked["id"], &asked["name"], input);
    }
    let returned = &part["functionResponse"];
    if returned.is_object() {
        let call = returned["id"].as_str().or(returned["name"].as_str())?;
        return Some(Block::ToolResult(ToolResult {
            call: call.to_owned(),
            content: result(&returned["response"]),
            outcome: outcome(returned["response"].get("error").is_some()),
        }));
    }
    let media_type = |data: &Value| data["mimeType"].as_str().unwrap_or("image/*").to_owned();
    let (inline, file) = (&part["inlineData"], &part["fileData"]);
    if let Some(data) = inline["data"].as_str() {
        return Some(Block::Image(inline_picture(&media_type(inline), data)));
    }
    let uri = file["fileUri"].as_str()?;
    Some(Block::Image(picture(&media_type(file), uri)))
}

/// The text of a response: the adapter wraps texts as `{result}`, and Google uses `{output}` and `{error}`.
fn result(response: &Value) -> Vec<Part> {
    let wrapped = response.as_object().filter(|fields| fields.len() == 1);
    let text = wrapped.and_then(|fields| {
        let mut keys = ["result", "output", "error"].iter();
        keys.find_map(|key| fields.get(*key)?.as_str())
    });
    match (text, response) {
        (Some(text), _) => vec![Part::Text(text.to_owned())],
        (None, Value::Null) => vec![],
        (None, other) => vec![Part::Text(other.to_string())],
    }
}

/// The key of a part's data is its kind.
fn kind(part: &Value) -> String {
    let keys = part
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys());
    let data = keys.filter(|key| !key.starts_with("thought")).cloned();
    data.collect::<Vec<_>>().join("+")
}

pub(super) fn write(message: &Message, tools: &ToolNames<'_>) -> Value {
    let role = match message.role {
        MessageRole::System => "system",
        MessageRole::Assistant => "model",
        MessageRole::User | MessageRole::Tool => "user",
    };
    let parts = message.blocks.iter().map(|block| part_value(block, tools));
    json!({
        "id": message.id.as_str(),
        "content": { "role": role, "parts": parts.collect::<Vec<_>>() },
    })
}

fn part_value(block: &Block, tools: &ToolNames<'_>) -> Value {
    match block {
        Block::Text(text) => json!({ "text": text }),
        Block::Thinking { text, signature } => {
            let mut part = json!({ "text": text, "thought": true });
            if let Some(signature) = signature {
                part["thoughtSignature"] = json!(signature);
            }
            part
        }
        Block::ToolCall(call) => json!({
            "functionCall": { "id": call.id, "name": call.name, "args": call.input },
        }),
        Block::ToolResult(result) => {
            let texts = result.content.iter().map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Image(image) => image.source.as_str(),
            });
            let key = match result.outcome {
                ToolOutcome::Done => "result",
                ToolOutcome::Failed => "error",
            };
            let name = tools.get(result.call.as_str()).unwrap_or(&"unknown");
            json!({ "functionResponse": {
                "id": result.call,
                "name": name,
                "response": { key: texts.collect::<Vec<_>>().join("\n") },
            } })
        }
        Block::Image(image) => json!({
            "fileData": { "mimeType": image.media_type, "fileUri": image.source },
        }),
    }
}
