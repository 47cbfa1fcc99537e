//! Gemini CLI: the program `gemini`.
//!
//! # How it is started
//! `gemini --session-id ID --approval-mode MODE [--model M] -i TASK`. `GEMINI_CLI_TRUST_WORKSPACE` marks the folder as
//! trusted, so that no dialog asks and nothing is written to the user's files.
//!
//! # Sources
//! Its screen shows what it does; its chat files contain the tokens. It has hooks, but no place to configure them for
//! one session: it reads system settings only if they and all parent folders belong to root, and every other place
//! belongs to the user or the repository.

mod chat;
mod messages;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use skein_domain::{Activity, NativeId, Permission, Reason, Via};

use crate::agent::{
    Agent, Draft, InstalledProgram, LaunchRequest, Process, ProtocolLaunch, Reader, Reading,
    Result, ScreenView, Start, WatchedFile, add_limit, reword,
};
use crate::installed::{self, TaskPrefix, installed_agent};
use crate::known::KnownAgent;
use crate::launch;

/// The heading of a dialog with a question of the model.
const QUESTIONS: &str = "Answer Questions";

installed_agent!(Gemini, "gemini");

impl Gemini {
    fn launch(&self, order: &LaunchRequest, how: &str, native: NativeId) -> Result<Start> {
        let mut argv = vec![self.0.program(order)?, how.to_owned(), native.to_string()];
        argv.extend(modes(order));
        Ok(Start {
            native: Some(native),
            ..Start::of(argv, presets())
        })
    }
}

fn modes(order: &LaunchRequest) -> Vec<String> {
    let mode = match order.settings.permission {
        Permission::Ask => "default",
        Permission::Edits => "auto_edit",
        Permission::Full => "yolo",
    };
    let mut modes = vec!["--approval-mode".into(), mode.into()];
    launch::add_model(&mut modes, "--model", order);
    modes
}

/// The user chose this folder for an agent.
fn presets() -> BTreeMap<String, String> {
    [("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into())].into()
}

fn config_folder(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    Some(installed::folder(env, "GEMINI_CLI_HOME", "")?.join(".gemini"))
}

/// A key may also be in the system's secret store; then the answer is unknown.
fn logged_in(env: &BTreeMap<String, String>) -> Option<bool> {
    let config = config_folder(env)?;
    if config.join("oauth_creds.json").is_file() {
        return Some(true);
    }
    let holds = |name: &str, word: &str| {
        std::fs::read_to_string(config.join(name)).is_ok_and(|text| text.contains(word))
    };
    if holds(".env", "GEMINI_API_KEY") {
        return Some(true);
    }
    (!holds("settings.json", "selectedType")).then_some(false)
}

impl Agent for Gemini {
    fn known(&self) -> &KnownAgent {
        &self.0.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> InstalledProgram {
        self.0.find(path, env, logged_in)
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        let start = self.launch(order, "--session-id", launch::native_of(order))?;
        self.0.with_task(order, start, TaskPrefix::Flag("-i"))
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        let kept = |native: &NativeId| chat::is_there(order, native.as_str());
        let native = installed::conversation(order, kept)?;
        self.launch(order, "--resume", native.clone())
    }

    fn protocol_launch(
        &self,
        order: &LaunchRequest,
        via: Via,
        resume: bool,
    ) -> Result<ProtocolLaunch> {
        if via != Via::Acp {
            return Err(launch::no_protocol(self.name(), via));
        }
        let mut argv = vec![self.0.program(order)?, "--acp".into()];
        argv.extend(modes(order));
        let resumed = order.native.as_ref().filter(|_| resume);
        if let Some(native) = resumed {
            // This does not load it. Every start deletes chats without messages and other chats of the same id,
            // except for its own id; and a load leaves a chat without messages.
            argv.extend(["--resume".into(), native.to_string()]);
        }
        Ok(ProtocolLaunch {
            dialect: "acp",
            start: Start::of(argv, presets()),
            not_before: resumed.and_then(|native| chat::loadable(order, native.as_str())),
        })
    }

    fn read_screen(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        let rules = &self.0.known.rules;
        let mut readings = match shows_box(picture.rows) {
            true => rules.read_above_box(picture),
            false => rules.read(picture),
        };
        if !shows_box(picture.rows) {
            let ready = |r: &Reading| matches!(r, Reading::Activity { activity, .. } if *activity == Activity::Ready);
            readings.retain(|reading| !ready(reading));
        }
        reword(&mut readings, |question| words(question, picture.rows));
        add_limit(&mut readings, |_| true);
        readings
    }

    fn draft(&self, picture: ScreenView<'_>) -> Draft {
        match shows_box(picture.rows) {
            true => self.0.known.rules.draft_in_box(picture),
            false => Draft::Unseen,
        }
    }

    fn sources(&self, order: &LaunchRequest) -> Vec<WatchedFile> {
        chat::sources(order)
    }

    fn reader(&self, kind: &str, _process: Option<Process>) -> Box<dyn Reader> {
        chat::reader(kind).unwrap_or_else(launch::no_reader)
    }
}

/// Accepted prompts look like the input box. Only the box has a line above it, with a row of hints between.
fn shows_box(rows: &[String]) -> bool {
    let last = |signs: &str, before: usize| {
        let rows = &rows[..before];
        rows.iter().rposition(|row| row.starts_with(signs))
    };
    let top = last("▀▀▀▀", rows.len()).and_then(|bottom| last("▄▄▄▄", bottom));
    top.is_some_and(|top| {
        let above = &rows[top.saturating_sub(3)..top];
        above.iter().any(|row| row.starts_with("────"))
    })
}

/// `Shell: touch a` for a permission, and the model's text for its questions.
fn words(text: &str, rows: &[String]) -> Option<Reason> {
    if text != QUESTIONS {
        return Reason::from_str(&text.replacen("  ", ": ", 1)).ok();
    }
    let inside = |row: &str| row.trim_matches(['│', ' ']).to_owned();
    let heading = rows.iter().rposition(|row| inside(row) == QUESTIONS)?;
    let asked: Vec<String> = rows[heading + 1..]
        .iter()
        .map(|row| inside(row))
        .take_while(|row| !row.starts_with(['●', '1']))
        .filter(|row| !row.is_empty())
        .collect();
    Reason::from_str(&asked.join(" ")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l6_a_prompt_of_before_is_not_the_input_box() {
        let rows = ["✦ ok", "▄▄▄▄▄▄", " > fix it", "▀▀▀▀▀▀", ""].map(str::to_owned);
        let picture = ScreenView {
            rows: &rows,
            cursor: (0, 0),
            title: None,
        };
        let agent = Gemini::new();
        assert_eq!(agent.read_screen(picture), []);
        assert_eq!(agent.draft(picture), Draft::Unseen);
    }

    #[test]
    fn a_login_that_only_the_system_could_show_is_not_denied() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join(".gemini");
        std::fs::create_dir(&config).unwrap();
        let env: BTreeMap<String, String> =
            [("HOME".to_owned(), home.path().display().to_string())].into();
        let logged_in = |env: &BTreeMap<String, String>| Gemini::new().find("/bin", env).logged_in;
        assert_eq!(logged_in(&BTreeMap::new()), None);
        assert_eq!(logged_in(&env), Some(false));
        std::fs::write(config.join("settings.json"), r#"{"selectedType":"x"}"#).unwrap();
        assert_eq!(logged_in(&env), None);
        std::fs::write(config.join("oauth_creds.json"), "{}").unwrap();
        assert_eq!(logged_in(&env), Some(true));
    }
}
