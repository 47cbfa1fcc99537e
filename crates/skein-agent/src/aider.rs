//! aider, which works in a terminal line by line.
//!
//! It has no tools, no hooks that say what it waits for, and no named conversations: its memory is a history file,
//! which Skein puts into the session's folder under a chosen name, and which also contains the messages. The cursor's
//! position shows whether it is ready; its analytics log, which it writes although it sends nothing, shows its usage.
//!
//! It changes files in its chat without asking, whatever its permission; it asks before it creates files, adds files
//! to the chat or runs a command.

mod history;
mod screen;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use skein_domain::{Activity, NativeId, Permission, Question, Reason, Usage, Via};

use crate::agent::{
    Agent, AnswerTarget, Draft, InstalledProgram, LaunchRequest, Process, ProtocolLaunch, Reader,
    Reading, Reply, Result, ScreenView, Start, WatchedFile,
};
use crate::installed::{self, TaskPrefix, installed_agent};
use crate::known::KnownAgent;
use crate::launch;
use crate::rules::option_named;

use screen::{ANSWERS, asked, prompt, taken_one};

/// The source kind of its analytics log.
const ANALYTICS: &str = "analytics";
/// The source kind of its history.
const HISTORY: &str = "history";

/// Answers the questions of a first start in advance, and prevents that data is sent. The repository keeps its
/// `.gitignore`.
const FLAGS: &[&str] = &[
    "--no-analytics",
    "--no-check-update",
    "--no-gitignore",
    "--no-show-model-warnings",
    "--no-show-release-notes",
    "--disable-playwright",
];

/// Runs the program. It keeps a cache in the repository, whose path cannot be configured: a folder that ignores
/// itself does not count as work, and the user's `.gitignore` stays unchanged.
const TIDY: &str = r#"if root=$(git rev-parse --show-toplevel 2>/dev/null); then
  cache=$root/.aider.tags.cache.v4
  [ -e "$cache" ] || { mkdir "$cache" && echo '*' >"$cache/.gitignore"; }
fi
exec "$@""#;

installed_agent!(Aider, "aider");

impl Aider {
    fn launch(&self, order: &LaunchRequest, native: NativeId, how: &[&str]) -> Result<Start> {
        let program = self.0.program(order)?;
        let mut argv = launch::owned(&["sh", "-c", TIDY, "sh", &program]);
        argv.extend(launch::owned(FLAGS));
        let typed = order.private.join("aider.input.history");
        for (flag, path) in [
            ("--chat-history-file", history(order, &native)),
            ("--input-history-file", typed),
            ("--analytics-log", analytics(order)),
        ] {
            argv.extend([flag.to_owned(), launch::text(&path, "private")?]);
        }
        if order.settings.permission == Permission::Full {
            argv.push("--yes-always".into());
        }
        launch::add_model(&mut argv, "--model", order);
        argv.extend(launch::owned(how));
        Ok(Start {
            native: Some(native),
            ..Start::of(argv, BTreeMap::new())
        })
    }
}

/// The history file of a conversation.
fn history(order: &LaunchRequest, native: &NativeId) -> PathBuf {
    // The id must not lead out of the private folder.
    let name = native.as_str().replace(['/', '\0'], "_");
    order.private.join(format!("aider-{name}.md"))
}

/// Each run has its own log, so that counting starts at zero.
fn analytics(order: &LaunchRequest) -> PathBuf {
    order.private.join(format!("aider-{}.jsonl", order.run))
}

