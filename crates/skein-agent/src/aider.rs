//! aider, which talks on a terminal line by line.
//!
//! It has no tools, no hooks that tell what it waits for, and no conversations with names: what it remembers is
//! a file, which is kept in the session's folder and called after a name that we choose. What was said stands there.
//! Whether it is ready is told by where its cursor is, what it used by its analytics log, which it writes although
//! nothing is sent.
//!
//! It changes files that are in its chat without asking, whatever it may do; it asks before it makes new ones,
//! adds some to the chat or runs a command.

mod history;
mod screen;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use skein_domain::{Activity, NativeId, Permission, PromptVia, Question, Reason, Usage, Via};

use crate::agent::{
    Abilities, Agent, Draft, DuringTurn, Found, Order, Picture, Process, Profile, Reach, Reader,
    Reading, Reply, Result, Source, Spoken, Start, Wanted,
};
use crate::error::Error;
use crate::installed::{self, Before};
use crate::known::Known;
use crate::launch::{self, Prompt};
use crate::rules::meant;

use screen::{ANSWERS, asked, prompt, taken_one};

/// What its screens mean.
const RULES: &str = include_str!("../data/aider.toml");
/// What its analytics log is called as a source.
const ANALYTICS: &str = "analytics";
/// And its history.
const HISTORY: &str = "history";

const PROFILE: Profile = Profile {
    program: "aider",
    install: "python -m pip install aider-install && aider-install",
    version: &["--version"],
    tested: ("0.86.2", "0.86.2"),
    login: "aider --api-key PROVIDER=KEY",
};

/// Questions of a first start and notices are answered beforehand, and nothing is sent to anybody. The repository
/// keeps its `.gitignore`.
const FLAGS: &[&str] = &[
    "--no-analytics",
    "--no-check-update",
    "--no-gitignore",
    "--no-show-model-warnings",
    "--no-show-release-notes",
    "--disable-playwright",
];

/// Becomes the program. It keeps a cache in the repository, and nothing says another place for it: a folder that
/// ignores itself is nobody's work, and the user's own `.gitignore` stays as it is.
const TIDY: &str = r#"if root=$(git rev-parse --show-toplevel 2>/dev/null); then
  cache=$root/.aider.tags.cache.v4
  [ -e "$cache" ] || { mkdir "$cache" && echo '*' >"$cache/.gitignore"; }
fi
exec "$@""#;

