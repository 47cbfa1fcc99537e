//! The in-memory backend keeps the contract, and what is on disk stays readable.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod conformance;
mod golden;
mod golden_events;
