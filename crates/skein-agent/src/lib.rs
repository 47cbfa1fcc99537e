//! Adapters: what Skein knows of the agent programs it runs.
//!
//! One trait, [`agent::Agent`], describes how to start and resume a program, what its screens, hooks and files mean,
//! and which keys do what. [`scripted`], [`custom`] and one module per well-known program implement it; [`registry`]
//! finds them.
//!
//! Non-goals: nothing here starts an agent, watches one, or keeps state; the engine and the runtimes do.
//!
//! Start with [`agent`] and [`custom`]; [`rules`] for screens, [`hooks`] for events, [`turns`] for calls.

pub mod agent;
pub mod aider;
pub mod claude_code;
pub mod codex;
pub mod custom;
pub mod driven;
pub mod error;
pub mod gemini;
pub mod hooks;
mod installed;
pub mod known;
pub mod launch;
mod messages;
pub mod moment;
pub mod opencode;
pub mod program;
pub mod registry;
pub mod rules;
pub mod scripted;
pub mod settings;
pub mod turns;

pub use agent::{
    Abilities, Agent, AnswerTarget, Draft, InstalledProgram, LaunchRequest, Process, Profile,
    ProtocolLaunch, QuotaReset, ReadRange, Reader, Reading, Reply, Result, ScreenView, Start,
    TurnMessagePolicy, WatchedFile,
};
pub use aider::Aider;
pub use claude_code::ClaudeCode;
pub use codex::Codex;
pub use custom::Custom;
pub use driven::DrivenAgent;
pub use error::Error;
pub use gemini::Gemini;
pub use known::KnownAgent;
pub use opencode::OpenCode;
pub use registry::Registry;
pub use rules::Rules;
pub use scripted::Scripted;
pub use settings::AgentSettings;
pub use turns::{CallId, TurnAnswer, TurnCall, TurnEvent, TurnRequest, Turns};
