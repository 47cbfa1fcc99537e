//! Ledger and transcripts in SQLite files: the suites, crashes, tampering, and files that are not for us.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod conformance;
mod crash;
mod migration;
mod refusals;
mod tampering;
mod transcript_bytes;
mod transcript_conformance;
mod transcript_kill;
