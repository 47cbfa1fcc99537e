//! One launch of a session's agent: its settings and its handle.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::id::text_type;
use crate::word::words;

words! {
    /// What holds the agent's process, and where it is shown.
    pub enum RuntimeKind: "runtime" {
        /// The holder, one small process per session.
        Pty = "pty",
        /// The same holder, also shown in a tmux window.
        Tmux = "tmux",
    }
}

words! {
    pub enum PromptVia: "way of a prompt" {
        /// Pasted into its terminal once it is ready.
        Typed = "typed",
        /// As the last argument of its command.
        Argv = "argv",
        /// On its standard input, which is then closed.
        Stdin = "stdin",
    }
}

words! {
    #[derive(Default)]
    pub enum Via: "way to talk to an agent" {
        /// At its terminal, as a person would.
        #[default]
        Terminal = "terminal",
        Acp = "acp",
        /// Through the program's own machine protocol.
        Native = "native",
    }
}

words! {
    /// What the agent may do without asking, widest last.
    #[derive(Default)]
    pub enum Permission: "permission" {
        #[default]
        Ask = "ask",
        Edits = "edits",
        Full = "full",
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

fn native(value: &str) -> Result<(), &'static str> {
    visible(value, 512)?;
    if value.starts_with('-') {
        return Err("it begins with `-`");
    }
    Ok(())
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
    /// Identifies a run to its runtime, which alone interprets it.
    RunHandle, "run handle", |value: &str| visible(value, 1024)
}
text_type! {
    /// The agent program's own id of its conversation.
    NativeId, "native id", native
}
text_type! {
    /// A model's name, as the agent knows it.
    ModelName, "model", native
}
text_type! {
    /// A command line for `sh -c`.
    CommandLine, "command", command
}

/// A variable for the agent's environment. Names that begin with `SKEIN_` are reserved.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "(String, String)", into = "(String, String)")]
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
                "names that begin with SKEIN_ are reserved",
            ));
        }
        if value.contains('\0') || value.len() > 128 * 1024 {
            // The value may be a secret, so the message does not quote it.
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

/// How to start a session's agent; stored, so that a restore starts it the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LaunchSettings {
    /// Overrides the agent's own command.
    pub command: Option<CommandLine>,
    pub prompt_via: Option<PromptVia>,
    pub model: Option<ModelName>,
    pub permission: Permission,
    pub via: Via,
    /// Whether Skein tells the agent to continue once its limit is over.
    pub resume_after_limit: bool,
    pub env: Vec<EnvVar>,
    /// The search path for programs: the caller's PATH.
    pub path: Option<String>,
}

impl TryFrom<(String, String)> for EnvVar {
    type Error = Invalid;
    fn try_from((name, value): (String, String)) -> Result<Self, Invalid> {
        Self::new(&name, &value)
    }
}

impl From<EnvVar> for (String, String) {
    fn from(variable: EnvVar) -> Self {
        (variable.name, variable.value)
    }
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
