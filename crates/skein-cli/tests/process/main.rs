//! Skein as its users meet it: the real binary in a home of its own, its daemon, its files, real git and terminals.
//!
//! One module per subject; the tests in it are claims, named after the law they prove. Tests named `heavy_…` take long
//! and run in the full suite only. Nothing here sleeps to let something happen: tests wait for what they claim.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "../harness/harness.rs"]
mod harness;

mod delivery;
mod documents;
mod e2e;
mod fleet;
mod sagas;
mod tmux;
mod transcript;
mod work;
