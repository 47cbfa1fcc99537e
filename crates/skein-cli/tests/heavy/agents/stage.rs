//! A fleet whose agents are real programs, a model that does as it is told, and a user who had them set up.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use skein_fixtures::model_server::{Exchange, ModelServerSettings, Script, Server};
use tokio::runtime::Runtime;

use crate::harness::Ran;
use crate::harness::{Fleet, eventually, text};

/// Longest wait for the model to be asked something.
const PATIENCE: Duration = Duration::from_secs(90);

/// A step that makes the next answer use as much as every other one, so that what was counted tells how often.
pub(crate) const USES: &str = "tokens 1000 10";
const INPUT: u64 = 1000;
const OUTPUT: u64 = 10;

/// One of the programs, and what its user has set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) agent: &'static str,
    /// The step that it asks about before it does it; makes the file that follows.
    pub(crate) asks: &'static str,
    /// Whether it tells the tokens that the model told it; one that does not reckons them.
    pub(crate) tokens: bool,
    /// What its user pays for a token, in and out, in millionths of a dollar, where it tells what it cost.
    costs: Option<(u64, u64)>,
    /// How it is driven.
    pub(crate) via: &'static str,
}

impl Program {
    pub(crate) const fn via(self, via: &'static str) -> Self {
        Self { via, ..self }
    }
}

pub(crate) const CLAUDE: Program = Program {
    agent: "claude-code",
    asks: "escalate touch",
    tokens: true,
    costs: Some((4, 20)),
    via: "terminal",
};
pub(crate) const CODEX: Program = Program {
    agent: "codex",
    asks: "escalate touch",
    tokens: true,
    costs: None,
    via: "terminal",
};
pub(crate) const OPENCODE: Program = Program {
    agent: "opencode",
    asks: "escalate touch",
    tokens: true,
    costs: Some((3, 15)),
    via: "terminal",
};
pub(crate) const GEMINI: Program = Program {
    agent: "gemini",
    asks: "escalate touch",
    tokens: true,
    costs: None,
    via: "terminal",
};
pub(crate) const AIDER: Program = Program {
    agent: "aider",
    asks: "write",
    tokens: false,
    costs: Some((3, 15)),
    via: "terminal",
};

/// Everything a test needs; ends with it.
pub(crate) struct Stage {
    pub(crate) fleet: Fleet,
    pub(crate) program: Program,
    who: Who,
    runtime: Runtime,
    model: Option<Server>,
    programs: Vec<Program>,
    /// Everything in the user's home, as it was when the test began.
    own: BTreeMap<PathBuf, Vec<u8>>,
    /// Variables that the daemon is started with.
    env: Vec<(String, String)>,
}

/// Who runs Skein and the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever runs the tests.
    Us,
    /// A user without rights; only root can become one.
    Nobody,
}

/// The id of a user and a group that own nothing.
const NOBODY: u32 = 65534;

impl Stage {
    pub(crate) fn new(program: Program) -> Self {
        Self::of(&[program], Who::Us)
    }

    /// For several programs at once; the first is the one that `spawn` starts.
    pub(crate) fn of(all: &[Program], who: Who) -> Self {
        let programs = programs();
        let runtime = Runtime::new().unwrap();
        let settings = ModelServerSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            script: Script::default(),
            log: None,
        };
        let model = runtime.block_on(Server::start(settings)).unwrap();
        let url = model.url();
        let fleet = Fleet::without_project();
        let mut env = vec![(
            "PATH".to_owned(),
            format!("{programs}/bin:/usr/local/bin:/usr/bin:/bin"),
        )];
        env.extend(all.iter().flat_map(|program| variables(*program, &url)));
        let user = fleet.home.user();
        for (path, content) in all.iter().flat_map(|p| files(*p, &url, &fleet.repo)) {
            let path = user.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        if all.iter().any(|program| program.agent == "codex") {
            // A key under a name of the user's own is passed on by name.
            fleet.settings("pass = ['FAKE_KEY']\n");
        }
        if who == Who::Nobody {
            give(user.parent().unwrap());
        }
        let stage = Self {
            own: everything(&user),
            programs: all.to_vec(),
            fleet,
            program: all[0],
            who,
            runtime,
            model: Some(model),
            env,
        };
        let repo = stage.fleet.repo.display().to_string();
        stage.json(&["project", "add", &repo, "--name", "api"]);
        stage
    }

