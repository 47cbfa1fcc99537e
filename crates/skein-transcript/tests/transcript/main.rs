//! The in-memory tiers keep their contracts, and the service keeps its word on them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod conformance;
mod expiry;
