//! How a transcript is held: strands of entries, and the chain of strands its messages are read through.
//!
//! - An **entry** is a message or a change of the state slice, at a **position** counted from the very
//!   beginning, ancestors included. Positions never change, so a fork and its source mean the same by one.
//! - A **strand** is a run of entries of one transcript. It only grows at its end and is never edited. A
//!   new transcript has one; a rewind begins the next; a fork begins its first where the source was cut.
//! - A strand knows its **lineage**: the strands before it, nearest first, each with the part that is
//!   inherited. At most [`Strand::KNOWN`] are written down, so a fork writes as much from a long history
//!   as from a short one; whoever needs older ones asks the last that is known.
//! - Every entry carries the hash of all entries up to it ([`Chain`]) and running [`Marks`], so one entry
//!   tells all that a fork or rewind to it must know.
//!
//! A strand that was cut where it begins is left out of the lineage. Each link therefore stands for at
//! least one entry, and walking a range costs no more links than it has entries.

use std::fmt;

use skein_domain::Timestamp;

use crate::id::{Run, TranscriptId};
use crate::usage::Usage;

/// The hash of an entry and everything before it: two that are equal have one past.
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

/// One stored entry. Tiers keep it as it is and look into nothing but the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub position: u64,
    pub chain: Chain,
    /// In the form of [`crate::record`].
    pub payload: Vec<u8>,
}

impl Entry {
    /// The entry as one value, for tiers that know it by its position, and for segments.
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

/// A strand by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub transcript: TranscriptId,
    pub strand: u32,
}

/// An ancestor, and the part of it that is inherited: its entries from `start` to before `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub place: Place,
    pub start: u64,
    pub end: u64,
    /// Of the last inherited entry, so that an ancestor that lost its tail and grew another is noticed.
    pub chain: Chain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strand {
    /// The position of its first entry.
    pub start: u64,
    /// Nearest first; the first one ends at `start`.
    pub lineage: Vec<Link>,
}

impl Strand {
    /// Most ancestors written down with one strand.
    pub const KNOWN: usize = 32;

    pub const ROOT: Self = Self {
        start: 0,
        lineage: vec![],
    };

    /// The strand that goes on where this one, known as `place`, is cut: after the entry with `chain`.
    pub(crate) fn cut(&self, place: Place, end: u64, chain: Chain) -> Self {
        let link = Link {
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

/// Part of one strand, on the way of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) place: Place,
    pub(crate) from: u64,
    pub(crate) end: u64,
    /// What the entry before `end` must have, where that is known.
    pub(crate) chain: Option<Chain>,
}

/// Running sums up to an entry, that one included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub messages: u64,
    /// Where the state slice in force was written.
    pub state: Option<u64>,
}

/// Where a transcript was forked from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub transcript: TranscriptId,
    pub end: u64,
    pub chain: Chain,
}

/// What a transcript is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Grows with every change; a fork begins above its source.
    pub version: u64,
    /// The latest run that was here; earlier ones write no more.
    pub run: Run,
    /// The strand that grows.
    pub strand: u32,
    /// How many strands were begun.
    pub strands: u32,
    /// The position of the next entry.
    pub end: u64,
    pub chain: Chain,
    pub marks: Marks,
    /// What all messages ever written here cost, hidden ones included, inherited ones not.
    pub spent: Usage,
    pub origin: Option<Origin>,
    pub created_at: Timestamp,
    pub touched_at: Timestamp,
    /// The time of the latest message; none goes before it.
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
            let place = Place {
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