    /// Claude Code, whose user pays for a plan: only those have limits that last for hours.
    pub(crate) fn on_a_plan() -> Self {
        let mut stage = Self::new(CLAUDE);
        let login = json!({"claudeAiOauth": {
            "accessToken": "sk-ant-oat01-x", "refreshToken": "sk-ant-ort01-x", "expiresAt": 4_102_444_800_000_u64,
            "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
        }});
        let file = stage.fleet.home.user().join(".claude/.credentials.json");
        fs::write(file, login.to_string()).unwrap();
        stage.own = everything(&stage.fleet.home.user());
        stage.env.retain(|(name, _)| name != "ANTHROPIC_AUTH_TOKEN");
        // The next one does not know of the token.
        stage.fleet.kill_daemon();
        stage
    }

    /// Who the programs are run by.
    pub(crate) fn uid(&self) -> u32 {
        match self.who {
            Who::Us => rustix::process::geteuid().as_raw(),
            Who::Nobody => NOBODY,
        }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.fleet.command(args);
        if self.who == Who::Nobody {
            let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
            let mut other = self.fleet.home.program("setpriv");
            other.args(ids).arg("--clear-groups");
            other.arg(command.get_program()).args(command.get_args());
            other.current_dir(&self.fleet.repo);
            command = other;
        }
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[&["--json"], args].concat());
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.document()
    }

    pub(crate) fn spawn(&self, task: &str, args: &[&str]) -> String {
        self.spawn_by(self.program, task, args)
    }

    pub(crate) fn spawn_by(&self, program: Program, task: &str, args: &[&str]) -> String {
        let agent = program.agent;
        let via = program.via;
        let base = [
            "spawn",
            "--project",
            "api",
            "--agent",
            agent,
            "--via",
            via,
            task,
        ];
        text(&self.json(&[&base, args].concat())["id"])
    }

    /// What the model was asked so far, but for what programs ask for themselves.
    pub(crate) fn turns(&self) -> Vec<Exchange> {
        let mut all = self.model.as_ref().unwrap().exchanges();
        all.retain(Exchange::is_turn);
        all
    }

    /// Waits until a program asked something for itself.
    pub(crate) fn asked_for_itself(&self) -> Exchange {
        self.exchange("something hidden", |e| e.hidden)
    }

    /// Waits until the model was asked something that fits; gives it.
    pub(crate) fn asked(&self, what: &str, fits: impl Fn(&Exchange) -> bool) -> Exchange {
        self.exchange(what, |e| e.is_turn() && fits(e))
    }

    fn exchange(&self, what: &str, fits: impl Fn(&Exchange) -> bool) -> Exchange {
        let found = |all: &[Exchange]| all.iter().rev().find(|e| fits(e)).cloned();
        let model = self.model.as_ref().unwrap();
        let seen = model.wait_for(PATIENCE, |all| found(all).is_some());
        let all = self
            .runtime
            .block_on(seen)
            .unwrap_or_else(|late| panic!("{what}: {late}\n{}", self.screens()));
        found(&all).unwrap()
    }

    /// Waits until the model has got `marker` from the user.
    pub(crate) fn heard(&self, marker: &str) -> Exchange {
        let says = |e: &Exchange| e.last_user.as_deref().is_some_and(|t| t.contains(marker));
        self.asked(marker, says)
    }

    /// How often a prompt with `marker` came to the model.
    pub(crate) fn times_heard(&self, marker: &str) -> usize {
        let begins = |e: &&Exchange| {
            let said = e.last_user.as_deref();
            e.step == Some(0) && said.is_some_and(|t| t.contains(marker))
        };
        self.turns().iter().filter(begins).count()
    }

    /// Waits for a status; says what is on the screen when it does not come.
    pub(crate) fn until_status(&self, session: &str, status: &str) -> Value {
        self.until(session, status, |s| s["status"] == status)
    }

    pub(crate) fn until(
        &self,
        session: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        eventually(
            || {
                last = self.json(&["show", session]);
                wanted(&last).then(|| last.clone())
            },
            || {
                let why = self.run(&["why", session]).stdout;
                format!("{what}:\n{why}\n{}", self.screens())
            },
        )
    }

    pub(crate) fn until_receipt(&self, receipt: &str, wanted: &[&str]) -> Value {
        let look = || {
            let found = self.fleet.receipt(receipt);
            wanted.contains(&found["state"].as_str()?).then_some(found)
        };
        eventually(look, || {
            let receipt = self.fleet.receipt(receipt);
            let why = self.run(&["why", &text(&receipt["session"])]).stdout;
            format!("{wanted:?} of {receipt}\n{why}\n{}", self.screens())
        })
    }

    /// Sends without waiting; gives the receipt's id.
    pub(crate) fn post(&self, session: &str, message: &str) -> String {
        text(&self.json(&["send", session, message, "--no-wait"])["id"])
    }

    /// Answers what is asked, and sees that the answer was taken.
    pub(crate) fn answer(&self, session: &str, text: &str) {
        let ran = self.run(&["--json", "answer", session, text]);
        let why = || self.run(&["why", session]).stdout;
        assert_eq!(ran.code, 0, "{ran:?}\n{}\n{}", why(), self.screens());
        let state = ran.document()["state"].clone();
        assert!(
            matches!(state.as_str(), Some("submitted" | "turn_started")),
            "{ran:?}"
        );
    }

    pub(crate) fn folder(&self, session: &str) -> PathBuf {
        let shown = self.json(&["show", session]);
        PathBuf::from(text(&shown["workspace"]["path"]))
    }

    /// What git calls changed or untracked.
    pub(crate) fn not_committed(&self, folder: &Path) -> String {
        let mut git = self.fleet.home.program("git");
        git.arg("-C").arg(folder);
        git.args(["status", "--porcelain", "--untracked-files=all"]);
        Ran::from(git.output().unwrap()).stdout
    }

    pub(crate) fn until_file(&self, path: &Path) {
        eventually(
            || path.exists().then_some(()),
            || format!("{} never came\n{}", path.display(), self.screens()),
        );
    }

    pub(crate) fn pid(&self, session: &str) -> i32 {
        let shown = self.until(session, "a process", |s| s["runtime"]["pid"].is_i64());
        i32::try_from(shown["runtime"]["pid"].as_i64().unwrap()).unwrap()
    }

    /// What all sessions show, for failures.
    fn screens(&self) -> String {
        let list = self.json(&["ls", "--all"]);
        let of = |session: &Value| {
            let id = text(&session["id"]);
            let screen = self.run(&["screen", &id]).stdout;
            let status = &session["status"];
            format!("== {id} {status}\n{screen}")
        };
        let sessions = list["data"].as_array().unwrap();
        sessions.iter().map(of).collect()
    }

    /// Waits until it is told what so many answers used that were asked for with [`USES`], and no more than that.
    pub(crate) fn until_used(&self, session: &str, answers: u64) {
        let all = |s: &Value| {
            let (input, output, cost) = used(s);
            let all = if self.program.tokens {
                input >= INPUT * answers && output >= OUTPUT * answers
            } else {
                input > 0 && output > 0
            };
            all && cost >= self.price(input, output)
        };
        let told = self.until(session, "what was used", all);
        self.assert_used(&told, answers);
    }

    pub(crate) fn assert_used(&self, session: &Value, answers: u64) {
        let (input, output, cost) = used(session);
        if self.program.tokens {
            assert_eq!((input, output), (INPUT * answers, OUTPUT * answers));
        }
        let price = self.price(input, output);
        // By ACP Claude Code asks for what could be said next, and its user pays for that too.
        if (self.program.agent, self.program.via) == ("claude-code", "acp") {
            assert!(cost >= price, "{cost} of {price}");
        } else {
            assert_eq!(cost, price);
        }
    }

    /// What so many tokens cost the user, in millionths of a dollar.
    fn price(&self, input: u64, output: u64) -> u64 {
        let (per_input, per_output) = self.program.costs.unwrap_or_default();
        input * per_input + output * per_output
    }

    /// Everything that Claude Code, Codex and aider have written down of their conversations.
    pub(crate) fn transcripts(&self) -> String {
        let of = |folder: PathBuf, kind: &str| {
            let mut files = files_below(&folder);
            files.retain(|file| file.extension().is_some_and(|e| e == kind));
            let read = |file: PathBuf| fs::read_to_string(folder.join(file)).unwrap_or_default();
            files.into_iter().map(read).collect::<String>()
        };
        let home = &self.fleet.home;
        [
            of(home.user().join(".claude/projects"), "jsonl"),
            of(home.user().join(".codex/sessions"), "jsonl"),
            of(home.root().join("sessions"), "md"),
        ]
        .concat()
    }

    /// What the user had is, byte for byte, what it was, and what came to it lies where the programs keep their own.
    fn assert_untouched(&self) {
        let user = self.fleet.home.user();
        let of = |names: fn(Program) -> &'static [&'static str]| {
            let own = self.programs.iter().flat_map(move |p| names(*p));
            // Skein makes branches and worktrees.
            own.map(Path::new).chain([Path::new("api/.git")])
        };
        for (path, before) in &self.own {
            let settings = path == Path::new("api/skein.toml");
            if !settings && of(rewritten).all(|own| !path.starts_with(own)) {
                let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
                let now = fs::read(user.join(path)).ok();
                let now = now.map(|content| text(&content));
                assert_eq!(now, Some(text(before)), "{}", path.display());
            }
        }
        let mut new = files_below(&user);
        // The project's settings are what a test says.
        new.retain(|path| !self.own.contains_key(path) && path != Path::new("api/skein.toml"));
        new.retain(|path| of(kept).all(|own| !path.starts_with(own)));
        // Whoever is killed while it rewrites a file leaves the new one beside it.
        let half_written = |path: &Path, own: &Path| {
            let (path, own) = (path.to_string_lossy(), own.to_string_lossy());
            path.strip_prefix(&*own)
                .is_some_and(|rest| rest.starts_with(".tmp."))
        };
        new.retain(|path| !of(rewritten).any(|own| half_written(path, own)));
        assert!(new.is_empty(), "in the user's home are now {new:?}");
    }
}

