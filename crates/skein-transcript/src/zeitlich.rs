//! The snapshot blob of the older system: `{v: 1, messages, state, dedupIds}`, gzip JSON or plain.
//!
//! Its messages are strings in a provider's own form. They are taken over verbatim as native payloads, and
//! what this crate knows to read of them (the envelopes `{id, message}` of its Anthropic adapter) becomes
//! blocks. On the way back a native payload is given as it came.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skein_domain::{Invalid, Timestamp};

use crate::error::{Error, Result};
use crate::message::{Block, Message, Native, Outcome, Part, Role, ToolCall, ToolResult};
use crate::state::{State, Task, TaskStatus};

/// Who the native payloads of imported messages are from.
pub const PROVIDER: &str = "zeitlich";
/// Most bytes of an unpacked blob.
const MOST: usize = 256 * 1024 * 1024;

/// What a blob holds, in our terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub messages: Vec<Message>,
    pub state: Option<State>,
}

#[derive(Serialize, Deserialize)]
struct Blob {
    v: u64,
    messages: Vec<String>,
    state: Option<Slice>,
    #[serde(rename = "dedupIds")]
    dedup_ids: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Slice {
    #[serde(default)]
    tasks: Vec<(String, TaskBlob)>,
    #[serde(default)]
    custom: BTreeMap<String, Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskBlob {
    id: String,
    subject: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    active_form: String,
    status: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    blocked_by: Vec<String>,
    #[serde(default)]
    blocks: Vec<String>,
}

/// Reads a blob. Messages without an id are named after their place; all of them are said at `at`.
pub fn import(blob: &[u8], at: Timestamp) -> Result<Snapshot> {
    let text = if blob.starts_with(&[0x1f, 0x8b]) {
        Cow::Owned(unpack(blob)?)
    } else {
        Cow::Borrowed(blob)
    };
    let blob: Blob = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    if blob.v != 1 {
        return Err(wrong(format!(
            "its version is {}, and only 1 is known",
            blob.v
        )));
    }
    let messages = blob.messages.into_iter().enumerate();
    let messages = messages.map(|(n, raw)| message(n, raw, at));
    let snapshot = Snapshot {
        messages: messages.collect::<Result<_>>()?,
        state: blob.state.map(state).transpose()?,
    };
    // Before anything is taken over, since that happens in parts.
    snapshot.messages.iter().try_for_each(Message::check)?;
    snapshot.state.iter().try_for_each(State::check)?;
    Ok(snapshot)
}

/// Writes a blob, packed.
pub fn export(messages: &[Message], slice: Option<&State>) -> Result<Vec<u8>> {
    let blob = Blob {
        v: 1,
        messages: messages.iter().map(raw).collect(),
        state: slice.map(slice_blob),
        dedup_ids: messages.iter().map(|m| m.id.to_string()).collect(),
    };
    let bug = |e: &dyn std::fmt::Display| Error::Bug(format!("cannot write a blob: {e}"));
    let text = serde_json::to_vec(&blob).map_err(|e| bug(&e))?;
    let mut packer = GzEncoder::new(vec![], Compression::default());
    packer.write_all(&text).map_err(|e| bug(&e))?;
    packer.finish().map_err(|e| bug(&e))
}

fn wrong(reason: String) -> Error {
    Invalid::new("snapshot", "blob", reason).into()
}

fn unpack(blob: &[u8]) -> Result<Vec<u8>> {
    let mut text = vec![];
    // One more than allowed, so that a bomb is told from a large blob.
    let mut bounded = GzDecoder::new(blob).take(MOST as u64 + 1);
    bounded
        .read_to_end(&mut text)
        .map_err(|e| wrong(e.to_string()))?;
    if text.len() > MOST {
        return Err(Error::TooLarge {
            what: "a snapshot",
            size: text.len(),
            limit: MOST,
        });
    }
    Ok(text)
}

fn message(n: usize, raw: String, at: Timestamp) -> Result<Message> {
    let envelope: Value = serde_json::from_str(&raw).map_err(|e| wrong(e.to_string()))?;
    let id = envelope["id"]
        .as_str()
        .map_or_else(|| format!("zeitlich:{n}"), str::to_owned);
    let inner = &envelope["message"];
    let blocks = match &inner["content"] {
        Value::String(text) => vec![Block::Text(text.clone())],
        Value::Array(blocks) => blocks.iter().filter_map(block).collect(),
        _ => vec![],
    };
    let only_results =
        !blocks.is_empty() && blocks.iter().all(|b| matches!(b, Block::ToolResult(_)));
    let role = match inner["role"].as_str() {
        _ if envelope["isSystem"] == json!(true) => Role::System,
        Some("assistant") => Role::Assistant,
        Some(_) | None if only_results => Role::Tool,
        Some(_) | None => Role::User,
    };
    let mut message = Message::new(id.parse()?, role, blocks, at);
    message.native = Some(Native {
        provider: PROVIDER.into(),
        payload: raw,
    });
    Ok(message)
}

/// A block of the Anthropic form; `None` for what only the native payload can tell.
fn block(block: &Value) -> Option<Block> {
    let text = |key: &str| block[key].as_str().map(str::to_owned);
    match block["type"].as_str()? {
        "text" => text("text").map(Block::Text),
        "thinking" => Some(Block::Thinking {
            text: text("thinking")?,
            signature: text("signature"),
        }),
        "tool_use" => Some(Block::ToolCall(ToolCall {
            id: text("id")?,
            name: text("name")?,
            input: block["input"].clone(),
        })),
        "tool_result" => Some(Block::ToolResult(ToolResult {
            call: text("tool_use_id")?,
            content: parts(&block["content"]),
            outcome: match block["is_error"] {
                Value::Bool(true) => Outcome::Failed,
                _ => Outcome::Done,
            },
        })),
        _ => None,
    }
}

fn parts(content: &Value) -> Vec<Part> {
    match content {
        Value::String(text) => vec![Part::Text(text.clone())],
        Value::Array(parts) => {
            let text = |part: &Value| part["text"].as_str().map(|t| Part::Text(t.to_owned()));
            parts.iter().filter_map(text).collect()
        }
        _ => vec![],
    }
}

/// The message as that system holds it: as it came from there, or in the envelope of its Anthropic adapter.
fn raw(message: &Message) -> String {
    if let Some(native) = message.native.as_ref().filter(|n| n.provider == PROVIDER) {
        return native.payload.clone();
    }
    let role = match message.role {
        Role::Assistant => "assistant",
        Role::System | Role::User | Role::Tool => "user",
    };
    let content: Vec<Value> = message.blocks.iter().map(block_value).collect();
    let mut envelope = json!({
        "id": message.id.as_str(),
        "message": { "role": role, "content": content },
    });
    if message.role == Role::System {
        envelope["isSystem"] = json!(true);
    }
    envelope.to_string()
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
            "is_error": result.outcome == Outcome::Failed,
        }),
        Block::Image(image) => json!({
            "type": "image",
            "source": { "type": "url", "url": image.source },
        }),
    }
}

