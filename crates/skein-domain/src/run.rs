//! One launch of a session's agent: what it was asked to be, and how it is found again.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::id::text_type;

/// What holds the agent's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuntimeKind {
    /// Our own holder, one small process per session.
    Pty,
    Tmux,
}

impl RuntimeKind {
    pub const ALL: [Self; 2] = [Self::Pty, Self::Tmux];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pty => "pty",
            Self::Tmux => "tmux",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.as_str() == value)
    }
}

/// How the task reaches the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PromptVia {
    /// Pasted into its terminal once it is ready.
    Typed,
    /// As the last argument of its command.
    Argv,
    /// On its standard input, which is then closed.
    Stdin,
}

impl PromptVia {
    pub const ALL: [Self; 3] = [Self::Typed, Self::Argv, Self::Stdin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Argv => "argv",
            Self::Stdin => "stdin",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.as_str() == value)
    }
}

/// How the agent is talked to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Via {
    /// As a person would, at its terminal.
    #[default]
    Terminal,
    /// By the Agent Client Protocol.
    Acp,
    /// By the program's own protocol for machines.
    Native,
}

impl Via {
    pub const ALL: [Self; 3] = [Self::Terminal, Self::Acp, Self::Native];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Acp => "acp",
            Self::Native => "native",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.as_str() == value)
    }
}

/// What the agent may do without asking.
/// Widest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    #[default]
    Ask,
    Edits,
    Full,
}

impl Permission {
    pub const ALL: [Self; 3] = [Self::Ask, Self::Edits, Self::Full];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Edits => "edits",
            Self::Full => "full",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.as_str() == value)
    }
}

fn visible(value: &str, most: usize) -> Result<(), &'static str> {
    if value.is_empty() || value.len() > most {
        return Err("it is empty or too long");
    }
    if value.chars().any(char::is_control) {
        return Err("it holds control characters");
    }
    Ok(())
}

fn handle(value: &str) -> Result<(), &'static str> {
    visible(value, 1024)
}

fn native(value: &str) -> Result<(), &'static str> {
    visible(value, 512)?;
    if value.starts_with('-') {
        return Err("it begins with `-`");
    }
    Ok(())
}

fn model(value: &str) -> Result<(), &'static str> {
    native(value)
}

fn command(value: &str) -> Result<(), &'static str> {
    if value.trim().is_empty() {
        return Err("it is empty");
    }
    if value.len() > 64 * 1024 {
        return Err("it is too long");
    }
    if value.contains('\0') {
        return Err("it holds a zero byte");
    }
    Ok(())
}

text_type! {
    /// How a runtime finds a run again; only that runtime reads it.
    RunHandle, "run handle", handle
}
text_type! {
    /// The agent program's own name for its conversation.
    NativeId, "native id", native
}
text_type! {
    /// A model's name, as the agent knows it.
    ModelName, "model", model
}
text_type! {
    /// A command line for `sh -c`.
    CommandLine, "command", command
}

/// A variable for the agent's environment. Skein's own cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    name: String,
    value: String,
}

impl EnvVar {
    pub fn new(name: &str, value: &str) -> Result<Self, Invalid> {
        let first = name.bytes().next();
        let ok = first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && name.len() <= 256
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !ok {
            let why = "expected a name of A-Z, a-z, 0-9 and `_`, not starting with a digit";
            return Err(Invalid::new("variable", name, why));
        }
        if name.to_ascii_uppercase().starts_with("SKEIN_") {
            return Err(Invalid::new(
                "variable",
                name,
                "names that begin with SKEIN_ are Skein's own",
            ));
        }
        if value.contains('\0') || value.len() > 128 * 1024 {
            // The value may be a secret, so it is not quoted.
            return Err(Invalid::new(
                "variable",
                name,
                "its value holds a zero byte or is too long",
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }

    /// `NAME=VALUE`.
    pub fn parse(assignment: &str) -> Result<Self, Invalid> {
        match assignment.split_once('=') {
            Some((name, value)) => Self::new(name, value),
            None => Err(Invalid::new("variable", assignment, "expected NAME=VALUE")),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn value(&self) -> &str {
        &self.value
    }
}

/// How a session's agent is to be started; kept, so that a restore starts it the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchSettings {
    /// Overrides the agent's own command.
    pub command: Option<CommandLine>,
    pub prompt_via: Option<PromptVia>,
    pub model: Option<ModelName>,
    pub permission: Permission,
    pub via: Via,
    /// Whether it is told to go on when a limit that stopped it is over.
    pub resume_after_limit: bool,
    pub env: Vec<EnvVar>,
    /// Where programs are looked for: the PATH of whoever asked.
    pub path: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l14_skeins_own_variables_cannot_be_set() {
        for bad in [
            "SKEIN_HOME=x",
            "skein_token=x",
            "Skein_X=1",
            "1A=x",
            "A B=x",
            "=x",
            "A",
            "A\0=x",
            "A=\0",
        ] {
            assert!(EnvVar::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["A=", "A=b=c", "_x=1", "PATH=/bin"] {
            assert!(EnvVar::parse(good).is_ok(), "{good:?}");
        }
    }
}
