//! The API as its callers see it, in this process: the real routes behind real sockets, on a store in memory.
//!
//! Each file has the claims about one subject, named after the law they prove. The tests of `skein-cli` claim what needs a
//! process (crashes, locks, signals, the command line).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[expect(dead_code, reason = "other suites use the rest of the client")]
mod client;
mod door;
mod idempotency;
mod input;
mod routes;
mod streams;
mod world;
