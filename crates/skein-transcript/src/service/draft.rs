//! One change in the making.

use super::By;
use super::view::Cut;
use crate::chain::{Entry, Head, Marks, Strand};
use crate::error::{Error, Result};
use crate::hot::{Change, HeadRow, Ids, NewEntry, Stage, StrandRow};
use crate::id::MessageId;
use crate::message::Message;
use crate::record::{self, Content};
use crate::state::{State, Versioned};

pub(crate) struct Draft {
    head: Head,
    changed: bool,
    strands: Vec<StrandRow>,
    entries: Vec<NewEntry>,
    bytes: usize,
    adopt: Option<Stage>,
}

impl Draft {
    /// Most bytes of one change.
    const MOST: usize = 64 * 1024 * 1024;

    pub(super) fn first(head: Head, strand: &Strand) -> Result<Self> {
        let strands = vec![StrandRow {
            number: head.strand,
            body: record::strand_body(strand)?,
        }];
        Ok(Self {
            strands,
            ..Self::of(head)
        })
    }

    /// A transcript that comes back with everything it had.
    pub(super) fn whole(head: Head, strands: Vec<StrandRow>, stage: Stage) -> Self {
        Self {
            strands,
            adopt: Some(stage),
            ..Self::of(head)
        }
    }

    /// What comes after `head`. Nothing is changed yet, unless the run is a new one.
    pub(super) fn on(head: &Head, by: By) -> Self {
        let mut draft = Self::of(head.clone());
        draft.changed = by.run > head.run;
        draft.head.run = by.run;
        draft.head.version += 1;
        draft.head.touched_at = head.touched_at.max(by.at);
        draft
    }

    fn of(head: Head) -> Self {
        Self {
            head,
            changed: true,
            strands: vec![],
            entries: vec![],
            bytes: 0,
            adopt: None,
        }
    }

    /// As it will be.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    pub(super) fn is_change(&self) -> bool {
        self.changed
    }

    pub(super) fn say(&mut self, mut message: Message) -> Result<()> {
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

    /// Sets the state; answers its version.
    pub(super) fn set(&mut self, state: State) -> Result<u64> {
        state.check()?;
        let marks = Marks {
            state: Some(self.head.end),
            ..self.head.marks
        };
        let version = self.head.version;
        let content = Content::State(Box::new(Versioned { version, state }));
        self.push(marks, &content, None, "a state", State::MOST)?;
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

    /// Goes back to a cut, on a strand of its own. What lies beyond stays for those who share it. Comes
    /// before anything that is said.
    pub(super) fn rewind(&mut self, cut: Cut) -> Result<()> {
        self.head.strand = self.head.strands;
        self.head.strands = (self.head.strands.checked_add(1))
            .ok_or_else(|| Error::Bug("a transcript was rewound too often".into()))?;
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

    pub(super) fn into_change(self, expected: Option<HeadRow>, ids: Ids) -> Result<Change> {
        Ok(Change {
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

    /// The transcript's version after this.
    pub(super) fn version(&self) -> u64 {
        // Without a change there is none to count.
        self.head.version - u64::from(!self.changed)
    }
}
