//! Any command as an agent: `--agent custom --command CMD`, or `[agents.NAME]` in `skein.toml`.
//!
//! The command is a line for `sh -c`. No other text is ever inserted into it: a prompt is a separate argument
//! (`"$@"`), a conversation's id a shell variable. A program may report the events of [`crate::hooks`] by `$SKEIN_BIN
//! hook`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use skein_domain::{AgentName, CommandLine, EnvVar, NativeId, PromptVia, Via};

use crate::agent::{
    Abilities, Agent, InstalledProgram, LaunchRequest, ProtocolLaunch, Reading, Result, Start,
    TurnMessagePolicy,
};
use crate::error::Error;
use crate::known::KnownAgent;
use crate::launch;
use crate::program;
use crate::rules::Rules;
use crate::settings::{AgentSettings, KeyNames, RulesSource};

/// Placeholder for the conversation's id in commands.
const NATIVE: &str = "{native}";
/// Whether a launch carries the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prompt {
    Task,
    /// The conversation continues without a prompt.
    Nothing,
}

/// Assumed memory if the settings do not say.
const MEMORY_MB: u64 = 256;

#[derive(Clone, Debug)]
pub struct Custom {
    known: KnownAgent,
    command: Option<CommandLine>,
    resume: Option<CommandLine>,
    separator: Option<String>,
    model_flag: Option<String>,
    env: BTreeMap<String, String>,
    submit: Vec<u8>,
    interrupt: Vec<u8>,
    install: Option<String>,
    /// From `[agents.NAME]`, not only from `--command`.
    configured: bool,
}

impl Custom {
    pub const NAME: &'static str = "custom";

    /// The agent that consists only of its `--command`.
    pub fn bare() -> Self {
        Self::build(
            AgentName::from_str(Self::NAME).expect("a plain word"),
            AgentSettings::default(),
            Rules::default(),
        )
        .expect("nothing is set that could be wrong")
    }

    /// From `[agents.NAME]`; a rules file is relative to `folder`.
    pub fn configured(name: AgentName, settings: AgentSettings, folder: &Path) -> Result<Self> {
        if settings.command.is_none() {
            return Err(bad(&name, "command", "it is required"));
        }
        let place = format!("agents.{name}.rules");
        let rules = match &settings.rules {
            None => Rules::default(),
            Some(RulesSource::Inline(table)) => Rules::from_table(&place, table.clone())?,
            Some(RulesSource::File(file)) => {
                let path = folder.join(file);
                let text = fs::read_to_string(&path)
                    .map_err(|e| bad(&name, "rules", format!("`{}`: {e}", path.display())))?;
                Rules::parse(&path.display().to_string(), &text)?
            }
        };
        let mut custom = Self::build(name, settings, rules)?;
        custom.configured = true;
        Ok(custom)
    }

    fn build(name: AgentName, settings: AgentSettings, rules: Rules) -> Result<Self> {
        let bad = |key, why: String| bad(&name, key, why);
        let line = |key, text: Option<&String>| {
            let line = text.map(|text| CommandLine::from_str(text)).transpose();
            line.map_err(|error| bad(key, error.to_string()))
        };
        let keys = |key, names: Option<&KeyNames>, default: &[u8]| match names {
            None => Ok(default.to_vec()),
            Some(names) => names
                .bytes()
                .map_err(|name| bad(key, format!("`{name}` is not the name of a key"))),
        };
        let mut env = BTreeMap::new();
        for (variable, value) in &settings.env {
            EnvVar::new(variable, value).map_err(|error| bad("env", error.to_string()))?;
            env.insert(variable.clone(), value.clone());
        }
        for variable in &settings.inherit {
            EnvVar::new(variable, "").map_err(|error| bad("inherit", error.to_string()))?;
        }
        let first = match settings.prompt.as_deref() {
            None => PromptVia::Typed,
            Some(word) => PromptVia::parse(word)
                .ok_or_else(|| bad("prompt", "expected typed, argv or stdin".into()))?,
        };
        let mut prompt = vec![first];
        prompt.extend(PromptVia::ALL.into_iter().filter(|via| *via != first));
        let abilities = Abilities {
            prompt,
            resume: settings.resume.is_some(),
            hooks: settings.hooks,
            screens: !rules.is_empty(),
            files: false,
            usage: settings.hooks || rules.reads_usage(),
            protocols: vec![],
            during_turn: TurnMessagePolicy::Unsafe,
            enter_after: Duration::from_millis(settings.enter_after_ms.unwrap_or(0)),
            inherits: settings.inherit.clone(),
        };
        Ok(Self {
            command: line("command", settings.command.as_ref())?,
            resume: line("resume", settings.resume.as_ref())?,
            separator: settings.separator.clone(),
            model_flag: settings.model_flag.clone(),
            env,
            submit: keys("submit", settings.submit.as_ref(), b"\r")?,
            interrupt: keys("interrupt", settings.interrupt.as_ref(), b"\x1b")?,
            install: settings.install.clone(),
            configured: false,
            known: KnownAgent {
                name,
                abilities,
                rules,
                memory_mb: settings.memory_mb.unwrap_or(MEMORY_MB),
                profile: None,
            },
        })
    }

