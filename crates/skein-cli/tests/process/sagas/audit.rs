//! Looks at the machine after a test: whatever is there must be known to a record.
//!
//! The audit never repairs and never asks the product what is left over: it reads `/proc`, git, the folders
//! and the database itself. What the records say comes from `ls --all`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::harness::Call;
use crate::harness::{Fleet, eventually, text};

/// Waits until nothing is left over; says what is, if it stays.
pub(crate) fn clean(fleet: &Fleet) {
    eventually(
        || findings(fleet).is_empty().then_some(()),
        || format!("left over: {:#?}", findings(fleet)),
    );
}

/// Waits until no saga is at work, and gives all sessions.
pub(crate) fn settled(fleet: &Fleet) -> Vec<Value> {
    let at_rest = |s: &Value| s["saga"].is_null() && s["phase"] != "spawning";
    eventually(
        || {
            let all = sessions(fleet);
            all.iter().all(at_rest).then_some(all)
        },
        || format!("{:#?}", sessions(fleet)),
    )
}

/// Everything that no record accounts for.
pub(crate) fn findings(fleet: &Fleet) -> Vec<String> {
    let mut audit = Audit {
        fleet,
        sessions: sessions(fleet)
            .into_iter()
            .map(|session| (text(&session["id"]), session))
            .collect(),
        found: vec![],
    };
    audit.sagas();
    audit.receipts();
    audit.processes();
    audit.home();
    audit.repository();
    audit.found
}

/// A home with a long name has its socket elsewhere.
fn connect(fleet: &Fleet) -> UnixStream {
    let status = fleet.json(&["daemon", "status"]);
    UnixStream::connect(text(&status["socket"])).unwrap()
}

fn sessions(fleet: &Fleet) -> Vec<Value> {
    let list = fleet.json(&["ls", "--all", "--limit", "1000"]);
    list["data"].as_array().unwrap().clone()
}

/// Rows of one kind, read from the file: no call shows them all.
pub(crate) fn rows(fleet: &Fleet, kind: &str) -> u32 {
    let database =
        Connection::open_with_flags(fleet.home.database(), OpenFlags::SQLITE_OPEN_READ_ONLY);
    let count = "SELECT count(*) FROM records WHERE kind = ?1";
    database
        .unwrap()
        .query_row(count, [kind], |row| row.get(0))
        .unwrap()
}

struct Audit<'a> {
    fleet: &'a Fleet,
    sessions: BTreeMap<String, Value>,
    found: Vec<String>,
}