/// Variables with a login, the first ones, and others that change what it talks to.
const LOGINS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
    "AIDER_API_KEY",
];
const OTHERS: &[&str] = &[
    "AIDER_MODEL",
    "AIDER_WEAK_MODEL",
    "AIDER_EDIT_FORMAT",
    "AIDER_OPENAI_API_BASE",
    "AIDER_OPENAI_API_KEY",
    "AIDER_ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_BASE",
    "OLLAMA_API_BASE",
    "LITELLM_LOCAL_MODEL_COST_MAP",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

#[derive(Clone, Debug)]
pub struct Aider {
    known: Known,
}

impl Aider {
    pub const NAME: &'static str = "aider";

    pub fn new() -> Self {
        let abilities = Abilities {
            prompt: vec![PromptVia::Typed],
            resume: true,
            fork: false,
            hooks: false,
            screens: true,
            files: true,
            usage: true,
            protocols: vec![],
            // What is typed meanwhile would answer its next question.
            during_turn: DuringTurn::Unsafe,
            enter_after: Duration::from_millis(100),
            inherits: installed::names([LOGINS, OTHERS]),
        };
        let known = Known::own(Self::NAME, 200, RULES, abilities).installed_as(PROFILE);
        Self { known }
    }

    fn launch(
        &self,
        order: &Order,
        native: NativeId,
        how: &[&str],
        prompt: Prompt,
    ) -> Result<Start> {
        let program = installed::program(&self.known, &PROFILE, order)?;
        let mut argv = ["sh", "-c", TIDY, "sh", &program]
            .map(str::to_owned)
            .to_vec();
        argv.extend(FLAGS.iter().map(|&flag| flag.to_owned()));
        let files = [
            ("--chat-history-file", history(order, &native)),
            (
                "--input-history-file",
                order.private.join("aider.input.history"),
            ),
            ("--analytics-log", analytics(order)),
        ];
        for (flag, path) in files {
            argv.extend([flag.to_owned(), launch::text(&path, "private")?]);
        }
        if order.settings.permission == Permission::Full {
            argv.push("--yes-always".into());
        }
        if let Some(model) = &order.settings.model {
            argv.extend(["--model".into(), model.to_string()]);
        }
        argv.extend(how.iter().map(|&word| word.to_owned()));
        let mut start = Start {
            argv,
            native: Some(native),
            ..Start::default()
        };
        if prompt == Prompt::Task {
            installed::task(&self.known, order, &mut start, Before::Separator)?;
        }
        Ok(start)
    }
}

impl Default for Aider {
    fn default() -> Self {
        Self::new()
    }
}

/// What it remembers of a conversation.
fn history(order: &Order, native: &NativeId) -> PathBuf {
    // A name is only a name: nothing outside of the private folder is meant by it.
    let name = native.as_str().replace(['/', '\0'], "_");
    order.private.join(format!("aider-{name}.md"))
}

/// Each run has its own: what is counted of it begins at nothing.
fn analytics(order: &Order) -> PathBuf {
    order.private.join(format!("aider-{}.jsonl", order.run))
}

impl Agent for Aider {
    fn known(&self) -> &Known {
        &self.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> Found {
        installed::find(&PROFILE, path, logged_in(env))
    }

    fn start(&self, order: &Order) -> Result<Start> {
        self.launch(order, launch::native_of(order), &[], Prompt::Task)
    }

    fn resume(&self, order: &Order) -> Result<Start> {
        let kept = |native: &NativeId| history(order, native).exists();
        let native = installed::conversation(order, kept)?;
        let how = ["--restore-chat-history"];
        self.launch(order, native, &how, Prompt::Nothing)
    }

    /// Its conversations lie there.
    fn resumes_from_private(&self) -> bool {
        true
    }

    fn fork(&self, _order: &Order, _from: &NativeId) -> Result<Start> {
        Err(Error::CannotFork {
            agent: self.known.name.to_string(),
        })
    }

    fn speak(&self, _order: &Order, via: Via, _resume: bool) -> Result<Spoken> {
        Err(launch::no_protocol(&self.known.name, via))
    }

    fn read_screen(&self, picture: Picture<'_>) -> Vec<Reading> {
        let does = |activity, rule: &str| Reading::Activity {
            activity,
            rule: rule.to_owned(),
            detail: None,
        };
        let taken = || Reading::PromptTaken { text: None };
        if let Some(question) = asked(picture) {
            let mut readings = vec![does(Activity::WaitingInput, "confirm")];
            readings.extend(taken_one(picture).then(taken));
            readings.push(Reading::Wants(Wanted::Permission));
            readings.push(Reading::Asks(question));
            return readings;
        }
        if prompt(picture).is_some() {
            return vec![does(Activity::Ready, "prompt")];
        }
        let mut readings = self.known.rules.read(picture);
        if taken_one(picture) {
            if readings.is_empty() {
                readings.push(does(Activity::Active, "prompt taken"));
            }
            readings.push(taken());
        }
        readings
    }

    fn draft(&self, picture: Picture<'_>) -> Draft {
        let Some(lines) = prompt(picture).filter(|_| asked(picture).is_none()) else {
            return Draft::Unseen;
        };
        match lines.join("\n").trim() {
            "" => Draft::Empty,
            text => Draft::Holds(text.to_owned()),
        }
    }

    fn sources(&self, order: &Order) -> Vec<Source> {
        let added = |path, kind: &str| Source {
            path,
            kind: kind.to_owned(),
            reach: Reach::Added,
        };
        let native = order.native.as_ref();
        let history = native.map(|native| added(history(order, native), HISTORY));
        let analytics = added(analytics(order), ANALYTICS);
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
        let chosen = option.or_else(|| meant(question, text));
        let Some(chosen) = chosen.and_then(|n| question.options.get(n)) else {
            if question.options.is_empty() {
                return Reply::Text(text.into());
            }
            let why = "that is none of its options".into();
            return Reply::Cannot { why };
        };
        match ANSWERS.iter().find(|(name, ..)| *name == chosen.as_str()) {
            Some((_, keys, _)) => Reply::Keys(keys.as_bytes().to_vec()),
            None => Reply::Text(chosen.into()),
        }
    }
}

/// Whether there is a key for some provider: in a variable, or in the files it reads at its start. Local models
/// need none, so nothing means that nobody can tell.
fn logged_in(env: &BTreeMap<String, String>) -> Option<bool> {
    if installed::has_any(env, LOGINS) {
        return Some(true);
    }
    let keys = Path::new(env.get("HOME")?).join(".aider/oauth-keys.env");
    keys.exists().then_some(true)
}

/// One JSON object per line, of which those about questions to the model and its answers count.
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
        let told = |line: Line| match line.event.as_str() {
            // An answer may come between two looks at the screen.
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
            .filter_map(|line| told(serde_json::from_str(line).ok()?))
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
