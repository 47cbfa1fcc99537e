//! Agents: what Skein knows of the programs it runs.
//!
//! Purpose: one trait, [`agent::Agent`], says how a program is started and resumed, what its screens, hooks
//! and files mean, and which keys do what. [`scripted`], [`custom`] and one module per program people use implement it;
//! [`registry`] finds them.
//!
//! Non-goals: nothing here starts an agent, watches one, or keeps state; the engine and the runtimes do.
//! The one program in here is the scripted agent itself, which `skein scripted` runs.
//!
//! Read first: [`agent`], then [`custom`]; [`rules`] for screens, [`hooks`] for events.

pub mod agent;
pub mod aider;
pub mod claude_code;
pub mod codex;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod custom;
pub mod driven;
pub mod error;
pub mod gemini;
pub mod hooks;
mod installed;
pub mod known;
pub mod launch;
pub mod moment;
pub mod opencode;
pub mod program;
pub mod registry;
pub mod rules;
mod said;
pub mod scripted;
pub mod settings;

pub use agent::{
    Abilities, Agent, Draft, DuringTurn, Found, Order, Picture, Process, Profile, Reach, Reader,
    Reading, Reply, Resets, Result, Source, Spoken, Start, Wanted,
};
pub use aider::Aider;
pub use claude_code::ClaudeCode;
pub use codex::Codex;
pub use custom::Custom;
pub use driven::Driven;
pub use error::Error;
pub use gemini::Gemini;
pub use known::Known;
pub use opencode::OpenCode;
pub use registry::Registry;
pub use rules::Rules;
pub use scripted::Scripted;
pub use settings::AgentSettings;
