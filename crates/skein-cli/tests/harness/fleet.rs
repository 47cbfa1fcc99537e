//! A repository, a home, and what is needed to look at the machine afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Call, Home, Ran, text};

/// Longest wait for anything; only reached when something is wrong.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A clean-up that takes all it may, at once.
pub(crate) const GC: [&str; 7] = [
    "gc",
    "--older-than",
    "0s",
    "--backups-older-than",
    "0s",
    "--discard",
    "--yes",
];

/// A home with a project `api` that is a git repository. Whatever runs in it ends with it.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) home: Home,
    pub(crate) repo: PathBuf,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        Self::without_project().with_project()
    }

    /// With another `SKEIN_HOME`.
    pub(crate) fn at(root: PathBuf) -> Self {
        Self::in_home(Home::with_root(root)).with_project()
    }

    fn with_project(self) -> Self {
        let fleet = self;
        fleet.home.json(&[
            "project",
            "add",
            &fleet.repo.display().to_string(),
            "--name",
            "api",
        ]);
        fleet
    }

    /// The repository is there, the project is not.
    pub(crate) fn without_project() -> Self {
        Self::in_home(Home::new())
    }

    fn in_home(home: Home) -> Self {
        let repo = home.user().join("api");
        fs::create_dir(&repo).unwrap();
        fs::write(
            home.user().join(".gitconfig"),
            "[user]\n\tname = Tester\n\temail = tester@example.org\n[init]\n\tdefaultBranch = main\n",
        )
        .unwrap();
        let fleet = Self { home, repo };
        fleet.git(&["init", "--quiet"]);
        fs::write(fleet.repo.join("readme.md"), "hello\n").unwrap();
        fleet.git(&["add", "."]);
        fleet.git(&["commit", "--quiet", "--message", "first"]);
        fleet
    }

    /// Writes the project's `skein.toml`.
    pub(crate) fn settings(&self, text: &str) {
        fs::write(self.repo.join("skein.toml"), text).unwrap();
    }

    /// git in the repository.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.repo, args)
    }

    pub(crate) fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let output = self
            .home
            .program("git")
            .current_dir(folder)
            .args(args)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout).trim_end().to_owned()
    }

    /// A command in the repository.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.current_dir(&self.repo);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed, in the repository, with `--json`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[&["--json"], args].concat());
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.document()
    }

    /// A scripted agent at work on `task`; returns once it was launched.
    pub(crate) fn spawn(&self, task: &str, args: &[&str]) -> String {
        let args = [
            &["spawn", "--project", "api", "--agent", "scripted", task],
            args,
        ]
        .concat();
        text(&self.json(&args)["id"])
    }

    /// A scripted agent that begins with `SCRIPTED_START`.
    pub(crate) fn spawn_with(&self, start: &str, task: &str) -> String {
        self.spawn(task, &["--env", &format!("SCRIPTED_START={start}")])
    }

    pub(crate) fn show(&self, session: &str) -> Value {
        self.json(&["show", session])
    }

    pub(crate) fn status(&self, session: &str) -> String {
        text(&self.show(session)["status"])
    }

    /// What `show` prints, from the API: a process for each look costs more than what most tests wait for. Where no
    /// daemon answers, the command line starts one.
    fn look(&self, session: &str) -> Value {
        let call = Call::get(&format!("/api/v1/sessions/{session}"));
        let answer = self.home.try_call(&call);
        match answer.filter(|answer| answer.status == 200) {
            Some(answer) => answer.json(),
            None => self.show(session),
        }
    }

    /// Waits until the session is as wanted; gives it.
    pub(crate) fn until(&self, session: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(
            || Some(self.look(session)).filter(&wanted),
            || {
                format!(
                    "{}\n{}",
                    self.show(session),
                    self.run(&["why", session]).stdout
                )
            },
        )
    }

    pub(crate) fn until_status(&self, session: &str, status: &str) -> Value {
        self.until(session, |s| s["status"] == status)
    }

    pub(crate) fn receipt(&self, id: &str) -> Value {
        let call = Call::get(&format!("/api/v1/receipts/{id}"));
        self.home.call(&call).json()
    }

    /// Waits until a receipt is as wanted.
    pub(crate) fn until_receipt(&self, receipt: &str, wanted: &[&str]) -> Value {
        eventually(
            || {
                let found = self.receipt(receipt);
                let state = text(&found["state"]);
                wanted.contains(&state.as_str()).then_some(found)
            },
            || self.receipt(receipt).to_string(),
        )
    }

    /// Sends without waiting; gives the receipt's id.
    pub(crate) fn post(&self, session: &str, message: &str) -> String {
        text(&self.json(&["send", session, message, "--no-wait"])["id"])
    }

    /// The session's workspace.
    pub(crate) fn folder(&self, session: &str) -> PathBuf {
        self.home.root().join("worktrees/default").join(session)
    }

    /// Where the scripted agent keeps what it was told.
    pub(crate) fn private(&self, session: &str) -> PathBuf {
        self.home.root().join("sessions/default").join(session)
    }

    /// Every prompt the agent took, in order: the proof of delivery.
    pub(crate) fn prompts(&self, session: &str) -> Vec<String> {
        json_lines(&self.private(session).join("prompts.jsonl"))
            .iter()
            .map(|line| text(&line["prompt"]))
            .collect()
    }

    pub(crate) fn events(&self, session: &str) -> Vec<Value> {
        let list = self.json(&["events", "--session", session, "--limit", "1000"]);
        list["data"].as_array().unwrap().clone()
    }

    pub(crate) fn kinds(&self, session: &str) -> Vec<String> {
        self.events(session)
            .iter()
            .map(|e| text(&e["kind"]))
            .collect()
    }

    pub(crate) fn daemon_pid(&self) -> i32 {
        let status = self.json(&["daemon", "status"]);
        i32::try_from(status["pid"].as_i64().unwrap()).unwrap()
    }

    /// kill -9, and wait until it is gone.
    pub(crate) fn kill_daemon(&self) {
        let pid = self.daemon_pid();
        end(pid);
        eventually(
            || (!alive(pid)).then_some(()),
            || format!("daemon {pid} survives"),
        );
    }

    /// Processes that belong to this home, the daemon included, by what they are.
    pub(crate) fn processes(&self) -> BTreeMap<i32, String> {
        let mark = format!("SKEIN_HOME={}", self.home.root().display());
        let own = i32::try_from(std::process::id()).unwrap();
        let mut found = BTreeMap::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
            let environ = read("environ");
            if pid != own && environ.split(|b| *b == 0).any(|v| v == mark.as_bytes()) {
                let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
                found.insert(pid, line.trim().to_owned());
            }
        }
        found
    }

    /// Processes but for the daemon and commands that are just ending.
    pub(crate) fn agents(&self) -> BTreeMap<i32, String> {
        let mut found = self.processes();
        found.retain(|_, line| !line.contains(" daemon run"));
        found
    }

    /// Holders and guards of this home's runs.
    fn holders(&self) -> BTreeMap<i32, String> {
        let runs = format!("{}/", self.home.root().join("runs").display());
        let mut found = BTreeMap::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(&runs) && alive(pid) && line.contains("skein") {
                found.insert(pid, line);
            }
        }
        found
    }

    /// Every process of this home.
    pub(crate) fn everything(&self) -> BTreeMap<i32, String> {
        let mut found = self.processes();
        found.extend(self.holders());
        found
    }

    pub(crate) fn until_no_agents(&self) {
        eventually(
            || self.agents().is_empty().then_some(()),
            || format!("{:?}", self.agents()),
        );
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // The daemon first, so that it makes nothing of the rest going.
        let all = self.processes();
        for (pid, _) in all.iter().filter(|(_, line)| line.contains(" daemon run")) {
            end(*pid);
        }
        // Holders and guards have no environment of the home, but name it on their command line; they end with their
        // agent. A holder that was just given its order starts one though the daemon is gone: so look again.
        let over = || {
            let left = self.processes();
            left.keys().for_each(|pid| end(*pid));
            (left.is_empty() && self.holders().is_empty()).then_some(())
        };
        if thread::panicking() {
            // A test that has failed already waits for nothing more.
            let until = Instant::now() + Duration::from_secs(1);
            let _ = pauses().find(|pause| {
                thread::sleep(*pause);
                over().is_some() || Instant::now() > until
            });
        } else {
            eventually(over, || format!("left behind: {:?}", self.everything()));
        }
    }
}

pub(crate) fn end(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whether a process is there and not a zombie.
pub(crate) fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(None | Some('Z' | 'X')))
}

pub(crate) fn json_lines(path: &Path) -> Vec<Value> {
    let content = fs::read_to_string(path).unwrap_or_default();
    content
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// How long to wait before each further look: what is quick is seen at once, what is slow is not disturbed.
pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
    let longest = Duration::from_millis(50);
    let longer = move |pause: &Duration| Some((*pause * 3 / 2).min(longest));
    iter::successors(Some(Duration::from_millis(2)), longer)
}

/// Waits for something that must come to be.
pub(crate) fn eventually<T>(
    mut look: impl FnMut() -> Option<T>,
    why_not: impl Fn() -> String,
) -> T {
    let until = Instant::now() + DEADLINE;
    for pause in pauses() {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it never came to be: {}", why_not());
        thread::sleep(pause);
    }
    unreachable!("there is always a further pause")
}
