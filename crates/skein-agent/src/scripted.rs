//! The adapter of the built-in scripted agent: deterministic, without a network, for `demo` and tests.
//!
//! The program is `skein scripted`, in the crate `skein-fixtures`. This adapter treats it like any other agent: it
//! knows its arguments, its screens, and two files in its private folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use skein_domain::{NativeId, PromptVia, Via};

use crate::agent::{
    Abilities, Agent, InstalledProgram, LaunchRequest, Process, ProtocolLaunch, Reader, Reading,
    Result, Start, TurnMessagePolicy, WatchedFile,
};
use crate::error::Error;
use crate::installed;
use crate::known::KnownAgent;
use crate::launch;

const RULES: &str = include_str!("../data/scripted.toml");
/// In the private folder: the conversation. Its first line contains the id.
const CONVERSATION: &str = "conversation.jsonl";
/// In the private folder: the messages of user and agent.
const MESSAGES: &str = "messages.jsonl";

#[derive(Clone, Debug)]
pub struct Scripted {
    known: KnownAgent,
}

impl Scripted {
    pub const NAME: &'static str = "scripted";

    /// Reads its screens only; hooks that its environment enables are understood too.
    pub fn new() -> Self {
        Self::with(false)
    }

    pub fn with_hooks() -> Self {
        Self::with(true)
    }

    fn with(hooks: bool) -> Self {
        let abilities = Abilities {
            prompt: PromptVia::ALL.to_vec(),
            resume: true,
            hooks,
            screens: true,
            files: false,
            usage: true,
            protocols: vec![],
            during_turn: TurnMessagePolicy::Queues,
            enter_after: Duration::ZERO,
            inherits: vec![],
        };
        let known = KnownAgent::own(Self::NAME, 8, RULES, abilities);
        Self { known }
    }

    fn launch(&self, order: &LaunchRequest, how: &str, native: NativeId) -> Result<Start> {
        if order.settings.command.is_some() {
            return Err(Error::BadSettings {
                place: "--command".into(),
                why: format!("agent `{}` is built in", Self::NAME),
                hints: vec!["`--agent custom` starts any command".into()],
            });
        }
        let mut argv = vec![launch::text(&order.skein, "skein")?, Self::NAME.into()];
        argv.extend(["--private".into(), launch::text(&order.private, "private")?]);
        argv.extend([how.to_owned(), native.to_string()]);
        let hooks = self.known.abilities.hooks;
        let hooks = hooks.then(|| ("SCRIPTED_HOOKS".to_owned(), "1".to_owned()));
        Ok(Start {
            native: Some(native),
            ..Start::of(argv, hooks.into_iter().collect())
        })
    }
}

impl Default for Scripted {
    fn default() -> Self {
        Self::new()
    }
}

impl Agent for Scripted {
    fn known(&self) -> &KnownAgent {
        &self.known
    }

    fn find(&self, _path: &str, _env: &BTreeMap<String, String>) -> InstalledProgram {
        InstalledProgram {
            built_in: true,
            version: Some(env!("CARGO_PKG_VERSION").into()),
            ..InstalledProgram::default()
        }
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        let mut start = self.launch(order, "--native", launch::native_of(order))?;
        let via = launch::via(&self.known.name, &self.known.abilities, order)?;
        if via == PromptVia::Argv {
            start.argv.push("--prompt".into());
        }
        launch::deliver(&mut start, via, &order.task);
        Ok(start)
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        let native = installed::conversation(order, |native| holds(&order.private, native))?;
        self.launch(order, "--resume", native.clone())
    }

    /// Its conversations are there.
    fn resumes_from_private(&self) -> bool {
        true
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

    /// A file has its messages; only the screen shows what it does.
    fn sources(&self, order: &LaunchRequest) -> Vec<WatchedFile> {
        vec![WatchedFile::added(order.private.join(MESSAGES), MESSAGES)]
    }

    fn reader(&self, kind: &str, _process: Option<Process>) -> Box<dyn Reader> {
        match kind {
            MESSAGES => Box::new(crate::driven::Journal { counts: true }),
            _ => launch::no_reader(),
        }
    }
}

/// Whether the folder contains the conversation with this id.
fn holds(private: &Path, native: &NativeId) -> bool {
    let text = fs::read_to_string(private.join(CONVERSATION)).unwrap_or_default();
    // A crash can leave an incomplete line.
    let head = text.split_once('\n').map(|(head, _)| head);
    let head = head.and_then(|head| serde_json::from_str::<Value>(head).ok());
    head.is_some_and(|head| head["native"] == native.as_str())
}
