//! What takes long: storms of kills and faults, a fuzzer, hundreds of agents, real agent programs. Every test is named
//! `heavy_…`; `./test` runs them, `./test --quick` does not.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "../harness/harness.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "the other suite uses the rest of the harness"
)]
mod harness;

mod agents;
mod crash;
mod fleet;
mod fuzz;
mod storm;
mod transcripts;
