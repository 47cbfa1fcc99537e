//! The stored forms of heads, strands and manifests.

use serde::{Deserialize, Serialize};
use skein_domain::Timestamp;

use crate::chain::{Chain, ForkOrigin, InheritedRange, Marks, Strand, StrandRef, TranscriptHead};
use crate::id::{RunNumber, TranscriptId};
use crate::usage::TokenUsage;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StrandV1 {
    v: u8,
    start: u64,
    lineage: Vec<LinkV1>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LinkV1 {
    transcript: String,
    strand: u32,
    start: u64,
    end: u64,
    chain: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct HeadV1 {
    v: u8,
    version: u64,
    run: u64,
    strand: u32,
    strands: u32,
    end: u64,
    chain: String,
    messages: u64,
    state: Option<u64>,
    spent: TokenUsage,
    origin: Option<OriginV1>,
    created_at: i64,
    touched_at: i64,
    said_at: i64,
}

#[derive(Serialize, Deserialize)]
struct OriginV1 {
    transcript: String,
    end: u64,
    chain: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ManifestV1 {
    pub(crate) v: u8,
    pub(crate) transcript: String,
    pub(crate) head: HeadV1,
    /// By number, without gaps.
    pub(crate) strands: Vec<SealedV1>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SealedV1 {
    pub(crate) strand: StrandV1,
    /// (end, hash, uncompressed size); each begins where the previous one ends.
    pub(crate) segments: Vec<(u64, String, u64)>,
    /// The hash of the last entry.
    pub(crate) chain: String,
}

pub(crate) fn chain(hex: &str) -> Result<Chain, String> {
    Chain::parse(hex).ok_or_else(|| "a hash is invalid".to_owned())
}

fn transcript(text: &str) -> Result<TranscriptId, String> {
    text.parse()
        .map_err(|e: skein_domain::Invalid| e.to_string())
}

impl From<&Strand> for StrandV1 {
    fn from(strand: &Strand) -> Self {
        let link = |link: &InheritedRange| LinkV1 {
            transcript: link.place.transcript.to_string(),
            strand: link.place.strand,
            start: link.start,
            end: link.end,
            chain: link.chain.to_string(),
        };
        Self {
            v: 1,
            start: strand.start,
            lineage: strand.lineage.iter().map(link).collect(),
        }
    }
}

impl TryFrom<StrandV1> for Strand {
    type Error = String;
    fn try_from(record: StrandV1) -> Result<Self, String> {
        let mut below = record.start;
        let mut lineage = Vec::with_capacity(record.lineage.len());
        for link in record.lineage {
            // Without this check a walk over the lineage might not end.
            if link.end != below || link.start >= link.end {
                return Err("its lineage has gaps".into());
            }
            below = link.start;
            lineage.push(InheritedRange {
                place: StrandRef {
                    transcript: transcript(&link.transcript)?,
                    strand: link.strand,
                },
                start: link.start,
                end: link.end,
                chain: chain(&link.chain)?,
            });
        }
        if lineage.is_empty() && record.start != 0 {
            return Err("it has no ancestor although it does not start at 0".into());
        }
        Ok(Self {
            start: record.start,
            lineage,
        })
    }
}

impl From<&TranscriptHead> for HeadV1 {
    fn from(head: &TranscriptHead) -> Self {
        Self {
            v: 1,
            version: head.version,
            run: head.run.0,
            strand: head.strand,
            strands: head.strands,
            end: head.end,
            chain: head.chain.to_string(),
            messages: head.marks.messages,
            state: head.marks.state,
            spent: head.spent,
            origin: head.origin.as_ref().map(|origin| OriginV1 {
                transcript: origin.transcript.to_string(),
                end: origin.end,
                chain: origin.chain.to_string(),
            }),
            created_at: head.created_at.as_micros(),
            touched_at: head.touched_at.as_micros(),
            said_at: head.said_at.as_micros(),
        }
    }
}

impl TryFrom<HeadV1> for TranscriptHead {
    type Error = String;
    fn try_from(record: HeadV1) -> Result<Self, String> {
        let origin = |origin: OriginV1| {
            Ok::<_, String>(ForkOrigin {
                transcript: transcript(&origin.transcript)?,
                end: origin.end,
                chain: chain(&origin.chain)?,
            })
        };
        Ok(Self {
            version: record.version,
            run: RunNumber(record.run),
            strand: record.strand,
            strands: record.strands,
            end: record.end,
            chain: chain(&record.chain)?,
            marks: Marks {
                messages: record.messages,
                state: record.state,
            },
            spent: record.spent,
            origin: record.origin.map(origin).transpose()?,
            created_at: Timestamp::from_micros(record.created_at),
            touched_at: Timestamp::from_micros(record.touched_at),
            said_at: Timestamp::from_micros(record.said_at),
        })
    }
}
