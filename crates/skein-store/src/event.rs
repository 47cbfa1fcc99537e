//! The event log: gapless per tenant, each event bound to the one before by its hash (L9).

use skein_domain::{TenantId, Timestamp};

use crate::seal::Seal;

pub type Hash = [u8; 32];

/// A recorded fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: u64,
    /// Never earlier than the event before, even when the clock goes back.
    pub at: Timestamp,
    pub kind: String,
    pub project: Option<String>,
    pub thread: Option<String>,
    pub session: Option<String>,
    pub actor: String,
    /// A JSON object, kept as the text that was hashed.
    pub data: String,
    pub prev_hash: Hash,
    pub hash: Hash,
}

/// The end of a tenant's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    pub hash: Hash,
    pub at: Timestamp,
}

impl Head {
    pub const START: Self = Self {
        seq: 0,
        hash: [0; 32],
        at: Timestamp::from_micros(i64::MIN),
    };
}

impl Event {
    /// The hash this event ought to have. Every field is length-prefixed, so no two events share an input.
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
            // An absent field is told from an empty one by its marker.
            field(if part.is_some() { b"+" } else { b"-" });
            field(part.as_deref().unwrap_or_default().as_bytes());
        }
        field(self.actor.as_bytes());
        field(self.data.as_bytes());
        *hasher.finalize().as_bytes()
    }

    pub fn head(&self) -> Head {
        Head {
            seq: self.seq,
            hash: self.hash,
            at: self.at,
        }
    }
}

/// What `events verify` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Events whose bodies were checked.
    pub checked: u64,
    /// Events known only by their seal.
    pub dropped: u64,
    pub broken: Option<Broken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The first event that is not as it was written.
    pub at: u64,
    pub why: String,
}

/// Walks a chain from its beginning, fed in order.
#[derive(Debug)]
pub struct Verifier<'a> {
    tenant: &'a TenantId,
    last: (u64, Hash),
    verdict: Verdict,
}

impl<'a> Verifier<'a> {
    pub fn new(tenant: &'a TenantId) -> Self {
        Self {
            tenant,
            last: (0, Head::START.hash),
            verdict: Verdict {
                checked: 0,
                dropped: 0,
                broken: None,
            },
        }
    }

    fn fail(&mut self, at: u64, why: impl Into<String>) {
        if self.verdict.broken.is_none() {
            self.verdict.broken = Some(Broken {
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
                format!("event {} was changed after it was written", event.seq),
            );
        }
        self.verdict.checked += 1;
        self.last = (event.seq, event.hash);
    }

    /// A seal with the events that it holds.
    pub fn sealed(&mut self, seal: &Seal, events: &[Event]) {
        events.iter().for_each(|event| self.event(event));
        if self.last != (seal.to, seal.last_hash) {
            self.fail(
                seal.to,
                format!(
                    "the seal of events {} to {} does not end so",
                    seal.from, seal.to
                ),
            );
        }
    }

    /// A seal whose bodies were dropped: only its ends can be checked.
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

    /// A body that cannot be read back.
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

    pub fn finish(mut self, head: &Head) -> Verdict {
        let (seq, hash) = self.last;
        if head.seq != seq {
            let missing = seq.min(head.seq) + 1;
            self.fail(
                missing,
                format!("the log ends at {seq}, its head says {}", head.seq),
            );
        } else if head.hash != hash {
            self.fail(seq, format!("event {seq} is not the one the head names"));
        }
        self.verdict
    }
}
