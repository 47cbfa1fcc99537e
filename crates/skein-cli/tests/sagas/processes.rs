//! No process of a run outlives it: not when its holder is killed or stopped, not when the disk is full, not when
//! the home is removed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Fleet, alive, end, eventually, text};

/// How long a command may take when a holder does not answer.
const BOUNDED: Duration = Duration::from_secs(25);

/// Runs get no cgroup, wherever the test runs.
fn without_cgroups(fleet: &Fleet) {
    set_cgroup(fleet, "off");
}

fn set_cgroup(fleet: &Fleet, word: &str) {
    let folder = fleet.home.user().join(".config/skein");
    fs::create_dir_all(&folder).unwrap();
    let text = format!("[daemon]\ncgroup = '{word}'\n");
    fs::write(folder.join("config.toml"), text).unwrap();
}

/// An agent whose child drops everything it could be found by: its parent, its session, its environment and its
/// terminal. `LINES` run before the agent waits for input.
struct Stray {
    folder: PathBuf,
    command: String,
}

impl Stray {
    fn new(fleet: &Fleet, lines: &str) -> Self {
        let folder = fleet.home.user().join("strays");
        fs::create_dir(&folder).unwrap();
        let place = folder.display();
        let script = fleet.home.user().join("agent.sh");
        let child =
            format!("echo $$ > {place}/new; mv {place}/new {place}/$$; while :; do sleep 1; done");
        let text = format!(
            "(setsid env -i /bin/sh -c '{child}' </dev/null >/dev/null 2>&1 &)\n{lines}\nexec cat\n"
        );
        fs::write(&script, text).unwrap();
        Self {
            folder,
            command: format!("sh {}", script.display()),
        }
    }

    /// Spawns the agent; gives the session and the agent's process once its child is there.
    fn spawn(&self, fleet: &Fleet) -> (String, i32) {
        let args = [
            "spawn",
            "--project",
            "api",
            "--agent",
            "custom",
            "--command",
            &self.command,
            "--prompt-via",
            "argv",
            "go",
        ];
        let session = text(&fleet.json(&args)["id"]);
        let agent = fleet.until(&session, |s| s["runtime"]["pid"].is_i64());
        self.one();
        (session, pid(&agent))
    }

    /// Children that live.
    fn living(&self) -> Vec<i32> {
        let names = fs::read_dir(&self.folder).unwrap().flatten();
        let pids = names.filter_map(|n| n.file_name().to_str()?.parse().ok());
        pids.filter(|pid| alive(*pid)).collect()
    }

    /// Waits until there is exactly one.
    fn one(&self) -> i32 {
        let one = || match self.living().as_slice() {
            [one] => Some(*one),
            _ => None,
        };
        eventually(one, || format!("{:?}", self.living()))
    }

    fn until_none(&self) {
        eventually(
            || self.living().is_empty().then_some(()),
            || format!("{:?} live", self.living()),
        );
    }
}

fn pid(session: &Value) -> i32 {
    i32::try_from(session["runtime"]["pid"].as_i64().unwrap()).unwrap()
}

fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit_once(") ").unwrap().1;
    rest.split(' ').nth(1).unwrap().parse().unwrap()
}

/// The processes between an agent and the system: its holder, and whatever guards that.
fn above(agent: i32) -> Vec<i32> {
    let mut found = vec![];
    let mut at = parent(agent);
    while at > 1 && command_line(at).contains(" holder ") {
        found.push(at);
        at = parent(at);
    }
    found
}

fn command_line(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Its child ends with the holder that was killed, a restore starts one more and no second, and a kill ends that.
fn a_killed_holder_leaves_nothing(fleet: &Fleet) {
    let stray = Stray::new(fleet, "");
    let (session, agent) = stray.spawn(fleet);
    let first = stray.one();
    end(parent(agent));
    fleet.until_status(&session, "lost");
    fleet.json(&["restore", &session]);
    eventually(
        || (!alive(first)).then_some(()),
        || format!("{first} lives beside {:?}", stray.living()),
    );
    stray.one();
    fleet.json(&["kill", &session]);
    stray.until_none();
}

#[test]
fn l4_a_child_that_left_the_tree_ends_with_its_killed_holder() {
    a_killed_holder_leaves_nothing(&Fleet::new());
}

#[test]
fn l4_a_child_that_left_the_tree_ends_with_its_killed_holder_without_cgroups() {
    let fleet = Fleet::without_project();
    without_cgroups(&fleet);
    let repo = fleet.repo.display().to_string();
    fleet.json(&["project", "add", &repo, "--name", "api"]);
    a_killed_holder_leaves_nothing(&fleet);
}
