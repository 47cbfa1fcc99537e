//! The ledger's laws, proven against the real ledger over the in-memory backend and over SQLite.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod access;
mod anything;
mod begins;
mod broadcast;
mod budgets;
mod caps;
mod common;
mod crashes;
mod fences;
mod followers;
mod gates;
mod idempotency;
mod one_writer;
mod packing;
mod replies;
mod retention;
mod saga;
mod stalled;
mod summaries;
mod transcripts;
