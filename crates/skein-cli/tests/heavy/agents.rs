//! The real agent programs, against a scripted model on loopback.
//!
//! `./test --agents` installs the programs in pinned versions and names their folder in `SKEIN_TEST_AGENTS`;
//! without it these tests fail. Each test has a home of its own, which the programs take for their user's. What
//! they are told holds directives like `[[bash touch a ;; say done]]`, which the model obeys. Nothing here measures
//! time: tests wait for what they claim.

mod life;
mod parallel;
mod stage;
mod tour;
mod traps;
mod truth;
