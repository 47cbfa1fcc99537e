//! Stored forms. Versioned types of their own, so that durable data outlives the code. A change of form is
//! a new `…V2` beside the old, never an edit; the golden tests hold one of each.

mod chain;
mod message;
mod slice;

pub(crate) use chain::{ManifestV1, SealedV1, StrandV1};

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::chain::{Entry, Head, Marks, Strand};
use crate::error::{Error, Result};
use crate::message::Message;
use crate::state::Versioned;

/// What an entry holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Message(Box<Message>),
    State(Box<Versioned>),
}

#[derive(Serialize, Deserialize)]
struct PayloadV1 {
    v: u8,
    /// Messages up to here.
    n: u64,
    /// Where the state in force is.
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

pub(crate) fn entry(entry: &Entry) -> Result<(Marks, Content)> {
    let what = || format!("entry {}", entry.position);
    let record: PayloadV1 = decode(&what(), &entry.payload)?;
    let marks = Marks {
        messages: record.n,
        state: record.s,
    };
    let content = match (record.message, record.state) {
        (Some(message), None) => Message::try_from(message).map(|m| Content::Message(Box::new(m))),
        (None, Some(state)) => Versioned::try_from(state).map(|s| Content::State(Box::new(s))),
        _ => Err("it holds neither a message nor a state, or both".into()),
    };
    Ok((marks, content.map_err(|why| Error::corrupt(what(), why))?))
}

/// The id of the message an entry holds, if it holds one; the rest is passed over.
pub(crate) fn id(entry: &Entry) -> Result<Option<Cow<'_, str>>> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
    }
    #[derive(Deserialize)]
    struct Holding<'a> {
        #[serde(borrow)]
        message: Option<Named<'a>>,
    }
    let held: Holding<'_> = serde_json::from_slice(&entry.payload)
        .map_err(|e| Error::corrupt(format!("entry {}", entry.position), e))?;
    Ok(held.message.map(|message| message.id))
}

pub(crate) fn head_body(head: &Head) -> Result<String> {
    encode(&chain::HeadV1::from(head))
}

pub(crate) fn head(body: &str) -> Result<Head> {
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
    serde_json::from_slice(body).map_err(|e| {
        #[derive(Deserialize)]
        struct Form {
            v: u8,
        }
        match serde_json::from_slice::<Form>(body) {
            Ok(Form { v }) if v != 1 => {
                Error::corrupt(what, format!("this build does not know form {v}"))
            }
            _ => Error::corrupt(what, e),
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
