//! Converts what programs write into messages of a transcript.
//!
//! The id of every message derives from its text alone, so that reading the text again adds nothing.

use std::collections::VecDeque;
use std::str::FromStr;

use serde_json::Value;
use skein_domain::Timestamp;
use skein_transcript::message::{Image, Native, Part, ToolCall, ToolOutcome, ToolResult};
use skein_transcript::{Block, Message, MessageId, MessageRole, TokenUsage, json};

use crate::agent::Reading;

/// Longest native payload that is stored with its message.
const LONGEST_NATIVE: usize = 1 << 20;
/// Longest text of a block. Longer text is truncated with a marker.
const LONGEST_TEXT: usize = 4 << 20;
/// Number of messages that readers remember.
const REMEMBERED: usize = 512;

/// The time of a message whose program states none; the caller that appends it sets a better one.
pub(crate) const UNKNOWN_TIME: Timestamp = Timestamp::from_micros(0);

/// A message; none without content.
pub(crate) fn message(
    id: MessageId,
    role: MessageRole,
    blocks: impl IntoIterator<Item = Block>,
    at: Timestamp,
) -> Option<Message> {
    let blocks: Vec<Block> = blocks.into_iter().collect();
    (!blocks.is_empty()).then(|| Message::new(id, role, blocks, at))
}

pub(crate) fn reading(message: Message) -> Reading {
    Reading::Message(Box::new(message))
}

/// A program's own id of a message; an invalid one is hashed.
pub(crate) fn id(text: &str) -> MessageId {
    MessageId::from_str(text).unwrap_or_else(|_| hashed("id", &[text]))
}

/// An id for a message without one, from its position and text.
pub(crate) fn hashed(kind: &str, parts: &[&str]) -> MessageId {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let hash = hasher.finalize().to_hex();
    MessageId::from_str(&format!("{kind}-{}", &hash[..32])).expect("letters and digits are a name")
}

/// The program's text, verbatim, unless it is very long.
pub(crate) fn native(provider: &str, payload: &str) -> Option<Native> {
    (payload.len() <= LONGEST_NATIVE).then(|| Native {
        provider: provider.to_owned(),
        payload: payload.to_owned(),
    })
}

/// Parses a time such as `2026-11-17T11:01:01.627Z`.
pub(crate) fn at(text: Option<&str>) -> Timestamp {
    let moment = text.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    moment.map_or(UNKNOWN_TIME, |m| Timestamp::from_micros(m.as_microsecond()))
}

/// The same in milliseconds since 1970.
pub(crate) fn at_millis(millis: Option<u64>) -> Timestamp {
    let micros = millis.and_then(|ms| i64::try_from(ms).ok()?.checked_mul(1_000));
    micros.map_or(UNKNOWN_TIME, Timestamp::from_micros)
}

/// A text; none if it is blank.
pub(crate) fn text(text: &str) -> Option<Block> {
    (!text.trim().is_empty()).then(|| Block::Text(bounded(text)))
}

pub(crate) fn thinking(text: &str, signature: Option<&str>) -> Option<Block> {
    (!text.trim().is_empty()).then(|| Block::Thinking {
        text: bounded(text),
        signature: signature.filter(|s| !s.is_empty()).map(str::to_owned),
    })
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Block {
    Block::ToolCall(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        input,
    })
}

/// Arguments that a program stores as text.
pub(crate) fn arguments(text: &str) -> Value {
    json::read(text).unwrap_or_else(|_| Value::String(bounded(text)))
}

pub(crate) fn result(call: &str, content: Vec<Part>, failed: bool) -> Block {
    Block::ToolResult(ToolResult {
        call: call.to_owned(),
        content,
        outcome: if failed {
            ToolOutcome::Failed
        } else {
            ToolOutcome::Done
        },
    })
}

pub(crate) fn part(text: &str) -> Part {
    Part::Text(bounded(text))
}

/// An image by reference: its address, or the hash of its content.
pub(crate) fn image(media_type: &str, source: &str) -> Image {
    let source = match source.len() {
        0..=2_048 if !source.starts_with("data:") => source.to_owned(),
        _ => format!("blake3:{}", blake3::hash(source.as_bytes()).to_hex()),
    };
    Image {
        media_type: media_type.to_owned(),
        source,
    }
}

pub(crate) fn bounded(text: &str) -> String {
    if text.len() <= LONGEST_TEXT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST_TEXT);
    let left = text.len() - end;
    format!("{}\n[truncated: {left} more bytes]", &text[..end])
}

/// The part of `all` that is not in `counted`.
pub(crate) fn minus(all: TokenUsage, counted: TokenUsage) -> TokenUsage {
    TokenUsage {
        input: all.input.saturating_sub(counted.input),
        output: all.output.saturating_sub(counted.output),
        cache_read: all.cache_read.saturating_sub(counted.cache_read),
        cache_write: all.cache_write.saturating_sub(counted.cache_write),
        reasoning: all.reasoning.saturating_sub(counted.reasoning),
        cost_micros: all.cost_micros.saturating_sub(counted.cost_micros),
    }
}

/// The latest items, in order.
#[derive(Debug)]
pub(crate) struct Latest<T>(VecDeque<T>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Latest<T> {
    pub(crate) fn push(&mut self, item: T) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(item);
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l13_any_name_becomes_an_id_and_different_ones_stay_different() {
        assert_eq!(id("msg_1").as_str(), "msg_1");
        let (one, two) = (id("a b"), id("a  b"));
        assert_ne!(one, two);
        assert_eq!(one, id("a b"));
        assert_ne!(hashed("x", &["ab", "c"]), hashed("x", &["a", "bc"]));
    }

    #[test]
    fn what_is_very_long_is_cut_and_says_so() {
        let long = "é".repeat(LONGEST_TEXT);
        let cut = bounded(&long);
        assert!(cut.len() < LONGEST_TEXT + 100);
        assert!(cut.ends_with("more bytes]"));
        assert_eq!(native("x", &long), None);
    }

    #[test]
    fn moments_are_read_in_both_forms() {
        let moment = Timestamp::from_micros(1_794_913_261_627_000);
        assert_eq!(at(Some("2026-11-17T11:01:01.627Z")), moment);
        assert_eq!(at_millis(Some(1_794_913_261_627)), moment);
        assert_eq!(at(Some("yesterday")), UNKNOWN_TIME);
        assert_eq!(at_millis(Some(u64::MAX)), UNKNOWN_TIME);
    }
}
