//! Reads messages from the items of a rollout.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use skein_transcript::message::Part;
use skein_transcript::{Block, Message, MessageId, MessageRole, json};

use crate::agent::Reading;
use crate::messages::{self, Latest};

const PROVIDER: &str = "openai";

/// Beginnings of prompts that Codex itself writes. Newer versions also mark their author.
const NOT_MESSAGES: [&str; 7] = [
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<permissions instructions>",
    "<turn_aborted>",
    "<subagent_notification>",
];

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// The last message before each of the latest prompts.
#[derive(Debug, Default)]
pub(super) struct RolloutMessages {
    last: Option<MessageId>,
    prompts: Latest<Option<MessageId>>,
}

impl RolloutMessages {
    pub(super) fn item(&mut self, line: &str) -> Option<Reading> {
        let line_fields: Line<'_> = serde_json::from_str(line).ok()?;
        let item: Value = json::read(line_fields.payload.get()).ok()?;
        let (role, blocks) = read(&item)?;
        // Older items have no id; the line with its time is unique.
        let id = match item["id"].as_str() {
            Some(id) => messages::id(id),
            None => messages::hashed("codex", &[line]),
        };
        let at = messages::at(line_fields.timestamp.as_deref());
        let mut message: Message = messages::message(id.clone(), role, blocks, at)?;
        let pictures = item.to_string().contains("data:image/");
        message.native =
            messages::native(PROVIDER, line_fields.payload.get()).filter(|_| !pictures);
        if role == MessageRole::User {
            self.prompts.push(self.last.clone());
        }
        self.last = Some(id);
        Some(messages::reading(message))
    }

    /// The latest turns were undone.
    pub(super) fn rolled_back(&mut self, turns: u64) -> Option<Reading> {
        let left = usize::try_from(turns).ok().filter(|turns| *turns > 0)?;
        let kept = self.prompts.iter().len().checked_sub(left)?;
        let to = self.prompts.iter().nth(kept)?.clone()?;
        self.prompts.truncate(kept);
        self.last = Some(to.clone());
        Some(Reading::Rewound { to })
    }
}

fn read(item: &Value) -> Option<(MessageRole, Vec<Block>)> {
    let text = |key: &str| item[key].as_str().unwrap_or_default();
    let calls = |input: Value| {
        let call = messages::call(text("call_id"), text("name"), input);
        Some((MessageRole::Assistant, vec![call]))
    };
    match item["type"].as_str()? {
        "message" => message_item(item),
        "reasoning" => Some((MessageRole::Assistant, thoughts(item))),
        "function_call" => calls(messages::arguments(text("arguments"))),
        "custom_tool_call" => calls(Value::String(messages::bounded(text("input")))),
        "local_shell_call" => {
            let id = item["call_id"].as_str().unwrap_or(text("id"));
            let call = messages::call(id, "local_shell", item["action"].clone());
            Some((MessageRole::Assistant, vec![call]))
        }
        "function_call_output" | "custom_tool_call_output" => {
            let result = messages::result(text("call_id"), parts(&item["output"]), failed(item));
            Some((MessageRole::Tool, vec![result]))
        }
        _ => None,
    }
}

/// A message of the user or the model. Messages of developers are the program's.
fn message_item(item: &Value) -> Option<(MessageRole, Vec<Block>)> {
    let role = match item["role"].as_str()? {
        "user" => MessageRole::User,
        "assistant" => MessageRole::Assistant,
        _ => return None,
    };
    let content = item["content"].as_array()?;
    let kinds = &item["internal_chat_message_metadata_passthrough"]["content_item_kinds"];
    let own = |n: usize| kinds[n].as_str().is_none_or(|k| k.starts_with("user."));
    let mut blocks: Vec<Block> = content
        .iter()
        .enumerate()
        .filter(|(n, _)| role != MessageRole::User || own(*n))
        .filter_map(|(_, part)| block(part))
        .collect();
    if role == MessageRole::User {
        let by_program = |text: &String| NOT_MESSAGES.iter().any(|start| text.starts_with(start));
        blocks.retain(|block| !matches!(block, Block::Text(text) if by_program(text)));
    }
    Some((role, blocks))
}

fn block(part: &Value) -> Option<Block> {
    match part["type"].as_str()? {
        "input_text" | "output_text" | "text" => messages::text(part["text"].as_str()?),
        "input_image" => Some(Block::Image(messages::image(
            "image/*",
            part["image_url"].as_str()?,
        ))),
        _ => None,
    }
}

fn thoughts(item: &Value) -> Vec<Block> {
    let summary = item["summary"].as_array().into_iter().flatten();
    let content = item["content"].as_array().into_iter().flatten();
    summary
        .chain(content)
        .filter_map(|part| messages::thinking(part["text"].as_str()?, None))
        .collect()
}

/// A text, a list of parts, or an object that contains either.
fn parts(output: &Value) -> Vec<Part> {
    if let Some(text) = output.as_str() {
        return vec![messages::part(text)];
    }
    let part = |part: &Value| match part["type"].as_str()? {
        "input_image" => Some(Part::Image(messages::image(
            "image/*",
            part["image_url"].as_str()?,
        ))),
        _ => part["text"].as_str().map(messages::part),
    };
    match output.as_array() {
        Some(list) => list.iter().filter_map(part).collect(),
        None if output["content"].is_null() => vec![],
        None => parts(&output["content"]),
    }
}

fn failed(item: &Value) -> bool {
    item["output"]["success"] == false || item["status"] == "failed"
}
