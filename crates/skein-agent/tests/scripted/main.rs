//! The scripted program as a terminal sees it: what it does, and how difficult it can be.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod delivery;
mod directives;
mod launches;
mod terminal;
