//! Snapshots of zeitlich: `{v: 1, messages, state, dedupIds}`, gzip JSON or plain.
//!
//! Their messages are strings: envelopes of the adapter that wrote them (module `envelope`). The import stores each
//! one verbatim as the native payload of a message and reads roles, texts, tool calls and results from it. The export
//! writes native payloads unchanged, and other messages in the envelope of the same adapter.

mod envelope;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skein_domain::{Invalid, Timestamp};

use crate::error::{Error, Result};
use crate::message::Message;
use crate::state::{StateSlice, Task, TaskStatus};
use envelope::{Adapter, EnvelopeReader};

/// The provider of the native payloads of imported messages.
pub const PROVIDER: &str = "zeitlich";
/// Most bytes of a decompressed blob.
const MOST: usize = 256 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub messages: Vec<Message>,
    pub state: Option<StateSlice>,
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

/// Reads a blob. A message without an id gets one made from its number; all messages get the time `at`.
pub fn import(blob: &[u8], at: Timestamp) -> Result<Snapshot> {
    let text = if blob.starts_with(&[0x1f, 0x8b]) {
        Cow::Owned(unpack(blob)?)
    } else {
        Cow::Borrowed(blob)
    };
    let blob: Blob = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    if blob.v != 1 {
        return Err(wrong(format!(
            "its version is {}; only 1 is supported",
            blob.v
        )));
    }
    let mut reader = EnvelopeReader::new(at);
    let messages = blob.messages.into_iter().enumerate();
    let messages = messages.map(|(n, raw)| reader.read(n, raw));
    let snapshot = Snapshot {
        messages: messages.collect::<Result<_>>()?,
        state: blob.state.map(state).transpose()?,
    };
    // Checked as a whole first, because the import happens in parts.
    snapshot.messages.iter().try_for_each(Message::check)?;
    snapshot.state.iter().try_for_each(StateSlice::check)?;
    Ok(snapshot)
}

