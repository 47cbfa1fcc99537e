//! Errors between Skein and an agent program, before anything is started.

use skein_domain::{Kind, PromptVia};
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    #[error("agent program `{program}` is not installed")]
    NotInstalled {
        program: String,
        /// The command that installs it.
        install: Option<String>,
    },
    #[error("cannot resume: {why}")]
    CannotResume { why: String },
    /// `place` is the agent's name and the key, as in `agents.qwen.rules`.
    #[error("invalid settings in `{place}`: {why}")]
    BadSettings {
        place: String,
        why: String,
        hints: Vec<String>,
    },
    #[error("agent `{agent}` needs a command")]
    NoCommand { agent: String },
    #[error("agent `{agent}` does not accept a prompt by {}", .via.as_str())]
    NoPrompt {
        agent: String,
        via: PromptVia,
        can: Vec<PromptVia>,
    },
    #[error("a prompt of {bytes} bytes is too long for an argument of agent `{agent}`")]
    PromptTooLong {
        agent: String,
        bytes: usize,
        /// The ways that accept longer prompts.
        can: Vec<PromptVia>,
    },
    #[error("agent `{agent}` does not speak `{protocol}`")]
    NoProtocol { agent: String, protocol: String },
    #[error("agent `{name}` not found")]
    Unknown {
        name: String,
        nearest: Option<String>,
        known: Vec<String>,
    },
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotInstalled { .. } => Kind::Unavailable,
            Self::CannotResume { .. } => Kind::Refused,
            Self::BadSettings { .. }
            | Self::NoCommand { .. }
            | Self::NoPrompt { .. }
            | Self::PromptTooLong { .. }
            | Self::NoProtocol { .. } => Kind::Misuse,
            Self::Unknown { .. } => Kind::NotFound,
        }
    }

    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NotInstalled { install, .. } => install
                .iter()
                .map(|command| format!("`{command}` installs it"))
                .collect(),
            Self::BadSettings { hints, .. } => hints.clone(),
            Self::NoCommand { .. } => vec!["`--command CMD` sets the command".into()],
            Self::NoPrompt { can, .. } => {
                let can: Vec<_> = can
                    .iter()
                    .map(|via| format!("`{}`", via.as_str()))
                    .collect();
                vec![format!("it accepts prompts by {}", can.join(", "))]
            }
            Self::PromptTooLong { can, .. } if can.is_empty() => {
                vec!["put it into a file, and name the file in a short task".into()]
            }
            Self::PromptTooLong { can, .. } => {
                let can = can
                    .iter()
                    .map(|via| format!("`--prompt-via {}`", via.as_str()));
                let can: Vec<_> = can.collect();
                vec![format!("{} accepts longer ones", can.join(" or "))]
            }
            Self::Unknown {
                nearest: Some(name),
                ..
            } => vec![format!("did you mean `{name}`?")],
            Self::Unknown { known, .. } => {
                let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                vec![format!("the known agents are {}", known.join(", "))]
            }
            Self::CannotResume { .. } | Self::NoProtocol { .. } => vec![],
        }
    }
}
