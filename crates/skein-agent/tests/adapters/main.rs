//! The adapters: the suite they all pass, and what they read from recorded screens and files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod claude_code_screens;
mod conformance;
mod gemini_screens;
mod messages;
mod other_screens;
mod recorded;
mod screens;
