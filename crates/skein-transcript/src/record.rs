//! Stored forms: versioned types, so that durable data outlives the code. Parts that are the same in memory (usage,
//! images, native payloads, tasks) are stored as their types serialise. A change of form is a new `…V2` beside the old
//! one; golden tests contain one of each.

mod chain;
mod loose;
mod message;
mod slice;

pub(crate) use chain::{ManifestV1, SealedV1, StrandV1};

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::chain::{Entry, Marks, Strand, TranscriptHead};
use crate::error::{Error, Result};
use crate::json;
use crate::message::{Damage, Message};
use crate::state::VersionedState;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Message(Box<Message>),
    State(Box<VersionedState>),
}

#[derive(Serialize, Deserialize)]
struct PayloadV1 {
    v: u8,
    /// Number of messages up to here.
    n: u64,
    /// Position of the current state.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<message::MessageV1>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<slice::VersionedV1>,
}

pub(crate) fn payload(marks: Marks, content: &Content) -> Result<Vec<u8>> {
    let (message, state) = match content {
        Content::Message(message) => (Some(message.as_ref().into()), None),
        Content::State(state) => (None, Some(state.as_ref().into())),
    };
    let record = PayloadV1 {
        v: 1,
        n: marks.messages,
        s: marks.state,
        message,
        state,
    };
    serde_json::to_vec(&record).map_err(|e| Error::Bug(format!("cannot encode an entry: {e}")))
}

/// Size of a message in stored form, without the overhead of its entry.
pub(crate) fn size(message: &Message) -> usize {
    serde_json::to_vec(&message::MessageV1::from(message)).map_or(usize::MAX, |bytes| bytes.len())
}

/// A decoded entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecodedEntry {
    /// None if not even these can be read.
    pub(crate) marks: Option<Marks>,
    pub(crate) content: Content,
    pub(crate) damage: Option<Damage>,
}

/// Decodes an entry. If that fails, it returns the readable parts with notes in place of the rest, or a message that
/// says that nothing is readable, so that others can still be read.
pub(crate) fn entry(entry: &Entry) -> DecodedEntry {
    let reason = match strict(entry) {
        Ok((marks, content)) => {
            return DecodedEntry {
                marks: Some(marks),
                content,
                damage: None,
            };
        }
        Err(reason) => reason,
    };
    let (marks, content) = loose::entry(entry, &reason);
    let damage = Damage {
        reason,
        stored: entry.payload.clone(),
    };
    DecodedEntry {
        marks,
        content,
        damage: Some(damage),
    }
}

/// Checks that an entry can be decoded; the error says why not.
pub fn check_entry(entry: &Entry) -> std::result::Result<(), String> {
    strict(entry).map(|_| ())
}

/// Checks that the body of a head can be decoded.
pub fn check_head(body: &str) -> Result<()> {
    head(body).map(|_| ())
}

/// As [`check_head`], for one strand.
pub fn check_strand(body: &str) -> Result<()> {
    strand(body).map(|_| ())
}

fn strict(entry: &Entry) -> std::result::Result<(Marks, Content), String> {
    let record: PayloadV1 = parse(&entry.payload)?;
    let marks = Marks {
        messages: record.n,
        state: record.s,
    };
    let content = match (record.message, record.state) {
        (Some(message), None) => Content::Message(Box::new(Message::try_from(message)?)),
        (None, Some(state)) => Content::State(Box::new(VersionedState::try_from(state)?)),
        _ => return Err("it contains neither a message nor a state, or both".into()),
    };
    // Earlier builds stored values that readers of the API cannot parse.
    let values: Vec<&serde_json::Value> = match &content {
        Content::Message(message) => message.calls().map(|call| &call.input).collect(),
        Content::State(versioned) => versioned.state.custom.values().collect(),
    };
    if values.into_iter().any(json::is_too_deep) {
        return Err(format!(
            "it is nested more than {} levels deep",
            json::DEEPEST
        ));
    }
    Ok((marks, content))
}

/// The id of an entry's message, if it is readable; skips the rest.
pub(crate) fn id(entry: &Entry) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct IdOnly<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
    }
    #[derive(Deserialize)]
    struct Holding<'a> {
        #[serde(borrow)]
        message: Option<IdOnly<'a>>,
    }
    let held: Holding<'_> = serde_json::from_slice(&entry.payload).ok()?;
    held.message.map(|message| message.id)
}

pub(crate) fn head_body(head: &TranscriptHead) -> Result<String> {
    encode(&chain::HeadV1::from(head))
}

pub(crate) fn head(body: &str) -> Result<TranscriptHead> {
    convert::<chain::HeadV1, _>("a head", body.as_bytes())
}

pub(crate) fn strand_body(strand: &Strand) -> Result<String> {
    encode(&StrandV1::from(strand))
}

pub(crate) fn strand(body: &str) -> Result<Strand> {
    convert::<StrandV1, _>("a strand", body.as_bytes())
}

pub(crate) fn encode<T: Serialize>(record: &T) -> Result<String> {
    serde_json::to_string(record).map_err(|e| Error::Bug(format!("cannot encode a record: {e}")))
}

/// Reads a record of form 1, the only one so far.
pub(crate) fn decode<R: DeserializeOwned>(what: &str, body: &[u8]) -> Result<R> {
    parse(body).map_err(|why| Error::corrupt(what, why))
}

fn parse<R: DeserializeOwned>(body: &[u8]) -> std::result::Result<R, String> {
    serde_json::from_slice(body).map_err(|e| {
        #[derive(Deserialize)]
        struct Form {
            v: u8,
        }
        match serde_json::from_slice::<Form>(body) {
            Ok(Form { v }) if v != 1 => format!("this build does not know form {v}"),
            _ => e.to_string(),
        }
    })
}

fn convert<R, T>(what: &str, body: &[u8]) -> Result<T>
where
    R: DeserializeOwned,
    T: TryFrom<R, Error = String>,
{
    T::try_from(decode::<R>(what, body)?).map_err(|why| Error::corrupt(what, why))
}

#[cfg(test)]
mod tests;
