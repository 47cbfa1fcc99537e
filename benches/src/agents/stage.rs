//! A user who has one of the programs set up, the model it talks to, and a daemon.
//!
//! The settings are a small copy of those of the end-to-end suite (`crates/skein-cli/tests/heavy/agents/stage.rs`):
//! a benchmark must not hang on test code. First-run dialogs are preset, so that neither side is held up by them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use skein_client::{Client, IdempotencyKey};
use skein_fixtures::model_server::{Exchange, ModelServerSettings, Server};
use skein_wire::AddProject;
use tempfile::TempDir;

use super::{Kind, LONGEST};
use crate::Failure;
use crate::daemon::{Daemon, Program};
use crate::place::{FILES, end_marked, repository};

/// The project's name.
pub(super) const PROJECT: &str = "bench";

#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) kind: Kind,
    program: &'a Program,
    folder: TempDir,
    model: Server,
    daemon: Option<Daemon>,
    /// What the programs, the daemon and tmux are started with.
    pub(super) env: Vec<(String, String)>,
}

impl<'a> Stage<'a> {
    pub(super) async fn new(
        program: &'a Program,
        kind: Kind,
        programs: &Path,
    ) -> Result<Self, Failure> {
        let model = Server::start(ModelServerSettings::default()).await?;
        let folder = tempfile::tempdir()?;
        let mut stage = Self {
            kind,
            program,
            folder,
            model,
            daemon: None,
            env: vec![],
        };
        let user = stage.user();
        for folder in [&user, &stage.home()] {
            fs::create_dir(folder)?;
        }
        repository(&stage.repo(), FILES)?;
        let url = stage.model.url();
        for (path, content) in files(kind, &url, &stage.repo()) {
            let path = user.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&user))?;
            fs::write(path, content)?;
        }
        // A key under a name of the user's own is passed on by name.
        fs::write(stage.repo().join("skein.toml"), "pass = ['FAKE_KEY']\n")?;
        let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", programs.display());
        let own = [
            ("PATH", path),
            ("HOME", user.display().to_string()),
            ("LANG", "C.UTF-8".into()),
        ];
        let all = own.into_iter().chain(variables(kind, &url));
        stage.env = all.map(|(name, value)| (name.to_owned(), value)).collect();
        let (daemon, _) = program.daemon_with(&stage.home(), &stage.env)?;
        let project = AddProject {
            path: Some(stage.repo().display().to_string()),
            name: Some(PROJECT.into()),
            ..AddProject::default()
        };
        daemon
            .client()
            .add_project(&project, &IdempotencyKey::random())
            .await?;
        stage.daemon = Some(daemon);
        Ok(stage)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn home(&self) -> PathBuf {
        self.folder().join("home")
    }

    fn user(&self) -> PathBuf {
        self.folder().join("user")
    }

    pub(super) fn repo(&self) -> PathBuf {
        self.folder().join("repo")
    }

    pub(super) fn client(&self) -> Result<Client, Failure> {
        Ok(self.daemon.as_ref().ok_or("no daemon")?.client())
    }

    /// `skein --json ARGS…`, of which the output is wanted.
    pub(super) fn skein(&self, args: &[&str]) -> Command {
        let mut command = self.program.command(&self.home());
        command
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.repo())
            .arg("--json")
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(super) fn json(&self, args: &[&str]) -> Result<Value, Failure> {
        let output = self.skein(args).output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("skein {args:?}: {why}").into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// What is known of every session that runs, for failures.
    pub(super) fn account(&self) -> String {
        let list = self.json(&["ls"]).unwrap_or_default();
        let of = |session: &Value| {
            let id = session["id"].as_str().unwrap_or_default();
            let told = |word| self.json(&[word, id]).unwrap_or_default().to_string();
            format!("\n{}\n{}", told("why"), told("screen"))
        };
        list["data"]
            .as_array()
            .into_iter()
            .flatten()
            .map(of)
            .collect()
    }

    /// The first request of a turn that brought `mark`; what programs ask for themselves does not count.
    pub(super) async fn heard(&self, mark: &str) -> Result<Exchange, Failure> {
        let heard = self.exchange(mark, LONGEST, |_| true).await;
        heard.map_err(|why| format!("{why}{}", self.account()).into())
    }

    pub(super) async fn heard_within(
        &self,
        mark: &str,
        patience: Duration,
    ) -> Result<Exchange, Failure> {
        self.exchange(mark, patience, |_| true).await
    }

    /// The same, once its answer is out.
    pub(super) async fn answered(&self, mark: &str) -> Result<Exchange, Failure> {
        self.exchange(mark, LONGEST, |e| e.ended_ms.is_some()).await
    }

    async fn exchange(
        &self,
        mark: &str,
        patience: Duration,
        fits: impl Fn(&Exchange) -> bool,
    ) -> Result<Exchange, Failure> {
        let says = |e: &Exchange| e.last_user.as_deref().is_some_and(|t| t.contains(mark));
        let found = |all: &[Exchange]| {
            let mut turns = all.iter().filter(|e| e.is_turn() && says(e));
            turns.next().filter(|e| fits(e)).cloned()
        };
        let seen = self.model.wait_for(patience, |all| found(all).is_some());
        let all = seen.await.map_err(|late| format!("{mark}: {late}"))?;
        Ok(found(&all).ok_or("it was there a moment ago")?)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.daemon = None;
        end_marked(&format!("HOME={}", self.user().display()));
    }
}

