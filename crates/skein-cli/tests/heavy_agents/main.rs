//! The real agent programs, against a scripted model on loopback.
//!
//! `./test --agents` installs the programs in pinned versions and names their folder in `SKEIN_TEST_AGENTS`;
//! without it these tests fail. Each test has a home of its own, which the programs take for their user's. What
//! they are told holds directives like `[[bash touch a ;; say done]]`, which the model obeys. Nothing here measures
//! time: tests wait for what they claim.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod fork;
mod life;
mod parallel;
mod stage;
mod traps;
mod truth;

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
