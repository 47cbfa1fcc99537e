//! The built-in terminal beyond the suite: viewers, and clients that misbehave.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod desk;
mod holder;
mod view;
