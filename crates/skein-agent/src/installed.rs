//! Programs that users install: what their data files declare, and what all their adapters do alike.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use skein_domain::{AgentName, NativeId, PromptVia, Via};
use toml::Table;

use crate::agent::{
    Abilities, InstalledProgram, LaunchRequest, Profile, Result, Start, TurnMessagePolicy,
};
use crate::error::Error;
use crate::known::KnownAgent;
use crate::rules::Rules;
use crate::{launch, program};

/// Declares the adapter of an installed program: its type, which reads `data/NAME.toml` once.
macro_rules! installed_agent {
    ($agent:ident, $name:literal) => {
        #[derive(Clone, Copy, Debug)]
        pub struct $agent(&'static $crate::installed::Installed);

        impl $agent {
            pub const NAME: &'static str = $name;

            pub fn new() -> Self {
                use $crate::installed::Installed;
                static INSTALLED: std::sync::LazyLock<Installed> = std::sync::LazyLock::new(|| {
                    let data = include_str!(concat!("../data/", $name, ".toml"));
                    Installed::read($name, data).expect("our own file, read by a test")
                });
                Self(&INSTALLED)
            }
        }

        impl Default for $agent {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}
pub(crate) use installed_agent;

/// The table `[program]` of a data file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramTable {
    command: String,
    install: String,
    login: String,
    /// The tested version.
    tested: String,
    memory_mb: u64,
    prompt: Vec<String>,
    protocols: Vec<String>,
    hooks: bool,
    files: bool,
    during_turn: TurnMessagePolicy,
    enter_after_ms: u64,
    logins: Vec<String>,
    inherits: Vec<String>,
}

/// What a data file says of its program.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) known: KnownAgent,
    profile: Profile,
    /// The variables that log it in.
    logins: Vec<String>,
}

/// What precedes a task in the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskPrefix {
    /// `--`, after which nothing is an option.
    Separator,
    /// An option with the task as its value.
    Flag(&'static str),
}

impl Installed {
    pub(crate) fn read(name: &str, data: &str) -> Result<Self> {
        let bad = |why: String| Error::BadSettings {
            place: format!("{name}.program"),
            why,
            hints: vec![],
        };
        let mut table = Table::from_str(data).map_err(|error| bad(error.message().to_owned()))?;
        let declared = table
            .remove("program")
            .ok_or_else(|| bad("it is required".into()))?;
        let declared: ProgramTable = declared
            .try_into()
            .map_err(|error| bad(error.to_string()))?;
        let abilities = Abilities {
            prompt: each(&declared.prompt, PromptVia::parse).ok_or_else(|| bad("prompt".into()))?,
            resume: true,
            hooks: declared.hooks,
            screens: true,
            files: declared.files,
            usage: true,
            protocols: each(&declared.protocols, Via::parse)
                .ok_or_else(|| bad("protocols".into()))?,
            during_turn: declared.during_turn,
            enter_after: Duration::from_millis(declared.enter_after_ms),
            inherits: [declared.logins.clone(), declared.inherits].concat(),
        };
        // Each file is read once, and its texts are needed until the end.
        let tested = &*declared.tested.leak();
        let profile = Profile {
            program: declared.command.leak(),
            install: declared.install.leak(),
            version: &["--version"],
            tested: (tested, tested),
            login: declared.login.leak(),
        };
        let known = KnownAgent {
            name: AgentName::from_str(name).map_err(|error| bad(error.to_string()))?,
            abilities,
            rules: Rules::from_table(name, table)?,
            memory_mb: declared.memory_mb,
            profile: Some(profile),
        };
        Ok(Self {
            known,
            profile,
            logins: declared.logins,
        })
    }

    /// The program's path as an argument; the error contains the command that installs it.
    pub(crate) fn program(&self, order: &LaunchRequest) -> Result<String> {
        self.locate(self.profile.program, self.profile.install, order)
    }

    /// The same for a program beside the agent's own.
    pub(crate) fn locate(
        &self,
        name: &str,
        install: &str,
        order: &LaunchRequest,
    ) -> Result<String> {
        // A custom command line cannot be combined with the adapter's.
        if order.settings.command.is_some() {
            return Err(Error::BadSettings {
                place: "--command".into(),
                why: format!("agent `{}` has its own command", self.known.name),
                hints: vec!["`--agent custom` starts any command".into()],
            });
        }
        match program::find(name, &order.path, None) {
            Some(path) => launch::text(&path, "PATH"),
            None => Err(Error::NotInstalled {
                program: name.to_owned(),
                install: Some(install.to_owned()),
            }),
        }
    }

    /// Looks for the program. `in_files` looks for a login in files, if no variable logs it in.
    pub(crate) fn find(
        &self,
        path: &str,
        env: &BTreeMap<String, String>,
        in_files: fn(&BTreeMap<String, String>) -> Option<bool>,
    ) -> InstalledProgram {
        let program = program::find(self.profile.program, path, None);
        let missing = program.is_none();
        let is_set = |name| {
            env.get(name)
                .is_some_and(|value: &String| !value.trim().is_empty())
        };
        InstalledProgram {
            missing: missing.then(|| format!("`{}` is not in PATH", self.profile.program)),
            install: missing.then(|| self.profile.install.to_owned()),
            program,
            version: None,
            built_in: false,
            logged_in: match self.logins.iter().any(is_set) {
                true => Some(true),
                false => in_files(env),
            },
        }
    }

    /// Adds the task to a start, in the ordered way or the program's default one.
    pub(crate) fn with_task(
        &self,
        order: &LaunchRequest,
        mut start: Start,
        prefix: TaskPrefix,
    ) -> Result<Start> {
        let via = launch::via(&self.known.name, &self.known.abilities, order)?;
        match prefix {
            _ if via != PromptVia::Argv => {}
            TaskPrefix::Separator => start.argv.push("--".into()),
            TaskPrefix::Flag(_) if order.task.as_str().starts_with('-') => {
                return Err(Error::BadSettings {
                    place: "--prompt-via".into(),
                    why: "the task begins with `-` and would be taken for an option".into(),
                    hints: vec!["`--prompt-via typed` avoids arguments".into()],
                });
            }
            TaskPrefix::Flag(flag) => start.argv.push(flag.into()),
        }
        launch::deliver(&mut start, via, &order.task);
        Ok(start)
    }
}

fn each<T>(words: &[String], parse: fn(&str) -> Option<T>) -> Option<Vec<T>> {
    words.iter().map(|word| parse(word)).collect()
}

/// The conversation to continue, if it is known and still exists.
pub(crate) fn conversation(
    order: &LaunchRequest,
    is_there: impl FnOnce(&NativeId) -> bool,
) -> Result<&NativeId> {
    let why = match &order.native {
        None => "it has no conversation yet".into(),
        Some(native) if is_there(native) => return Ok(native),
        Some(native) => format!("its conversation `{native}` is gone"),
    };
    Err(Error::CannotResume { why })
}

/// A folder that a variable names, or one below `HOME`.
pub(crate) fn folder(
    env: &BTreeMap<String, String>,
    variable: &str,
    below_home: &str,
) -> Option<PathBuf> {
    let named = |name: &str| env.get(name).filter(|value| value.starts_with('/'));
    named(variable)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(named("HOME")?).join(below_home)))
}
