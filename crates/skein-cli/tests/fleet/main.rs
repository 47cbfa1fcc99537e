//! The fleet as its users meet it: the real binary, a real git, real terminals, scripted agents.
//!
//! Each file holds the claims about one subject, named after the law they prove. Tests named `heavy_…` take
//! long and run in the full suite only. Nothing here measures time: tests wait for what they claim.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod access;
mod basics;
#[expect(dead_code, reason = "other suites use the rest")]
mod common;
mod surface;

#[path = "../e2e/common.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "the harness of the other suite, of which this one uses a part"
)]
mod base;
