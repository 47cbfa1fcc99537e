//! The event log: gapless per tenant; each event contains the hash of the one before (L9).

use skein_domain::{TenantId, Timestamp};

use crate::seal::Seal;

pub type Hash = [u8; 32];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: u64,
    /// Never earlier than the previous event, even if the clock goes back.
    pub at: Timestamp,
    pub kind: String,
    pub project: Option<String>,
    pub thread: Option<String>,
    pub session: Option<String>,
    pub actor: String,
    /// A JSON object, stored as the text that was hashed.
    pub data: String,
    pub prev_hash: Hash,
    pub hash: Hash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainHead {
    pub seq: u64,
    pub hash: Hash,
    pub at: Timestamp,
}

impl ChainHead {
    pub const START: Self = Self {
        seq: 0,
        hash: [0; 32],
        at: Timestamp::from_micros(i64::MIN),
    };
}

impl Event {
    /// The hash computed from the fields. Every field is length-prefixed, so no two events share an input.
    pub fn expected_hash(&self, tenant: &TenantId) -> Hash {
        let mut hasher = blake3::Hasher::new_derive_key("skein 2026-11 event chain v1");
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(&self.prev_hash);
        field(tenant.as_str().as_bytes());
        field(&self.seq.to_le_bytes());
        field(&self.at.as_micros().to_le_bytes());
        field(self.kind.as_bytes());
        for part in [&self.project, &self.thread, &self.session] {
            // The marker distinguishes an absent field from an empty one.
            field(if part.is_some() { b"+" } else { b"-" });
            field(part.as_deref().unwrap_or_default().as_bytes());
        }
        field(self.actor.as_bytes());
        field(self.data.as_bytes());
        *hasher.finalize().as_bytes()
    }

    pub fn head(&self) -> ChainHead {
        ChainHead {
            seq: self.seq,
            hash: self.hash,
            at: self.at,
        }
    }
}

/// The result of `events verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainReport {
    /// Events whose bodies were checked.
    pub checked: u64,
    /// Events known only by their seal.
    pub dropped: u64,
    pub broken: Option<ChainBreak>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainBreak {
    /// The first event that does not match.
    pub at: u64,
    pub why: String,
}

/// Verifies a chain whose parts the caller passes in order.
#[derive(Debug)]
pub struct Verifier<'a> {
    tenant: &'a TenantId,
    last: (u64, Hash),
    verdict: ChainReport,
}

impl<'a> Verifier<'a> {
    pub fn new(tenant: &'a TenantId) -> Self {
        Self {
            tenant,
            last: (0, ChainHead::START.hash),
            verdict: ChainReport {
                checked: 0,
                dropped: 0,
                broken: None,
            },
        }
    }

    fn fail(&mut self, at: u64, why: impl Into<String>) {
        if self.verdict.broken.is_none() {
            self.verdict.broken = Some(ChainBreak {
                at,
                why: why.into(),
            });
        }
    }

    pub fn is_broken(&self) -> bool {
        self.verdict.broken.is_some()
    }

    pub fn event(&mut self, event: &Event) {
        let (seq, hash) = self.last;
        if event.seq != seq + 1 {
            self.fail(
                seq + 1,
                format!("event {} is missing; {} follows {seq}", seq + 1, event.seq),
            );
        } else if event.prev_hash != hash {
            self.fail(
                event.seq,
                format!("event {} does not continue event {seq}", event.seq),
            );
        } else if event.hash != event.expected_hash(self.tenant) {
            self.fail(
                event.seq,
                format!("event {} does not match its hash", event.seq),
            );
        }
        self.verdict.checked += 1;
        self.last = (event.seq, event.hash);
    }

    /// Checks a seal and its unpacked events.
    pub fn sealed(&mut self, seal: &Seal, events: &[Event]) {
        events.iter().for_each(|event| self.event(event));
        if self.last != (seal.to, seal.last_hash) {
            self.fail(
                seal.to,
                format!(
                    "the seal of events {} to {} does not end with the hash it names",
                    seal.from, seal.to
                ),
            );
        }
    }

    /// Checks a seal without a body, of which only the ends are known.
    pub fn dropped(&mut self, seal: &Seal) {
        let (seq, hash) = self.last;
        if seal.from != seq + 1 {
            self.fail(
                seq + 1,
                format!(
                    "event {} is missing; a seal from {} follows {seq}",
                    seq + 1,
                    seal.from
                ),
            );
        } else if seal.prev_hash != hash {
            self.fail(
                seal.from,
                format!("the seal from {} does not continue event {seq}", seal.from),
            );
        }
        self.verdict.dropped += seal.to.saturating_sub(seal.from) + 1;
        self.last = (seal.to, seal.last_hash);
    }

    /// Records that a seal's body cannot be decoded.
    pub fn unreadable(&mut self, seal: &Seal, why: &str) {
        self.fail(
            seal.from,
            format!(
                "the seal of events {} to {} cannot be read: {why}",
                seal.from, seal.to
            ),
        );
        self.last = (seal.to, seal.last_hash);
    }

    pub fn finish(mut self, head: &ChainHead) -> ChainReport {
        let (seq, hash) = self.last;
        if head.seq != seq {
            let missing = seq.min(head.seq) + 1;
            self.fail(
                missing,
                format!("the log ends at {seq}, but its head is {}", head.seq),
            );
        } else if head.hash != hash {
            self.fail(seq, format!("event {seq} does not have the head's hash"));
        }
        self.verdict
    }
}