    fn launch(
        &self,
        order: &LaunchRequest,
        command: &CommandLine,
        native: Option<&NativeId>,
        prompt: Prompt,
    ) -> Result<Start> {
        self.check_installed(order, command)?;
        let mut words = Vec::new();
        if let Some(model) = &order.settings.model {
            let flag = self
                .model_flag
                .as_ref()
                .ok_or_else(|| bad(&self.known.name, "model_flag", "required to choose a model"))?;
            words.extend([flag.clone(), model.to_string()]);
        }
        let via = match prompt {
            Prompt::Task => Some(launch::via(&self.known.name, &self.known.abilities, order)?),
            Prompt::Nothing => None,
        };
        if via == Some(PromptVia::Argv) {
            match &self.separator {
                Some(separator) => words.push(separator.clone()),
                None if order.task.as_str().starts_with('-') => {
                    return Err(self.like_an_option());
                }
                None => {}
            }
        }
        let takes = !words.is_empty() || via == Some(PromptVia::Argv);
        let mut start = Start {
            argv: self.argv(command, native, takes)?,
            env: self.env.clone(),
            native: native.cloned(),
            ..Start::default()
        };
        start.argv.extend(words);
        if let Some(via) = via {
            launch::deliver(&mut start, via, &order.task);
        }
        Ok(start)
    }

    /// `sh -c LINE sh [NATIVE] ARGUMENTS…`
    fn argv(
        &self,
        command: &CommandLine,
        native: Option<&NativeId>,
        takes: bool,
    ) -> Result<Vec<String>> {
        let text = command.as_str().trim();
        // After one of these the arguments would be a separate command, in a comment they would be lost.
        if takes && (text.ends_with([';', '&', '|', '\\']) || text.contains(" #")) {
            let why = format!("`{text}` cannot take arguments at its end");
            return Err(bad(&self.known.name, "command", why));
        }
        let mut line = text.to_owned();
        if takes {
            line.push_str(" \"$@\"");
        }
        if program::of(text).is_some() {
            // The shell need not remain between Skein and the agent.
            line = format!("exec {line}");
        }
        let mut argv: Vec<String> = vec!["sh".into(), "-c".into()];
        match native.filter(|_| text.contains(NATIVE)) {
            Some(native) => {
                let line = line.replace(NATIVE, "\"$skein_native\"");
                argv.push(format!("skein_native=$1; shift; {line}"));
                argv.extend(["sh".into(), native.to_string()]);
            }
            None => argv.extend([line, "sh".into()]),
        }
        Ok(argv)
    }

    fn like_an_option(&self) -> Error {
        Error::BadSettings {
            place: format!("agents.{}.separator", self.known.name),
            why: "the prompt begins with `-` and would be taken for an option".into(),
            hints: vec![
                "`separator = \"--\"` is inserted before a prompt, if the program supports it"
                    .into(),
                "`--prompt-via typed` avoids arguments".into(),
            ],
        }
    }

    fn check_installed(&self, order: &LaunchRequest, command: &CommandLine) -> Result<()> {
        match program::of(command.as_str()) {
            Some(name) if program::find(name, &order.path, Some(&order.workspace)).is_none() => {
                Err(Error::NotInstalled {
                    program: name.to_owned(),
                    install: self.install.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    fn command<'a>(&'a self, order: &'a LaunchRequest) -> Result<&'a CommandLine> {
        let command = order.settings.command.as_ref().or(self.command.as_ref());
        command.ok_or_else(|| Error::NoCommand {
            agent: self.known.name.to_string(),
        })
    }
}

impl Agent for Custom {
    fn known(&self) -> &KnownAgent {
        &self.known
    }

    fn find(&self, path: &str, _env: &BTreeMap<String, String>) -> InstalledProgram {
        let name = self.command.as_ref().and_then(|c| program::of(c.as_str()));
        let found = name.and_then(|name| program::find(name, path, None));
        let missing = name.filter(|name| found.is_none() && !name.starts_with('.'));
        InstalledProgram {
            missing: missing.map(|name| format!("`{name}` is not in PATH")),
            install: missing.and(self.install.clone()),
            program: found,
            version: None,
            built_in: !self.configured,
            logged_in: None,
        }
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        let command = self.command(order)?;
        let chosen = command
            .as_str()
            .contains(NATIVE)
            .then(|| launch::native_of(order));
        self.launch(order, command, chosen.as_ref(), Prompt::Task)
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        let cannot = |why: &str| Error::CannotResume { why: why.into() };
        let Some(resume) = &self.resume else {
            return Err(cannot("no `resume` command is set for this agent"));
        };
        if order.settings.command.is_some() {
            return Err(cannot(
                "it was started by `--command`, which `resume` does not support",
            ));
        }
        if resume.as_str().contains(NATIVE) && order.native.is_none() {
            return Err(cannot(
                "the agent never reported the id of its conversation",
            ));
        }
        self.launch(order, resume, order.native.as_ref(), Prompt::Nothing)
    }

    fn protocol_launch(
        &self,
        _order: &LaunchRequest,
        via: Via,
        _resume: bool,
    ) -> Result<ProtocolLaunch> {
        Err(launch::no_protocol(&self.known.name, via))
    }

    fn read_hook(&self, event: &str, payload: &str) -> Vec<Reading> {
        crate::hooks::read(event, payload)
    }

    fn submit(&self) -> Vec<u8> {
        self.submit.clone()
    }

    fn interrupt(&self) -> Vec<u8> {
        self.interrupt.clone()
    }
}

fn bad(name: &AgentName, key: &str, why: impl Into<String>) -> Error {
    Error::BadSettings {
        place: format!("agents.{name}.{key}"),
        why: why.into(),
        hints: vec![],
    }
}

#[cfg(test)]
mod tests;
