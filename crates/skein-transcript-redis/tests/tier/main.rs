//! The tier on real servers, which the tests start and end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod conformance;
mod crash;
mod expiry;
mod peer;
mod refusal;
mod server;
mod talk;
