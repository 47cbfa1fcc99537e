//! `{id, message: {role, content}, isSystem?}`: a message of the Anthropic SDK.

use serde_json::{Value, json};

use super::{Content, common_block, has_only_results, type_of};
use crate::message::{Block, Message, MessageRole, Part, ToolOutcome};

pub(super) fn is_one(envelope: &Value) -> bool {
    let content = &envelope["message"]["content"];
    content.is_string() || content.is_array()
}

pub(super) fn read(envelope: &Value) -> Content {
    let message = &envelope["message"];
    let (blocks, unknown) = match &message["content"] {
        Value::String(text) => (vec![Block::Text(text.clone())], vec![]),
        content => Content::collect(content, common_block, type_of),
    };
    let role = match message["role"].as_str() {
        // Anthropic has no system messages, so the adapter stores them as user messages with a flag.
        _ if envelope["isSystem"] == json!(true) => MessageRole::System,
        Some("assistant") => MessageRole::Assistant,
        _ if has_only_results(&blocks) => MessageRole::Tool,
        _ => MessageRole::User,
    };
    Content {
        role,
        blocks,
        unknown,
    }
}

pub(super) fn write(message: &Message) -> Value {
    let role = match message.role {
        MessageRole::Assistant => "assistant",
        MessageRole::System | MessageRole::User | MessageRole::Tool => "user",
    };
    let content: Vec<Value> = message.blocks.iter().map(block_value).collect();
    let mut envelope = json!({
        "id": message.id.as_str(),
        "message": { "role": role, "content": content },
    });
    if message.role == MessageRole::System {
        envelope["isSystem"] = json!(true);
    }
    envelope
}

fn block_value(block: &Block) -> Value {
    let part = |part: &Part| match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image(image) => json!({ "type": "text", "text": image.source }),
    };
    match block {
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::Thinking { text, signature } => {
            json!({ "type": "thinking", "thinking": text, "signature": signature })
        }
        Block::ToolCall(call) => {
            json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.input })
        }
        Block::ToolResult(result) => json!({
            "type": "tool_result",
            "tool_use_id": result.call,
            "content": result.content.iter().map(part).collect::<Vec<_>>(),
            "is_error": result.outcome == ToolOutcome::Failed,
        }),
        Block::Image(image) => json!({
            "type": "image",
            "source": { "type": "url", "url": image.source },
        }),
    }
}
