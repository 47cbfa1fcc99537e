//! L5 as its users meet it: whatever is in a workspace is there afterwards, or where the message says.
//!
//! Each file holds the claims about one subject. Trees are compared whole, byte for byte; commands that are
//! printed for people are run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod branches;
mod clear_up;
mod furnish;
mod gits;
mod kinds;
mod odd;
mod shared;
mod states;
mod tree;
mod work;

#[path = "../fleet/common.rs"]
#[expect(dead_code, reason = "other suites use the rest")]
mod common;

#[path = "../e2e/common.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "the harness of the other suite, of which this one uses a part"
)]
mod base;