impl Agent for Aider {
    fn known(&self) -> &KnownAgent {
        &self.0.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> InstalledProgram {
        self.0.find(path, env, logged_in)
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        let start = self.launch(order, launch::native_of(order), &[])?;
        self.0.with_task(order, start, TaskPrefix::Separator)
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        let kept = |native: &NativeId| history(order, native).exists();
        let native = installed::conversation(order, kept)?.clone();
        self.launch(order, native, &["--restore-chat-history"])
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
        Err(launch::no_protocol(self.name(), via))
    }

    fn read_screen(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        let does = |activity, rule: &str| Reading::does(activity, rule, None);
        let taken = || Reading::PromptTaken { text: None };
        if let Some(question) = asked(picture) {
            let mut readings = vec![does(Activity::WaitingInput, "confirm")];
            readings.extend(taken_one(picture).then(taken));
            readings.push(Reading::Wants(AnswerTarget::Permission));
            readings.push(Reading::Asks(question));
            return readings;
        }
        if prompt(picture).is_some() {
            return vec![does(Activity::Ready, "prompt")];
        }
        let mut readings = self.0.known.rules.read(picture);
        if taken_one(picture) {
            if readings.is_empty() {
                readings.push(does(Activity::Active, "prompt taken"));
            }
            readings.push(taken());
        }
        readings
    }

    fn draft(&self, picture: ScreenView<'_>) -> Draft {
        let Some(lines) = prompt(picture).filter(|_| asked(picture).is_none()) else {
            return Draft::Unseen;
        };
        match lines.join("\n").trim() {
            "" => Draft::Empty,
            text => Draft::Holds(text.to_owned()),
        }
    }

    fn sources(&self, order: &LaunchRequest) -> Vec<WatchedFile> {
        let native = order.native.as_ref();
        let history = native.map(|native| WatchedFile::added(history(order, native), HISTORY));
        let analytics = WatchedFile::added(analytics(order), ANALYTICS);
        history.into_iter().chain([analytics]).collect()
    }

    fn reader(&self, kind: &str, _process: Option<Process>) -> Box<dyn Reader> {
        match kind {
            ANALYTICS => Box::new(Analytics),
            HISTORY => Box::new(history::History::default()),
            _ => launch::no_reader(),
        }
    }

    fn interrupt(&self) -> Vec<u8> {
        b"\x03".to_vec()
    }

    fn answer(&self, question: &Question, option: Option<usize>, text: &Reason) -> Reply {
        let chosen = option.or_else(|| option_named(question, text));
        let Some(chosen) = chosen.and_then(|n| question.options.get(n)) else {
            if question.options.is_empty() {
                return Reply::Text(text.into());
            }
            let why = "that is not one of its options".into();
            return Reply::Cannot { why };
        };
        match ANSWERS.iter().find(|(name, ..)| *name == chosen.as_str()) {
            Some((_, keys, _)) => Reply::Keys(keys.as_bytes().to_vec()),
            None => Reply::Text(chosen.into()),
        }
    }
}

/// Whether there is a key for some provider in the files it reads at its start. Local models need none, so `None` means
/// unknown.
fn logged_in(env: &BTreeMap<String, String>) -> Option<bool> {
    let keys = Path::new(env.get("HOME")?).join(".aider/oauth-keys.env");
    keys.exists().then_some(true)
}

/// Reads one JSON object per line; only requests to the model and their answers count.
#[derive(Debug)]
struct Analytics;

#[derive(Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    properties: Sent,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sent {
    prompt_tokens: u64,
    completion_tokens: u64,
    cost: f64,
}

impl Reader for Analytics {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let reading = |line: Line| match line.event.as_str() {
            // A turn may be too short to be seen on the screen.
            "message_send_starting" => Some(Reading::Worked),
            "message_send" => Some(Reading::Usage(Usage {
                input_tokens: line.properties.prompt_tokens,
                output_tokens: line.properties.completion_tokens,
                cost_micros: crate::hooks::micros(&line.properties.cost.to_string()).unwrap_or(0),
            })),
            _ => None,
        };
        text.lines()
            .filter(|line| line.contains("\"message_send"))
            .filter_map(|line| reading(serde_json::from_str(line).ok()?))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_analytics_log_tells_of_work_and_what_it_used() {
        let text = "{\"event\": \"message_send_starting\", \"properties\": {}}\n\
                    {\"event\": \"message_send\", \"properties\": {\"prompt_tokens\": 766, \"completion_tokens\": 12, \
                    \"cost\": 0.0125, \"total_cost\": 1.0}}\n";
        let used = Usage {
            input_tokens: 766,
            output_tokens: 12,
            cost_micros: 12_500,
        };
        assert_eq!(
            Analytics.read(text),
            [Reading::Worked, Reading::Usage(used)]
        );
    }
}