/// Tokens in and out, and the cost in millionths of a dollar, as a session tells them.
fn used(session: &Value) -> (u64, u64, u64) {
    let usage = &session["usage"];
    let told = |key: &str| usage[key].as_u64().unwrap();
    let cost = format!("{:.6}", usage["cost_usd"].as_f64().unwrap()).replace('.', "");
    (
        told("input_tokens"),
        told("output_tokens"),
        cost.parse().unwrap(),
    )
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It needs its runtime to end.
        let inside = self.runtime.enter();
        drop(self.model.take());
        drop(inside);
        if !std::thread::panicking() {
            self.assert_untouched();
        }
    }
}

/// Every file below a folder, by its path there. What goes while it is looked for was not there.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(is) if is.is_dir() => folders.push(entry.path()),
                _ => found.push(entry.path().strip_prefix(folder).unwrap().to_owned()),
            }
        }
    }
    found
}

/// The same with what they hold.
fn everything(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let content = |path: PathBuf| (path.clone(), fs::read(folder.join(path)).unwrap());
    files_below(folder).into_iter().map(content).collect()
}

/// Makes everything below `folder` the property of the user without rights.
fn give(folder: &Path) {
    std::os::unix::fs::lchown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    if folder.is_dir() && !folder.is_symlink() {
        for entry in fs::read_dir(folder).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what runs the tests says where the programs are"
)]
pub(crate) fn programs() -> String {
    std::env::var("SKEIN_TEST_AGENTS")
        .expect("SKEIN_TEST_AGENTS names the programs' folder; `./test --agents` sets it")
}