fn variables(kind: Kind, url: &str) -> Vec<(&'static str, String)> {
    let on = || "1".to_owned();
    match kind.name {
        "claude-code" => vec![
            ("ANTHROPIC_BASE_URL", url.to_owned()),
            ("ANTHROPIC_AUTH_TOKEN", "x".into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", on()),
        ],
        "codex" => vec![("FAKE_KEY", "x".into())],
        "opencode" => vec![
            ("OPENCODE_DISABLE_AUTOUPDATE", on()),
            ("OPENCODE_DISABLE_MODELS_FETCH", on()),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", on()),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", on()),
        ],
        "gemini" => vec![
            ("GEMINI_API_KEY", "x".into()),
            ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true".into()),
        ],
        _ => vec![
            ("OPENAI_API_BASE", format!("{url}/v1")),
            ("OPENAI_API_KEY", "x".into()),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True".into()),
        ],
    }
}

/// What a user has in their home who has used the program before.
fn files(kind: Kind, url: &str, repo: &Path) -> Vec<(&'static str, String)> {
    let git = "[user]\n\tname = Bench\n\temail = bench@example.org\n".to_owned();
    let own = match kind.name {
        "claude-code" => (
            ".claude.json",
            json!({
                "hasCompletedOnboarding": true, "theme": "dark",
                "projects": {repo.display().to_string(): {"hasTrustDialogAccepted": true}},
            })
            .to_string(),
        ),
        "codex" => (
            ".codex/config.toml",
            format!(
                "model = \"fake-1\"\nmodel_provider = \"fake\"\ncheck_for_update_on_startup = false\n\
                 \n[analytics]\nenabled = false\n\n[features]\nplugins = false\napps = false\n\n\
                 [projects.\"{}\"]\ntrust_level = \"trusted\"\n\n\
                 [model_providers.fake]\nname = \"fake\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n\
                 env_key = \"FAKE_KEY\"\n",
                repo.display()
            ),
        ),
        "opencode" => (
            ".config/opencode/opencode.json",
            json!({
                "$schema": "https://opencode.ai/config.json",
                "model": "fake/fake-1", "small_model": "fake/fake-1", "autoupdate": false, "share": "disabled",
                "provider": {"fake": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": format!("{url}/v1"), "apiKey": "x"},
                    "models": {"fake-1": {
                        "tool_call": true, "limit": {"context": 200_000, "output": 8192},
                    }},
                }},
            })
            .to_string(),
        ),
        "gemini" => (
            ".gemini/settings.json",
            json!({
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "privacy": {"usageStatisticsEnabled": false},
                "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
            })
            .to_string(),
        ),
        _ => (".aider.conf.yml", "model: openai/fake-1\n".into()),
    };
    vec![own, (".gitconfig", git)]
}