impl Audit<'_> {
    fn find(&mut self, what: impl Into<String>) {
        self.found.push(what.into());
    }

    /// Whether an agent of this session is to be running, in this run if one is named.
    fn runs(&self, session: &str, run: Option<&str>) -> bool {
        self.sessions.get(session).is_some_and(|s| {
            let live = !["ended", "archived"].contains(&s["phase"].as_str().unwrap());
            let same = run.is_none_or(|run| run.parse().ok() == s["run"].as_u64());
            live && same && s["agent"] != "none"
        })
    }

    /// Whether the session's folder is to be there.
    fn has_folder(&self, session: &str) -> bool {
        self.sessions
            .get(session)
            .is_some_and(|s| s["workspace"]["state"] != "gone")
    }

    fn sagas(&mut self) {
        for kind in ["saga", "handoff"] {
            let count = rows(self.fleet, kind);
            if count > 0 {
                self.find(format!("{count} rows of kind {kind}"));
            }
        }
        let busy: Vec<String> = self
            .sessions
            .values()
            .filter(|s| s["phase"] == "spawning" || !s["saga"].is_null())
            .map(|s| format!("{} is {} with saga {}", s["id"], s["phase"], s["saga"]))
            .collect();
        self.found.extend(busy);
        let report = self.fleet.run(&["--json", "events", "verify"]);
        if report.code != 0 || report.document()["ok"] != true {
            self.find(format!("the chain of events is broken: {report:?}"));
        }
    }

    fn receipts(&mut self) {
        let agents = self.sessions.values().filter(|s| s["agent"] != "none");
        let ids: Vec<String> = agents.map(|s| text(&s["id"])).collect();
        for id in ids {
            let call = Call::get(&format!("/api/v1/sessions/{id}/receipts?limit=1000"));
            let list = call.over(connect(self.fleet)).json();
            for receipt in list["data"].as_array().unwrap() {
                let state = receipt["state"].as_str().unwrap();
                if !["accepted", "submitted", "turn_started", "unknown"].contains(&state) {
                    self.find(format!("receipt of {id} rests at {state}"));
                }
            }
        }
    }

    fn processes(&mut self) {
        let mut served = BTreeSet::new();
        for (pid, process) in processes(self.fleet) {
            let Process { line, session, .. } = &process;
            if line.contains(" daemon run") || is_window(self, &process) {
                continue;
            }
            match session {
                Some(session) if self.runs(session, None) => {
                    served.insert(session.clone());
                }
                _ => self.find(format!("process {pid}: {line}")),
            }
        }
        let live = self.sessions.keys().filter(|s| self.runs(s, None));
        let deserted: Vec<String> = live
            .filter(|session| !served.contains(*session))
            .map(|session| format!("{session} is live and has no process"))
            .collect();
        self.found.extend(deserted);
    }

    fn home(&mut self) {
        let root = self.fleet.home.root().to_owned();
        let known = [
            "skein.db",
            "skein.db-wal",
            "skein.db-shm",
            "transcripts.db",
            "transcripts.db-wal",
            "transcripts.db-shm",
            "search.db",
            "search.db-wal",
            "search.db-shm",
            "cold",
            "home-id",
            "credential.key",
            "daemon.lock",
            "daemon.serving",
            "skeind.sock",
            "logs",
            "worktrees",
            "clones",
            "empty",
            "sessions",
            "runs",
            "tmux.sock",
        ];
        for name in names(&root) {
            if !known.contains(&name.as_str()) {
                self.find(format!("{name} in the home"));
            }
        }
        self.workspaces(&root);
        for place in ["sessions", "logs/sessions"] {
            for (_, session) in members(&root.join(place)) {
                if !self.sessions.contains_key(&session) {
                    self.find(format!("{place} of {session}"));
                }
            }
        }
        self.runs_below(&root);
    }

    fn workspaces(&mut self, root: &Path) {
        for kind in ["worktrees", "clones", "empty"] {
            for (tenant, session) in members(&root.join(kind)) {
                let told = match tenant.as_str() {
                    ".locks" => session.strip_prefix("default.").map(str::to_owned),
                    "default" => Some(session.clone()),
                    _ => None,
                };
                if !told.is_some_and(|session| self.has_folder(&session)) {
                    self.find(format!("{kind}/{tenant}/{session}"));
                }
            }
        }
    }

    fn runs_below(&mut self, root: &Path) {
        for (tenant, session) in members(&root.join("runs")) {
            let folder = root.join("runs").join(&tenant).join(&session);
            let runs = names(&folder);
            if runs.is_empty() {
                self.find(format!("an empty folder of runs of {session}"));
            }
            for run in runs {
                if !self.runs(&session, Some(&run)) {
                    self.find(format!("run {run} of {session}"));
                }
            }
        }
    }

    fn repository(&mut self) {
        let Some(git) = git_folder(&self.fleet.repo) else {
            return;
        };
        self.worktrees(&git);
        let refs = self.fleet.git(&["for-each-ref", "--format=%(refname)"]);
        let backups: BTreeSet<String> = self
            .sessions
            .values()
            .flat_map(|s| s["workspace"]["backups"].as_array().cloned())
            .flatten()
            .map(|backup| text(&backup["ref"]))
            .collect();
        for name in refs.lines() {
            let known = match name {
                name if name.starts_with("refs/skein/backup/") => backups.contains(name),
                name => match name.strip_prefix("refs/skein/left/") {
                    Some(rest) => rest
                        .split_once('/')
                        .is_some_and(|(session, _)| self.sessions.contains_key(session)),
                    None => !name.starts_with("refs/skein/"),
                },
            };
            if !known {
                self.find(format!("{name} in no record"));
            }
            if let Some(session) = name.strip_prefix("refs/heads/skein/") {
                self.branch(session);
            }
        }
        for backup in backups {
            if !refs.lines().any(|name| name == backup) {
                self.find(format!("{backup} is in a record and not in the repository"));
            }
        }
        for path in files(&git) {
            let name = path.file_name().unwrap().to_string_lossy();
            let ours = name.starts_with("skein-") || name.starts_with("tmp_");
            if ours || name.ends_with(".lock") || name.ends_with(".new") {
                self.find(path.display().to_string());
            }
        }
    }

    /// A branch is a session's; one without work stays only as long as the folder is there.
    fn branch(&mut self, session: &str) {
        let Some(record) = self.sessions.get(session) else {
            return self.find(format!("branch skein/{session} without a session"));
        };
        let gone = record["workspace"]["state"] == "gone";
        let own = format!("main..skein/{session}");
        if gone && self.fleet.git(&["rev-list", "--count", &own]) == "0" {
            self.find(format!("branch skein/{session} without work or folder"));
        }
    }

    fn worktrees(&mut self, git: &Path) {
        let list = self.fleet.git(&["worktree", "list", "--porcelain"]);
        let mut known = BTreeSet::new();
        for entry in list.split("\n\n").skip(1) {
            let path = entry.lines().next().unwrap();
            let path = Path::new(path.strip_prefix("worktree ").unwrap());
            let session = path.file_name().unwrap().to_string_lossy().into_owned();
            if !path.starts_with(self.fleet.home.root()) || !self.has_folder(&session) {
                self.find(format!("worktree {} in no record", path.display()));
            }
            if !path.is_dir() {
                self.find(format!("worktree {} without its folder", path.display()));
            }
            let locked = format!("locked skein {session}");
            if !entry.lines().any(|line| line == locked) {
                self.find(format!(
                    "worktree {} is not locked: {entry}",
                    path.display()
                ));
            }
            known.insert(path.to_owned());
        }
        for name in names(&git.join("worktrees")) {
            let gitdir = git.join("worktrees").join(&name).join("gitdir");
            let points = fs::read_to_string(gitdir).unwrap_or_default();
            let folder = Path::new(points.trim()).parent().map(Path::to_owned);
            if !folder.is_some_and(|folder| known.contains(&folder)) {
                self.find(format!("{name} among git's worktrees"));
            }
        }
        for (session, record) in self.sessions.clone() {
            let workspace = &record["workspace"];
            let path = PathBuf::from(workspace["path"].as_str().unwrap_or_default());
            let ready = workspace["kind"] == "worktree" && workspace["state"] == "ready";
            if ready && !known.contains(&path) {
                self.find(format!("{session} has no worktree"));
            }
        }
    }
}

