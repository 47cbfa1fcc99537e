//! The API as its callers meet it, in this process: the real routes behind real sockets, on a store in memory.
//!
//! Each file holds the claims about one subject, named after the law they prove. What needs a process (crashes, locks,
//! signals, the command line) is claimed by the tests of `skein-cli`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[expect(dead_code, reason = "other suites use the rest of the client")]
mod client;
mod door;
mod idempotency;
mod input;
mod routes;
mod streams;
mod world;
