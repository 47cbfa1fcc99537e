//! Answers stored under the caller's idempotency key, so that a repeated request has one effect.
//!
//! The transaction that does the work also stores the answer, so a crash cannot separate them. The daemon deletes
//! answers after [`KEPT_SECONDS`].

use serde::{Deserialize, Serialize};
use skein_domain::{Conflict, Key, SagaId, Timestamp};

use crate::access::{Reader, Writer};
use crate::backend::{Result, Row, RowFilter, RowIndex, Scan, SortOrder, Table};
use crate::error::Error;
use crate::event::Hash;

/// A day: longer than any client retries.
pub const KEPT_SECONDS: u64 = 24 * 3600;

/// An earlier request under the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriorRequest {
    Never,
    /// It was answered with this body.
    Answered(String),
}

#[derive(Serialize, Deserialize)]
struct ReplyV1 {
    v: u8,
    /// Identifies the request; another request under the same key is refused.
    fingerprint: String,
    /// The saga that works on it, for people who inspect the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    saga: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

fn hex(fingerprint: &Hash) -> String {
    blake3::Hash::from(*fingerprint).to_hex().to_string()
}

impl Reader<'_> {
    pub fn earlier(&self, key: &Key, fingerprint: &Hash) -> Result<PriorRequest> {
        let Some(row) = self.raw_row(Table::Reply, &self.reply_id(key))? else {
            return Ok(PriorRequest::Never);
        };
        let reply: ReplyV1 = serde_json::from_str(&row.body).map_err(|e| Error::Damaged {
            what: "the reply kept for key",
            id: key.to_string(),
            reason: e.to_string(),
        })?;
        if reply.fingerprint != hex(fingerprint) {
            return Err(Conflict::KeyReused {
                key: key.to_string(),
            }
            .into());
        }
        match reply.body {
            Some(body) => Ok(PriorRequest::Answered(body)),
            None => Err(Conflict::KeyInProgress {
                key: key.to_string(),
            }
            .into()),
        }
    }
}

impl Reader<'_> {
    /// The row id of a key's answer. The keys of each run are separate from those of other callers.
    fn reply_id(&self, key: &Key) -> String {
        match self.scope() {
            // A key contains no space, so ids cannot collide.
            Some(scope) => format!("{} {} {key}", scope.session, scope.run),
            None => key.to_string(),
        }
    }
}

impl Writer<'_> {
    /// Stores the answer; call it in the transaction that does the work.
    pub fn keep_reply(&mut self, key: &Key, fingerprint: &Hash, body: String) -> Result<()> {
        self.put_reply(
            key,
            ReplyV1 {
                v: 1,
                fingerprint: hex(fingerprint),
                saga: None,
                body: Some(body),
            },
        )
    }

    /// Records that a saga works on the request. Returns the row id for [`Writer::forget_reply`].
    pub fn reply_pending(
        &mut self,
        key: &Key,
        fingerprint: &Hash,
        saga: &SagaId,
    ) -> Result<String> {
        self.put_reply(
            key,
            ReplyV1 {
                v: 1,
                fingerprint: hex(fingerprint),
                saga: Some(saga.to_string()),
                body: None,
            },
        )?;
        Ok(self.reader().reply_id(key))
    }

    /// Deletes the row of a failed request, so that the caller can retry it.
    pub fn forget_reply(&mut self, reply: &str) -> Result<()> {
        self.delete_row(Table::Reply, reply)
    }

    fn put_reply(&mut self, key: &Key, reply: ReplyV1) -> Result<()> {
        let body = serde_json::to_string(&reply)
            .map_err(|e| Error::Bug(format!("cannot encode a reply: {e}")))?;
        let index = RowIndex {
            touched_at: self.now().as_micros(),
            live: true,
            ..RowIndex::default()
        };
        self.put_row(
            Table::Reply,
            &Row {
                id: self.reader().reply_id(key),
                version: 1,
                index,
                body,
            },
        )
    }

    /// Deletes up to `limit` answers older than `before`.
    pub fn forget_replies(&mut self, before: Timestamp, limit: usize) -> Result<usize> {
        let rows = self.scan_rows(&Scan {
            table: Table::Reply,
            filter: RowFilter {
                live: Some(true),
                touched_before: Some(before),
                ..RowFilter::default()
            },
            order: SortOrder::OldestFirst,
            after: None,
            limit,
        })?;
        for placed in &rows {
            self.delete_row(Table::Reply, &placed.row.id)?;
        }
        Ok(rows.len())
    }
}