/// Writes a compressed blob.
pub fn export(messages: &[Message], slice: Option<&StateSlice>) -> Result<Vec<u8>> {
    let adapter = Adapter::of_thread(messages);
    let calls = messages.iter().flat_map(Message::calls);
    let tools = calls.map(|call| (call.id.as_str(), call.name.as_str()));
    let tools = tools.collect();
    let written = messages.iter().flat_map(|m| adapter.write(m, &tools));
    let (dedup_ids, messages) = written.unzip();
    let blob = Blob {
        v: 1,
        messages,
        state: slice.map(slice_blob),
        dedup_ids,
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
    // One byte more than allowed shows that the blob is too large.
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

/// Reads dependencies from both ends; drops those on missing tasks, and cycles.
fn state(slice: Slice) -> Result<StateSlice> {
    let mut state = StateSlice {
        custom: slice.custom,
        ..StateSlice::default()
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

fn slice_blob(state: &StateSlice) -> Slice {
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
    use serde_json::json;

    use super::*;
    use crate::message::{Block, MessageRole, Part, ToolOutcome};

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
        let roles: Vec<MessageRole> = read.messages.iter().map(|m| m.role).collect();
        assert_eq!(
            roles,
            [
                MessageRole::System,
                MessageRole::Assistant,
                MessageRole::Tool,
                MessageRole::User
            ]
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

    /// A snapshot of these envelopes.
    fn snapshot(envelopes: &[Value]) -> Vec<u8> {
        let messages: Vec<String> = envelopes.iter().map(Value::to_string).collect();
        let blob = json!({ "v": 1, "messages": messages, "state": null, "dedupIds": [] });
        serde_json::to_vec(&blob).unwrap()
    }

    /// Id, role and content of each message, a line each.
    fn rendered(snapshot: &Snapshot) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Image(image) => format!("<{} {}>", image.media_type, image.source),
        };
        let block = |block: &Block| match block {
            Block::Text(text) => format!("text {text}"),
            Block::Thinking { text, signature } => format!("thinking {text} {signature:?}"),
            Block::ToolCall(call) => format!("call {} {} {}", call.id, call.name, call.input),
            Block::ToolResult(result) => format!(
                "{} {} {}",
                if result.outcome == ToolOutcome::Done {
                    "result"
                } else {
                    "failure"
                },
                result.call,
                result
                    .content
                    .iter()
                    .map(part)
                    .collect::<Vec<_>>()
                    .join("|")
            ),
            Block::Image(image) => format!("image {} {}", image.media_type, image.source),
        };
        let line = |m: &Message| {
            let blocks: Vec<String> = m.blocks.iter().map(block).collect();
            format!("{} {:?}: {}\n", m.id, m.role, blocks.join("; "))
        };
        snapshot.messages.iter().map(line).collect()
    }

    /// What was imported and goes out again is byte for byte what came.
    fn round_trips(envelopes: &[Value], read: &Snapshot) {
        let packed = export(&read.messages, None).unwrap();
        let blob: Blob = serde_json::from_slice(&unpack(&packed).unwrap()).unwrap();
        let sent: Vec<String> = envelopes.iter().map(Value::to_string).collect();
        assert_eq!(blob.messages, sent);
        assert_eq!(import(&packed, AT).unwrap(), *read);
    }

    #[test]
    fn google_envelopes_are_read_and_given_back_verbatim() {
        let envelopes = [
            json!({"id": "s", "content": {"role": "system", "parts": [{"text": "be kind"}]}}),
            json!({"id": "u", "content": {"role": "user", "parts": [
                {"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                {"fileData": {"mimeType": "image/jpeg", "fileUri": "gs://b/o"}}]}}),
            json!({"id": "m", "content": {"role": "model", "parts": [
                {"text": "hm", "thought": true, "thoughtSignature": "sig"}, {"text": "I look."},
                {"functionCall": {"id": "c1", "name": "Bash", "args": {"command": "ls"}}, "thoughtSignature": "x"},
                {"functionCall": {"id": "c2", "name": "Now"}}]}}),
            json!({"id": "r1", "content": {"role": "user", "parts": [
                {"functionResponse": {"id": "c1", "name": "Bash", "response": {"result": "file"}}}]}}),
            json!({"id": "r2", "content": {"role": "user", "parts": [
                {"functionResponse": {"id": "c2", "name": "Now", "response": {"hour": 9}}},
                {"functionResponse": {"id": "c3", "name": "Now", "response": {"error": "late"}}}]}}),
            json!({"id": "e", "content": {"role": "model"}}),
            json!({"id": "x", "content": {"role": "model", "parts": [
                {"executableCode": {"language": "PYTHON", "code": "1"}}]}}),
        ];
        let read = import(&snapshot(&envelopes), AT).unwrap();
        insta::assert_snapshot!(rendered(&read), @r#"
        s System: text be kind
        u User: text look; image image/png blake3:8d637fec53870fcfc99a9e0ae43f4465aaeb2beeacf94032923915b8943cff11; image image/jpeg gs://b/o
        m Assistant: thinking hm Some("sig"); text I look.; call c1 Bash {"command":"ls"}; call c2 Now {}
        r1 Tool: result c1 file
        r2 Tool: result c2 {"hour":9}; failure c3 late
        e Assistant: 
        x Assistant: text [only in the native payload: executableCode]
        "#);
        round_trips(&envelopes, &read);
    }

    #[test]
    fn langchain_envelopes_are_read_and_given_back_verbatim() {
        let envelopes = [
            json!({"type": "system", "data": {"id": "s", "content": "be kind"}}),
            json!({"type": "human", "data": {"id": "u", "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}}),
            json!({"type": "ai", "data": {"id": "a", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}],
                "tool_calls": [{"id": "c1", "name": "Bash", "args": {"command": "ls"}, "type": "tool_call"}],
                "invalid_tool_calls": [{"id": "c2", "name": "Now", "args": "{", "error": "malformed"}]}}),
            json!({"type": "tool", "data": {"id": "t1", "tool_call_id": "c1", "content": "file", "status": "success"}}),
            json!({"type": "tool", "data": {"id": "t2", "tool_call_id": "c2", "content": {"hour": 9}, "status": "error"}}),
            json!({"type": "ai", "data": {"id": "b", "content": "", "additional_kwargs": {"tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "Bash", "arguments": "{\"command\":\"pwd\"}"}}]}}}),
            json!({"type": "tool", "data": {"id": "t3", "tool_call_id": "c1", "content": [{"type": "text", "text": "/"}]}}),
            json!({"type": "generic", "data": {"id": "g", "role": "assistant", "content": "done"}}),
        ];
        let read = import(&snapshot(&envelopes), AT).unwrap();
        // The second result of a call `c1` keeps an id of its own: no transcript holds an id twice.
        insta::assert_snapshot!(rendered(&read), @r#"
        s System: text be kind
        u User: text look; image image/* https://example.com/a.png
        a Assistant: thinking hm Some("sig"); text I look.; call c1 Bash {"command":"ls"}; call c2 Now "{"
        c1 Tool: result c1 file
        c2 Tool: failure c2 {"hour":9}
        b Assistant: call c1 Bash {"command":"pwd"}
        t3 Tool: result c1 /
        g Assistant: text done
        "#);
        round_trips(&envelopes, &read);
    }

    #[test]
    fn new_messages_go_out_in_the_envelope_of_their_thread() {
        let ours = || {
            let mut ours = import(&sample(), AT).unwrap().messages;
            ours.truncate(3);
            ours.iter_mut().for_each(|m| m.native = None);
            ours
        };
        for first in [
            json!({"id": "first", "content": {"role": "user", "parts": [{"text": "hi"}]}}),
            json!({"type": "human", "data": {"id": "first", "content": "hi"}}),
        ] {
            let mut messages = import(&snapshot(std::slice::from_ref(&first)), AT)
                .unwrap()
                .messages;
            messages.extend(ours());
            let packed = export(&messages, None).unwrap();
            let blob: Blob = serde_json::from_slice(&unpack(&packed).unwrap()).unwrap();
            let keys = |raw: &String| {
                let envelope: serde_json::Map<String, Value> = serde_json::from_str(raw).unwrap();
                envelope.keys().cloned().collect::<Vec<_>>()
            };
            let expected = keys(&first.to_string());
            assert!(
                blob.messages.iter().all(|raw| keys(raw) == expected),
                "{:?}",
                blob.messages
            );
            let back = import(&packed, AT).unwrap();
            assert_eq!(
                blob.dedup_ids,
                back.messages
                    .iter()
                    .map(|m| m.id.to_string())
                    .collect::<Vec<_>>()
            );
            let said = |m: &Message| (m.role, m.blocks.clone());
            let roles: Vec<_> = back.messages.iter().map(said).collect();
            assert_eq!(roles, messages.iter().map(said).collect::<Vec<_>>());
        }
    }

    #[test]
    fn l13_an_envelope_of_no_known_adapter_is_refused_and_named() {
        for bad in [
            json!({}),
            json!([]),
            json!("text"),
            json!({"id": "x", "role": "user", "content": "plain"}),
            json!({"id": "x", "message": {"role": "user"}}),
            json!({"id": "x", "content": {"text": "hi"}}),
            json!({"type": "remove", "data": {"id": "x"}}),
            json!({"type": "human", "content": "hi"}),
        ] {
            let good = json!({"id": "u", "message": {"role": "user", "content": "hi"}});
            let refused = import(&snapshot(&[good, bad.clone()]), AT).unwrap_err();
            assert_eq!(refused.kind(), skein_domain::Kind::Misuse, "{bad}");
            let text = refused.to_string();
            assert!(
                text.contains("message 2: expected `{id, message}`"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_message_of_blocks_that_only_the_payload_holds_says_so() {
        let envelope = json!({"id": "a", "message": {"role": "assistant", "content": [
            {"type": "redacted_thinking", "data": "x"}]}});
        let read = import(&snapshot(&[envelope]), AT).unwrap();
        insta::assert_snapshot!(rendered(&read), @"a Assistant: text [only in the native payload: redacted_thinking]");
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
