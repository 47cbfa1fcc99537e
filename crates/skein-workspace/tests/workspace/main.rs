//! Every kind of workspace keeps the contract, and no odd state of a repository loses work (L5).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod clone;
mod conformance;
mod furnish;
mod hidden;
mod hostile;
mod interrupted;
mod l5;
mod odd_states;
mod parallel;
mod pool;
mod shared;
