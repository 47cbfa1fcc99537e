//! Answers kept under the caller's idempotency key, so that a repeated request has one effect.
//!
//! The answer is written in the transaction that did the work, so there is no moment in which the work
//! is done and the answer unknown. They survive a restart and are forgotten after [`KEPT_SECONDS`].

use serde::{Deserialize, Serialize};
use skein_domain::{Conflict, HandoffId, Key, Timestamp};

use crate::access::{Reader, Writer};
use crate::backend::{Filter, Index, Order, Result, Row, Scan, Table};
use crate::error::Error;
use crate::event::Hash;

/// A day: longer than any client retries.
pub const KEPT_SECONDS: u64 = 24 * 3600;

/// What is known of a request that came before under the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    Never,
    /// It was carried out and answered so.
    Answered(String),
}

#[derive(Serialize, Deserialize)]
struct ReplyV1 {
    v: u8,
    /// Of the request; another request under the same key is refused.
    fingerprint: String,
    /// The saga at work on it, for people who look into the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    saga: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

fn hex(fingerprint: &Hash) -> String {
    blake3::Hash::from(*fingerprint).to_hex().to_string()
}

impl Reader<'_> {
    pub fn earlier(&self, key: &Key, fingerprint: &Hash) -> Result<Earlier> {
        let Some(row) = self.raw_row(Table::Reply, &self.reply_id(key))? else {
            return Ok(Earlier::Never);
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
            Some(body) => Ok(Earlier::Answered(body)),
            None => Err(Conflict::KeyInProgress {
                key: key.to_string(),
            }
            .into()),
        }
    }
}

impl Reader<'_> {
    /// Where the answer under a key is kept. A run has keys of its own: it neither meets nor takes those of others.
    fn reply_id(&self, key: &Key) -> String {
        match self.scope() {
            // No key holds a blank.
            Some(scope) => format!("{} {} {key}", scope.session, scope.run),
            None => key.to_string(),
        }
    }
}

impl Writer<'_> {
    /// Keeps the answer; call in the transaction that makes it true.
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

    /// Notes that a saga is at work on the request.
    pub fn reply_pending(&mut self, key: &Key, fingerprint: &Hash, saga: &HandoffId) -> Result<()> {
        self.put_reply(
            key,
            ReplyV1 {
                v: 1,
                fingerprint: hex(fingerprint),
                saga: Some(saga.to_string()),
                body: None,
            },
        )
    }

    /// Forgets a request that came to nothing, so that it can be tried again.
    pub fn forget_reply(&mut self, key: &Key) -> Result<()> {
        let id = self.reader().reply_id(key);
        self.delete_row(Table::Reply, &id)
    }

    fn put_reply(&mut self, key: &Key, reply: ReplyV1) -> Result<()> {
        let body = serde_json::to_string(&reply)
            .map_err(|e| Error::Bug(format!("cannot encode a reply: {e}")))?;
        let index = Index {
            touched_at: self.now().as_micros(),
            live: true,
            ..Index::default()
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

    /// Forgets up to `limit` answers older than `before`.
    pub fn forget_replies(&mut self, before: Timestamp, limit: usize) -> Result<usize> {
        let rows = self.scan_rows(&Scan {
            table: Table::Reply,
            filter: Filter {
                live: Some(true),
                touched_before: Some(before),
                ..Filter::default()
            },
            order: Order::OldestFirst,
            after: None,
            limit,
        })?;
        for placed in &rows {
            self.delete_row(Table::Reply, &placed.row.id)?;
        }
        Ok(rows.len())
    }
}
