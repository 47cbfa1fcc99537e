//! The built-in runtime: it passes the suite, starts beside what an earlier run left, serves viewers, and survives
//! clients that misbehave.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod conformance;
mod holder;
mod stage;
mod start;
mod view;
