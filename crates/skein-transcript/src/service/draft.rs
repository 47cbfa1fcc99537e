//! A change under construction.

use super::WriteContext;
use super::view::Cut;
use crate::chain::{Entry, Marks, Strand, TranscriptHead};
use crate::error::{Error, Result};
use crate::hot::{HeadRow, KnownIds, NewEntry, StagedEntries, StrandRow, TranscriptBatch};
use crate::id::MessageId;
use crate::message::Message;
use crate::record::{self, Content};
use crate::state::{StateSlice, VersionedState};

pub(crate) struct Draft {
    head: TranscriptHead,
    changed: bool,
    strands: Vec<StrandRow>,
    entries: Vec<NewEntry>,
    bytes: usize,
    adopt: Option<StagedEntries>,
}

impl Draft {
    /// Most bytes of one change.
    const MOST: usize = 64 * 1024 * 1024;

    pub(super) fn first(head: TranscriptHead, strand: &Strand) -> Result<Self> {
        let strands = vec![StrandRow {
            number: head.strand,
            body: record::strand_body(strand)?,
        }];
        Ok(Self {
            strands,
            ..Self::of(head)
        })
    }

    /// A complete transcript from the cold tier.
    pub(super) fn whole(
        head: TranscriptHead,
        strands: Vec<StrandRow>,
        stage: StagedEntries,
    ) -> Self {
        Self {
            strands,
            adopt: Some(stage),
            ..Self::of(head)
        }
    }

    /// A draft on top of `head`. It is no change yet, unless the run is new.
    pub(super) fn on(head: &TranscriptHead, by: WriteContext) -> Self {
        let mut draft = Self::of(head.clone());
        draft.changed = by.run > head.run;
        draft.head.run = by.run;
        draft.head.version += 1;
        draft.head.touched_at = head.touched_at.max(by.at);
        draft
    }

    fn of(head: TranscriptHead) -> Self {
        Self {
            head,
            changed: true,
            strands: vec![],
            entries: vec![],
            bytes: 0,
            adopt: None,
        }
    }

    pub(super) fn head(&self) -> &TranscriptHead {
        &self.head
    }

    pub(super) fn is_change(&self) -> bool {
        self.changed
    }

    pub(super) fn append(&mut self, mut message: Message) -> Result<()> {
        message.check()?;
        message.run = self.head.run;
        message.at = message.at.max(self.head.said_at);
        let marks = Marks {
            messages: self.head.marks.messages + 1,
            ..self.head.marks
        };
        let (id, said_at, usage) = (message.id.clone(), message.at, message.usage);
        let content = Content::Message(Box::new(message));
        self.push(marks, &content, Some(id), "a message", Message::MOST)?;
        self.head.said_at = said_at;
        self.head.spent = self.head.spent.plus(usage);
        Ok(())
    }

    /// Sets the state; returns its version.
    pub(super) fn set(&mut self, state: StateSlice) -> Result<u64> {
        state.check()?;
        let marks = Marks {
            state: Some(self.head.end),
            ..self.head.marks
        };
        let version = self.head.version;
        let content = Content::State(Box::new(VersionedState { version, state }));
        self.push(marks, &content, None, "a state", StateSlice::MOST)?;
        Ok(version)
    }

    fn push(
        &mut self,
        marks: Marks,
        content: &Content,
        id: Option<MessageId>,
        what: &'static str,
        limit: usize,
    ) -> Result<()> {
        let payload = record::payload(marks, content)?;
        let size = payload.len();
        if size > limit {
            return Err(Error::TooLarge { what, size, limit });
        }
        self.bytes += size;
        if self.bytes > Self::MOST {
            return Err(Error::TooLarge {
                what: "a batch",
                size: self.bytes,
                limit: Self::MOST,
            });
        }
        let entry = Entry {
            position: self.head.end,
            chain: self.head.chain.then(&payload),
            payload,
        };
        self.head.chain = entry.chain;
        self.head.end += 1;
        self.head.marks = marks;
        self.entries.push(NewEntry { entry, id });
        self.changed = true;
        Ok(())
    }

    /// Continues from a cut, on a new strand. Forks still share what comes after the cut. Must precede appends.
    pub(super) fn rewind(&mut self, cut: Cut) -> Result<()> {
        self.head.strand = self.head.strands;
        self.head.strands = (self.head.strands.checked_add(1))
            .ok_or_else(|| Error::Bug("a transcript has too many strands".into()))?;
        self.head.end = cut.strand.start;
        self.head.chain = cut.chain;
        self.head.marks = cut.marks;
        self.strands.push(StrandRow {
            number: self.head.strand,
            body: record::strand_body(&cut.strand)?,
        });
        self.changed = true;
        Ok(())
    }

    pub(super) fn into_change(
        self,
        expected: Option<HeadRow>,
        ids: KnownIds,
    ) -> Result<TranscriptBatch> {
        Ok(TranscriptBatch {
            expected,
            head: HeadRow {
                version: self.head.version,
                touched_at: self.head.touched_at,
                body: record::head_body(&self.head)?,
            },
            strands: self.strands,
            entries: (self.head.strand, self.entries),
            ids,
            adopt: self.adopt,
        })
    }

    /// The transcript's version after the change.
    pub(super) fn version(&self) -> u64 {
        // A draft without a change does not increment the version.
        self.head.version - u64::from(!self.changed)
    }
}
