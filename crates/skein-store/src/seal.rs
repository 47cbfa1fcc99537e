//! Retention of events: the writer packs old events into seals and may later drop a seal's body, without breaking
//! the chain.

use serde::{Deserialize, Serialize};
use skein_domain::Timestamp;

use crate::backend::Result;
use crate::error::Error;
use crate::event::{Event, Hash};

/// A range of old events in one compressed body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    pub from: u64,
    pub to: u64,
    /// Hash of the event before `from`.
    pub prev_hash: Hash,
    /// Hash of event `to`.
    pub last_hash: Hash,
    pub dropped: bool,
    pub sealed_at: Timestamp,
}

/// Most events in one seal, so that reading one stays cheap.
pub const MOST_EVENTS: usize = 4096;
/// Most bytes of data in one seal, not counting its first event.
const MOST_DATA: usize = 32 << 20;
/// Most bytes a body may unpack to; guards against a damaged body. [`MOST_DATA`] stays far below it even if every
/// character is escaped.
const MOST_BYTES: usize = 1 << 30;

/// An event in a seal; field names are short to save space.
#[derive(Serialize, Deserialize)]
struct PackedEvent {
    n: u64,
    t: i64,
    k: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    p: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    h: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    s: Option<String>,
    a: String,
    d: String,
    x: String,
}

/// How many of `events` fit into one seal; at least one of a non-empty list.
pub(crate) fn fitting(events: &[Event]) -> usize {
    let mut bytes = 0;
    let more = events.iter().skip(1).take_while(|event| {
        bytes += event.data.len();
        bytes <= MOST_DATA
    });
    more.count() + events.len().min(1)
}

/// Packs consecutive events as zstd over one JSON line each. All `prev_hash` but the first are implied.
pub fn pack(events: &[Event], sealed_at: Timestamp) -> Result<(Seal, Vec<u8>)> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Err(Error::Bug("a seal without events".into()));
    };
    let mut lines = Vec::new();
    for event in events {
        let packed = PackedEvent {
            n: event.seq,
            t: event.at.as_micros(),
            k: event.kind.clone(),
            p: event.project.clone(),
            h: event.thread.clone(),
            s: event.session.clone(),
            a: event.actor.clone(),
            d: event.data.clone(),
            x: blake3::Hash::from(event.hash).to_hex().to_string(),
        };
        serde_json::to_writer(&mut lines, &packed)
            .map_err(|e| Error::Bug(format!("cannot pack an event: {e}")))?;
        lines.push(b'\n');
    }
    let body = zstd::bulk::compress(&lines, 3).map_err(Error::unavailable)?;
    let seal = Seal {
        from: first.seq,
        to: last.seq,
        prev_hash: first.prev_hash,
        last_hash: last.hash,
        dropped: false,
        sealed_at,
    };
    Ok((seal, body))
}

/// Unpacks a seal's body; the error says what is wrong with it.
pub fn unpack(seal: &Seal, body: &[u8]) -> std::result::Result<Vec<Event>, String> {
    let mut lines = Vec::new();
    let mut decoder = zstd::stream::read::Decoder::new(body).map_err(|e| e.to_string())?;
    std::io::Read::read_to_end(
        &mut std::io::Read::take(&mut decoder, MOST_BYTES as u64),
        &mut lines,
    )
    .map_err(|e| e.to_string())?;
    let mut prev_hash = seal.prev_hash;
    let mut events = Vec::new();
    for line in lines.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let packed: PackedEvent = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let hash = *blake3::Hash::from_hex(&packed.x)
            .map_err(|e| e.to_string())?
            .as_bytes();
        events.push(Event {
            seq: packed.n,
            at: Timestamp::from_micros(packed.t),
            kind: packed.k,
            project: packed.p,
            thread: packed.h,
            session: packed.s,
            actor: packed.a,
            data: packed.d,
            prev_hash,
            hash,
        });
        prev_hash = hash;
    }
    Ok(events)
}