/// Dependencies are taken from both ends; those on tasks that are not there, and circles, are left out.
fn state(slice: Slice) -> Result<State> {
    let mut state = State {
        custom: slice.custom,
        ..State::default()
    };
    let mut edges = vec![];
    for (id, task) in slice.tasks {
        edges.extend(
            task.blocked_by
                .iter()
                .map(|first| (first.clone(), id.clone())),
        );
        edges.extend(task.blocks.iter().map(|then| (id.clone(), then.clone())));
        let task = Task {
            subject: task.subject,
            description: task.description,
            active_form: task.active_form,
            status: match task.status.as_str() {
                "completed" => TaskStatus::Completed,
                "in_progress" => TaskStatus::InProgress,
                _ => TaskStatus::Pending,
            },
            metadata: task.metadata,
        };
        state.tasks.put(&id, task)?;
    }
    for (first, then) in edges {
        let _ = state.tasks.block(&first, &then);
    }
    Ok(state)
}

fn slice_blob(state: &State) -> Slice {
    let owned = |ids: &mut dyn Iterator<Item = &str>| ids.map(str::to_owned).collect();
    let task = |(id, task): (&str, &Task)| {
        let blob = TaskBlob {
            id: id.to_owned(),
            subject: task.subject.clone(),
            description: task.description.clone(),
            active_form: task.active_form.clone(),
            status: match task.status {
                TaskStatus::Pending => "pending",
                TaskStatus::InProgress => "in_progress",
                TaskStatus::Completed => "completed",
            }
            .into(),
            metadata: task.metadata.clone(),
            blocked_by: owned(&mut state.tasks.blocked_by(id)),
            blocks: owned(&mut state.tasks.blocks(id)),
        };
        (id.to_owned(), blob)
    };
    Slice {
        tasks: state.tasks.iter().map(task).collect(),
        custom: state.custom.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_micros(5);

    fn sample() -> Vec<u8> {
        let message = |value: Value| value.to_string();
        let text = json!({
            "v": 1,
            "messages": [
                message(json!({"id": "s", "message": {"role": "user", "content": "be kind"}, "isSystem": true})),
                message(json!({"id": "a", "message": {"role": "assistant", "content": [
                    {"type": "text", "text": "hm"},
                    {"type": "tool_use", "id": "x", "name": "Bash", "input": {"command": "ls"}},
                    {"type": "server_tool_use", "odd": 1}]}})),
                message(json!({"id": "r", "message": {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "x", "content": "file", "is_error": false}]}})),
                message(json!({"content": {"role": "user", "parts": [{"text": "gemini"}]}})),
            ],
            "state": {"tasks": [
                ["1", {"id": "1", "subject": "one", "status": "completed", "blocks": ["2", "9"], "blockedBy": []}],
                ["2", {"id": "2", "subject": "two", "status": "pending", "blocks": [], "blockedBy": ["1"]}]],
                "custom": {"k": [1, 2]}},
            "dedupIds": ["s", "a", "r"],
        });
        serde_json::to_vec(&text).unwrap()
    }

    #[test]
    fn blobs_are_read_and_given_back_verbatim() {
        let read = import(&sample(), AT).unwrap();
        let roles: Vec<Role> = read.messages.iter().map(|m| m.role).collect();
        assert_eq!(
            roles,
            [Role::System, Role::Assistant, Role::Tool, Role::User]
        );
        assert_eq!(read.messages[1].calls().count(), 1);
        assert_eq!(read.messages[3].id.as_str(), "zeitlich:3");
        let state = read.state.clone().unwrap();
        assert_eq!(state.tasks.edges().collect::<Vec<_>>(), [("1", "2")]);
        let packed = export(&read.messages, read.state.as_ref()).unwrap();
        assert!(packed.starts_with(&[0x1f, 0x8b]));
        assert_eq!(import(&packed, AT).unwrap(), read);
    }

    #[test]
    fn messages_of_ours_are_understood_when_they_come_back() {
        let mut ours = import(&sample(), AT).unwrap().messages;
        ours.truncate(3);
        ours.iter_mut().for_each(|m| m.native = None);
        let mut back = import(&export(&ours, None).unwrap(), AT).unwrap();
        assert_eq!(back.state, None);
        back.messages.iter_mut().for_each(|m| m.native = None);
        assert_eq!(back.messages, ours);
    }

    #[test]
    fn l13_a_bomb_is_refused_before_it_fills_the_memory() {
        let mut packer = GzEncoder::new(vec![], Compression::fast());
        let zeros = vec![b' '; 1024 * 1024];
        for _ in 0..=MOST / zeros.len() {
            packer.write_all(&zeros).unwrap();
        }
        let refused = import(&packer.finish().unwrap(), AT).unwrap_err();
        assert_eq!(refused.kind(), skein_domain::Kind::Refused);
    }

    #[test]
    fn l13_other_versions_and_garbage_are_refused() {
        for bad in [
            b"".as_slice(),
            b"{",
            b"\x1f\x8bxx",
            br#"{"v":2,"messages":[],"state":null,"dedupIds":[]}"#,
        ] {
            let refused = import(bad, AT).unwrap_err();
            assert_eq!(refused.kind(), skein_domain::Kind::Misuse, "{bad:?}");
        }
    }
}