fn variables(program: Program, url: &str) -> Vec<(String, String)> {
    let pairs: &[(&str, String)] = &match program.agent {
        "claude-code" => vec![
            ("ANTHROPIC_BASE_URL", url.to_owned()),
            ("ANTHROPIC_AUTH_TOKEN", "x".into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        ],
        "codex" => vec![("FAKE_KEY", "x".into())],
        "gemini" => vec![
            ("GEMINI_API_KEY", "x".into()),
            ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
        ],
        "aider" => vec![
            ("OPENAI_API_BASE", format!("{url}/v1")),
            ("OPENAI_API_KEY", "x".into()),
        ],
        // What it would fetch before it does anything, from wherever; it goes without.
        "opencode" => [
            "OPENCODE_DISABLE_DEFAULT_PLUGINS",
            "OPENCODE_DISABLE_LSP_DOWNLOAD",
            "OPENCODE_DISABLE_MODELS_FETCH",
        ]
        .map(|name| (name, "1".into()))
        .to_vec(),
        _ => vec![],
    };
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

/// What a user of the program has in their home, who has used it before.
fn files(program: Program, url: &str, _repo: &Path) -> Vec<(&'static str, String)> {
    match program.agent {
        "claude-code" => vec![
            (
                ".claude.json",
                json!({"hasCompletedOnboarding": true, "theme": "dark"}).to_string(),
            ),
            (
                ".claude/settings.json",
                json!({"env": {"MINE": "1"}, "includeCoAuthoredBy": false}).to_string(),
            ),
            (".claude/CLAUDE.md", "Be brief.\n".into()),
        ],
        "codex" => vec![(
            ".codex/config.toml",
            format!(
                "# mine\nmodel = \"fake-1\"\nmodel_provider = \"fake\"\ncheck_for_update_on_startup = false\n\
                 \n[analytics]\nenabled = false\n\n[features]\nplugins = false\napps = false\n\n\
                 [model_providers.fake]\nname = \"fake\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n\
                 env_key = \"FAKE_KEY\"\n"
            ),
        )],
        "opencode" => vec![(
            ".config/opencode/opencode.json",
            // It adds its schema to a file that has none.
            json!({
                "$schema": "https://opencode.ai/config.json",
                "model": "fake/fake-1", "small_model": "fake/fake-1", "autoupdate": false, "share": "disabled",
                "provider": {"fake": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": format!("{url}/v1"), "apiKey": "x"},
                    "models": {"fake-1": {
                        "tool_call": true, "cost": {"input": 3, "output": 15},
                        "limit": {"context": 200_000, "output": 8192},
                    }},
                }},
            })
            .to_string(),
        )],
        "gemini" => vec![(
            ".gemini/settings.json",
            json!({
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "privacy": {"usageStatisticsEnabled": false},
                "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
            })
            .to_string(),
        )],
        _ => vec![
            (".aider.conf.yml", "model: openai/fake-1\n".into()),
            (
                ".aider.model.metadata.json",
                json!({"openai/fake-1": {
                    "input_cost_per_token": 0.000_003, "output_cost_per_token": 0.000_015,
                    "max_input_tokens": 200_000, "litellm_provider": "openai", "mode": "chat",
                }})
                .to_string(),
            ),
        ],
    }
}

/// Of those, what the program itself keeps its state in.
fn rewritten(program: Program) -> &'static [&'static str] {
    match program.agent {
        "claude-code" => &[".claude.json"],
        _ => &[],
    }
}

/// Where the program keeps what it makes for itself.
fn kept(program: Program) -> &'static [&'static str] {
    match program.agent {
        "claude-code" => &[
            ".claude",
            ".local/share/applications/claude-code-url-handler.desktop",
        ],
        "codex" => &[".codex"],
        // It fetches what plugins need, whether there are some or not.
        "opencode" => &[
            ".config/opencode/.gitignore",
            ".config/opencode/node_modules",
            ".config/opencode/package-lock.json",
            ".config/opencode/package.json",
            ".cache/opencode",
            ".local/share/opencode",
            ".local/state/opencode",
            ".npm",
        ],
        "gemini" => &[".gemini"],
        _ => &[".aider"],
    }
}
