//! The structure of a transcript: strands of entries, and the chain of strands through which it is read.
//!
//! - An **entry** is a message or a change of the state slice, at a **position** counted from the very beginning,
//!   ancestors included. Positions never change, so they mean the same in a fork and in its source.
//! - A **strand** is a sequence of entries of one transcript. It is append-only. A new transcript has one strand, a
//!   rewind begins another, and a fork begins its first one where it leaves its source.
//! - A strand stores its **lineage**: the strands before it, nearest first, each with the inherited part. It stores
//!   at most [`Strand::KNOWN`] of them, so a fork of a long history writes no more than one of a short history; a
//!   reader that needs older ones gets them from the last one stored.
//! - Every entry carries the hash of all entries up to it ([`Chain`]) and running [`Marks`], so a fork or rewind
//!   needs to read only one entry.
//!
//! A strand of which nothing is inherited is not in the lineage. Each link therefore stands for at least one entry,
//! and a walk over a range visits no more links than entries.

use std::fmt;

use skein_domain::Timestamp;

use crate::id::{RunNumber, TranscriptId};
use crate::usage::TokenUsage;

/// The hash of an entry and everything before it: equal hashes mean equal histories.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chain(pub [u8; 32]);

impl Chain {
    pub const START: Self = Self([0; 32]);

    #[must_use]
    pub fn then(self, payload: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(payload);
        Self(*hasher.finalize().as_bytes())
    }

    pub fn parse(hex: &str) -> Option<Self> {
        let hash = blake3::Hash::from_hex(hex).ok()?;
        Some(Self(*hash.as_bytes()))
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// One stored entry. Tiers interpret only its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub position: u64,
    pub chain: Chain,
    /// In the form of [`crate::record`].
    pub payload: Vec<u8>,
}

impl Entry {
    /// The entry as one value, for segments and for tiers that store it under its position.
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.chain.0.as_slice(), &self.payload].concat()
    }

    pub fn from_bytes(position: u64, bytes: &[u8]) -> Option<Self> {
        let (chain, payload) = bytes.split_first_chunk::<32>()?;
        Some(Self {
            position,
            chain: Chain(*chain),
            payload: payload.to_vec(),
        })
    }
}

/// Identifies a strand.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StrandRef {
    pub transcript: TranscriptId,
    pub strand: u32,
}

/// An ancestor and the inherited part of it: its entries from `start` to before `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritedRange {
    pub place: StrandRef,
    pub start: u64,
    pub end: u64,
    /// The hash of the last inherited entry, to detect that an ancestor lost its tail and grew another.
    pub chain: Chain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strand {
    /// The position of its first entry.
    pub start: u64,
    /// Nearest first; the first one ends at `start`.
    pub lineage: Vec<InheritedRange>,
}

impl Strand {
    /// Most ancestors stored with one strand.
    pub const KNOWN: usize = 32;

    pub const ROOT: Self = Self {
        start: 0,
        lineage: vec![],
    };

    /// The strand that continues after this one (`place`) is cut after the entry with `chain`.
    pub(crate) fn cut(&self, place: StrandRef, end: u64, chain: Chain) -> Self {
        let link = InheritedRange {
            place,
            start: self.start,
            end,
            chain,
        };
        let older = self.lineage.iter().take(Self::KNOWN - 1).cloned();
        Self {
            start: end,
            lineage: std::iter::once(link).chain(older).collect(),
        }
    }
}

/// A part of one strand to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) place: StrandRef,
    pub(crate) from: u64,
    pub(crate) end: u64,
    /// The expected hash of the entry before `end`, if known.
    pub(crate) chain: Option<Chain>,
}

/// Running sums up to and including an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub messages: u64,
    /// The position of the current state slice.
    pub state: Option<u64>,
}

/// The point that a transcript was forked from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkOrigin {
    pub transcript: TranscriptId,
    pub end: u64,
    pub chain: Chain,
}

/// The current state of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptHead {
    /// Grows with every change; a fork's version starts above its source's.
    pub version: u64,
    /// The latest run that wrote; earlier runs are fenced off.
    pub run: RunNumber,
    /// The strand that is appended to.
    pub strand: u32,
    pub strands: u32,
    /// The position of the next entry.
    pub end: u64,
    pub chain: Chain,
    pub marks: Marks,
    /// The cost of all messages ever written here, hidden ones included, inherited ones not.
    pub spent: TokenUsage,
    pub origin: Option<ForkOrigin>,
    pub created_at: Timestamp,
    pub touched_at: Timestamp,
    /// The time of the latest message; later messages never get an earlier time.
    pub said_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l11_lineages_stay_short_however_deep_the_fork() {
        let mut strand = Strand::ROOT;
        for depth in 1..=1_000_u64 {
            let transcript = format!("t{depth}").parse().unwrap();
            let place = StrandRef {
                transcript,
                strand: 0,
            };
            strand = strand.cut(place, depth, Chain::START);
            assert!(strand.lineage.len() <= Strand::KNOWN);
            // Without a gap, down to the oldest that is known.
            assert_eq!(strand.lineage[0].end, strand.start);
            assert!(strand.lineage.windows(2).all(|w| w[0].start == w[1].end));
        }
    }

    #[test]
    fn entries_round_trip_as_bytes() {
        let entry = Entry {
            position: 7,
            chain: Chain::START.then(b"x"),
            payload: b"{}".to_vec(),
        };
        assert_eq!(Entry::from_bytes(7, &entry.to_bytes()), Some(entry));
        assert_eq!(Entry::from_bytes(7, b"short"), None);
    }
}
