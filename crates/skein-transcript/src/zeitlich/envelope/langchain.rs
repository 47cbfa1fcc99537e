//! `{type, data}`: a stored message of LangChain.

use serde_json::{Value, json};

use super::{Content, ToolNames, call, common_block, outcome, parts, type_of};
use crate::message::{Block, Message, MessageRole, Part, ToolCall, ToolOutcome, ToolResult};

pub(super) fn is_one(envelope: &Value) -> bool {
    envelope["data"].is_object() && role(envelope).is_some()
}

fn role(envelope: &Value) -> Option<MessageRole> {
    let named = |name: &str| match name {
        "human" | "user" => Some(MessageRole::User),
        "ai" | "assistant" => Some(MessageRole::Assistant),
        "system" | "developer" => Some(MessageRole::System),
        "tool" | "function" => Some(MessageRole::Tool),
        _ => None,
    };
    match envelope["type"].as_str()? {
        // Messages whose role is free text.
        "generic" | "chat" => {
            let role = envelope["data"]["role"].as_str();
            Some(role.and_then(named).unwrap_or(MessageRole::User))
        }
        name => named(name),
    }
}

/// The adapter identifies a tool's result by its call, everything else by its own id.
pub(super) fn ids(envelope: &Value) -> Vec<&Value> {
    let data = &envelope["data"];
    match envelope["type"].as_str() {
        Some("tool") => vec![&data["tool_call_id"], &data["id"]],
        _ => vec![&data["id"]],
    }
}

pub(super) fn read(envelope: &Value) -> Content {
    let data = &envelope["data"];
    let role = role(envelope).unwrap_or(MessageRole::User);
    let answered = data["tool_call_id"].as_str().or(data["name"].as_str());
    if let (MessageRole::Tool, Some(answered)) = (role, answered) {
        let result = Block::ToolResult(ToolResult {
            call: answered.to_owned(),
            content: parts(&data["content"]),
            outcome: outcome(data["status"] == json!("error")),
        });
        return Content {
            role,
            blocks: vec![result],
            unknown: vec![],
        };
    }
    let (mut blocks, unknown) = match &data["content"] {
        Value::String(text) if text.is_empty() => (vec![], vec![]),
        Value::String(text) => (vec![Block::Text(text.clone())], vec![]),
        content => Content::collect(content, block, type_of),
    };
    // The content may contain a provider's own block beside the call that LangChain made of it.
    let calls = calls(data);
    blocks.retain(|block| match block {
        Block::ToolCall(call) => calls.iter().all(|other| other.id != call.id),
        _ => true,
    });
    blocks.extend(calls.into_iter().map(Block::ToolCall));
    Content {
        role,
        blocks,
        unknown,
    }
}

fn block(block: &Value) -> Option<Block> {
    match (block["type"].as_str(), block) {
        (None, Value::String(text)) => Some(Block::Text(text.clone())),
        (Some("reasoning"), _) => Some(Block::Thinking {
            text: block["reasoning"].as_str()?.to_owned(),
            signature: None,
        }),
        (Some("tool_call"), _) => call(&block["id"], &block["name"], block["args"].clone()),
        _ => common_block(block),
    }
}

/// The calls of a reply, including those that LangChain could not parse, because results answer them too. Without
/// any, the calls that OpenAI sent.
fn calls(data: &Value) -> Vec<ToolCall> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let parsed = [&data["tool_calls"], &data["invalid_tool_calls"]];
    let parsed = parsed.into_iter().flat_map(list).filter_map(|one| {
        let input = one["args"].clone();
        call(&one["id"], &one["name"], input)
    });
    let sent = list(&data["additional_kwargs"]["tool_calls"]);
    let sent = sent.into_iter().filter_map(|one| {
        let function = &one["function"];
        let text = function["arguments"].as_str().unwrap_or_default();
        let input = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        call(&one["id"], &function["name"], input)
    });
    let tool_call = |block| match block {
        Block::ToolCall(call) => Some(call),
        _ => None,
    };
    let parsed: Vec<ToolCall> = parsed.filter_map(tool_call).collect();
    if parsed.is_empty() {
        sent.filter_map(tool_call).collect()
    } else {
        parsed
    }
}

/// One stored message, or one per result: LangChain has no message with several.
pub(super) fn write(message: &Message, tools: &ToolNames<'_>) -> Vec<(String, String)> {
    let id = message.id.as_str();
    let results = message.results().map(|result| {
        let data = json!({
            "content": result.content.iter().map(part_value).collect::<Vec<_>>(),
            "tool_call_id": result.call,
            "name": tools.get(result.call.as_str()),
            "status": if result.outcome == ToolOutcome::Failed { "error" } else { "success" },
            "id": id,
            "additional_kwargs": {},
            "response_metadata": {},
        });
        stored(&result.call, "tool", &data)
    });
    let mut written: Vec<_> = results.collect();
    let content: Vec<Value> = message.blocks.iter().filter_map(block_value).collect();
    let calls: Vec<Value> = message
        .calls()
        .map(|call| json!({ "id": call.id, "name": call.name, "args": call.input, "type": "tool_call" }))
        .collect();
    if written.is_empty() || !content.is_empty() || !calls.is_empty() {
        let kind = match message.role {
            MessageRole::System => "system",
            MessageRole::Assistant => "ai",
            MessageRole::User | MessageRole::Tool => "human",
        };
        let mut data = json!({
            "content": content,
            "id": id,
            "additional_kwargs": {},
            "response_metadata": {},
        });
        if message.role == MessageRole::Assistant {
            data["tool_calls"] = json!(calls);
        }
        written.push(stored(id, kind, &data));
    }
    written
}

fn stored(id: &str, kind: &str, data: &Value) -> (String, String) {
    let envelope = json!({ "type": kind, "data": data });
    (id.to_owned(), envelope.to_string())
}

/// `None` for blocks that are not part of the content.
fn block_value(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => Some(json!({ "type": "text", "text": text })),
        Block::Thinking { text, signature } => {
            Some(json!({ "type": "thinking", "thinking": text, "signature": signature }))
        }
        Block::Image(image) => Some(picture_value(&image.source)),
        Block::ToolCall(_) | Block::ToolResult(_) => None,
    }
}

fn part_value(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image(image) => picture_value(&image.source),
    }
}

fn picture_value(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}