/// A window is there as long as the run that it shows, and the tmux server as long as a window.
fn is_window(audit: &Audit<'_>, process: &Process) -> bool {
    let is_shown = |s: &Value| {
        s["runtime"]["kind"] == "tmux" && audit.runs(s["id"].as_str().unwrap_or_default(), None)
    };
    match process.line.split_once(" attach --yield ") {
        _ if process.line.starts_with("tmux -S ") => audit.sessions.values().any(is_shown),
        Some((_, session)) => audit.sessions.get(session).is_some_and(is_shown),
        None => false,
    }
}

/// A process that has to do with a home.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) line: String,
    /// Whose it is, by its environment or the folder it works for.
    pub(crate) session: Option<String>,
}

/// Processes that belong to a home by their environment, arguments, folder or open files.
pub(crate) fn processes(fleet: &Fleet) -> BTreeMap<i32, Process> {
    let root = fleet.home.root().display().to_string();
    let own = i32::try_from(std::process::id()).unwrap();
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        if pid == own || !crate::harness::alive(pid) {
            continue;
        }
        let read = |file: &str| {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', "\n")
        };
        let (environ, line) = (read("environ"), read("cmdline").trim().replace('\n', " "));
        let mut places = links(&entry.path());
        places.push(line.clone());
        let mark = format!("SKEIN_HOME={root}");
        let marked = environ.lines().any(|v| v == mark);
        let inside = format!("{root}/");
        if marked || places.iter().any(|place| place.contains(&inside)) {
            let of_environ = environ
                .lines()
                .find_map(|v| v.strip_prefix("SKEIN_SESSION="))
                .map(str::to_owned);
            let session = of_environ.or_else(|| places.iter().find_map(|p| session_of(&root, p)));
            found.insert(pid, Process { line, session });
        }
    }
    found
}

/// Where a process is and what it has open.
fn links(process: &Path) -> Vec<String> {
    let link = |path: PathBuf| Some(fs::read_link(path).ok()?.display().to_string());
    let open = fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    open.filter_map(|fd| link(fd.path()))
        .chain(link(process.join("cwd")))
        .collect()
}

/// The session whose folder of runs a path names.
fn session_of(root: &str, path: &str) -> Option<String> {
    let after = |place: &str| path.split_once(&format!("{root}/{place}")).map(|(_, r)| r);
    after("runs/default/")?.split('/').next().map(str::to_owned)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// What is two levels below a folder.
fn members(folder: &Path) -> Vec<(String, String)> {
    let below = |outer: String| {
        let inner = names(&folder.join(&outer));
        inner.into_iter().map(move |name| (outer.clone(), name))
    };
    names(folder).into_iter().flat_map(below).collect()
}

fn git_folder(repo: &Path) -> Option<PathBuf> {
    [repo.join(".git"), repo.to_owned()]
        .into_iter()
        .find(|git| git.join("objects").is_dir())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}
