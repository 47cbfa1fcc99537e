//! A model server that follows a script, so that real agent programs can be run without keys, without a network
//! and with answers that are known beforehand.
//!
//! It speaks Anthropic Messages, OpenAI Responses, Chat Completions and Gemini, on loopback only. What it answers
//! stands in the prompt itself: `[[bash touch a ;; say done]]` calls the agent's shell tool and, when the result has
//! come back, says "done". The steps are listed in [`STEPS`]; rules for prompts without a directive come from a
//! [`Script`]. Everything that is asked is recorded as an [`Exchange`], which proves what reached the model, when,
//! and with which past.
//!
//! Not here: a model, other providers' dialects, TLS, or any knowledge of Skein.
//!
//! Read [`Server`] first, then `decide.rs`, which chooses the answer, and one of the files below `protocol.rs`.

mod conversation;
mod decide;
mod directive;
mod exchange;
mod protocol;
mod reply;
mod schema;
mod script;
mod server;
mod step;
mod tools;

pub use exchange::{Exchange, History, Late, Outcome};
pub use protocol::Protocol;
pub use script::{Script, ScriptError};
pub use server::{Server, Settings};
pub use step::STEPS;
