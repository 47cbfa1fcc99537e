//! A model server that follows a script, to run real agent programs without keys, without a network and with known
//! answers.
//!
//! It speaks Anthropic Messages, OpenAI Responses, Chat Completions and Gemini, on loopback only. The prompt itself
//! contains the answer: `[[bash touch a ;; say done]]` calls the agent's shell tool and, after its result, says
//! "done". [`STEPS`] lists the steps; a [`Script`] has rules for prompts without a directive. The server records
//! every request as an [`Exchange`], which proves what reached the model, when, and with which history.
//!
//! Not here: a model, other providers' protocols, TLS, or any knowledge of Skein.
//!
//! Start with [`Server`], then `decide.rs`, which chooses the answer, and one of the files below `protocol.rs`.

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

pub use exchange::{Exchange, ExchangeOutcome, History, Late};
pub use protocol::Protocol;
pub use script::{Script, ScriptError};
pub use server::{ModelServerSettings, Server};
pub use step::STEPS;
