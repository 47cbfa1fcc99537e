//! No process of a run outlives it: not when its holder is killed or stopped, not when the disk is full, not when
//! the home is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Fleet, alive, end, eventually, text};

/// How long a command may take when a holder does not answer.
const BOUNDED: Duration = Duration::from_secs(25);

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
        let names = fs::read_dir(&self.folder).into_iter().flatten().flatten();
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

impl Drop for Stray {
    fn drop(&mut self) {
        self.living().into_iter().for_each(end);
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

/// A home whose runs get no cgroup.
fn fleet_without_cgroups() -> Fleet {
    let fleet = Fleet::without_project();
    set_cgroup(&fleet, "off");
    let repo = fleet.repo.display().to_string();
    fleet.json(&["project", "add", &repo, "--name", "api"]);
    fleet
}

/// The cgroup of a run, as its record names it.
fn group_of(fleet: &Fleet, session: &str) -> Option<PathBuf> {
    let record = record_of(fleet, session);
    let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    record["group"].as_str().map(PathBuf::from)
}

fn record_of(fleet: &Fleet, session: &str) -> PathBuf {
    let runs = fleet.home.root().join("runs/default");
    runs.join(session).join("1/run.json")
}

/// What the doctor says of process control.
fn process_control(fleet: &Fleet) -> String {
    let report = fleet.run(&["--json", "doctor"]).document();
    let mut findings = report["findings"].as_array().unwrap().iter();
    let found = findings.find(|f| f["check"] == "processes").unwrap();
    text(&found["message"])
}

#[test]
fn l4_a_child_that_left_the_tree_ends_with_its_killed_holder() {
    a_killed_holder_leaves_nothing(&Fleet::new());
}

#[test]
fn l4_a_child_that_left_the_tree_ends_with_its_killed_holder_without_cgroups() {
    let fleet = fleet_without_cgroups();
    a_killed_holder_leaves_nothing(&fleet);
    assert!(process_control(&fleet).contains("no cgroup"));
}

/// Holder and guard are killed while no daemon runs: nobody is there to react.
fn nobody_reacts(fleet: &Fleet, agent: i32) {
    fleet.kill_daemon();
    let both = above(agent);
    assert_eq!(both.len(), 2, "{both:?}");
    both.into_iter().for_each(end);
}

#[test]
fn l4_a_run_whose_holder_and_guard_were_killed_is_ended_by_a_kill() {
    for fleet in [Fleet::new(), fleet_without_cgroups()] {
        let stray = Stray::new(&fleet, "trap '' HUP");
        let (session, agent) = stray.spawn(&fleet);
        nobody_reacts(&fleet, agent);
        assert!(alive(stray.one()), "nobody ended it");
        fleet.run(&["kill", &session]);
        stray.until_none();
        fleet.until_no_agents();
    }
}

#[test]
fn l4_a_restore_ends_what_an_earlier_run_left() {
    for fleet in [Fleet::new(), fleet_without_cgroups()] {
        let stray = Stray::new(&fleet, "trap '' HUP");
        let (session, agent) = stray.spawn(&fleet);
        let first = stray.one();
        nobody_reacts(&fleet, agent);
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
}

#[test]
fn l4_a_run_has_a_cgroup_where_one_can_be_made_and_it_goes_with_the_run() {
    let fleet = Fleet::new();
    let stray = Stray::new(&fleet, "");
    let (session, agent) = stray.spawn(&fleet);
    let Some(group) = group_of(&fleet, &session) else {
        // This machine lets nobody make cgroups; then the doctor must say so.
        assert!(process_control(&fleet).contains("no cgroup"));
        return;
    };
    assert!(process_control(&fleet).contains("each run has a cgroup"));
    let members = fs::read_to_string(group.join("cgroup.procs")).unwrap();
    for pid in [agent, stray.one()] {
        assert!(members.lines().any(|l| l == pid.to_string()), "{members}");
    }
    for pid in above(agent) {
        assert!(!members.lines().any(|l| l == pid.to_string()), "{members}");
    }
    fleet.json(&["kill", &session]);
    eventually(
        || (!group.exists()).then_some(()),
        || format!("{} stays", group.display()),
    );
}

/// An agent's files can name any process; none is ended for that.
#[test]
fn l15_a_record_that_names_strangers_has_none_of_them_ended() {
    let fleet = fleet_without_cgroups();
    let mut stranger = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let other = fleet.spawn("say hello", &[]);
    let neighbour = pid(&fleet.until_status(&other, "idle"));
    let theirs: Value =
        serde_json::from_slice(&fs::read(record_of(&fleet, &other)).unwrap()).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", stranger.id())).unwrap();
    let start = stat
        .rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .nth(19)
        .unwrap();
    let start: u64 = start.parse().unwrap();
    let stray = Stray::new(&fleet, "trap '' HUP");
    for mark in [None, Some(&theirs["mark"])] {
        let (session, agent) = stray.spawn(&fleet);
        let path = record_of(&fleet, &session);
        let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        record["agent"] = serde_json::json!({ "pid": stranger.id(), "start": start });
        record["holder"] = stranger.id().into();
        record["group"] = "/sys/fs/cgroup".into();
        if let Some(mark) = mark {
            record["mark"] = mark.clone();
        }
        fs::write(&path, record.to_string()).unwrap();
        nobody_reacts(&fleet, agent);
        fleet.run(&["kill", &session]);
        stray.until_none();
    }
    stray.until_none();
    assert!(alive(neighbour), "the neighbour's run goes on");
    assert!(stranger.try_wait().unwrap().is_none(), "the stranger lives");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

fn stop(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
}

/// Runs a command that must come back in time, whatever it says.
fn bounded(fleet: &Fleet, args: &[&str]) -> crate::base::Ran {
    let began = Instant::now();
    let ran = fleet.run(args);
    assert!(
        began.elapsed() < BOUNDED,
        "{args:?} took {:?}",
        began.elapsed()
    );
    ran
}

#[test]
fn l3_commands_come_back_while_a_holder_is_stopped() {
    let fleet = Fleet::new();
    let session = fleet.spawn("wait 600", &[]);
    let agent = pid(&fleet.until_status(&session, "working"));
    stop(parent(agent));
    for (args, codes) in [
        (&["show", &session][..], &[0][..]),
        (&["ls"], &[0]),
        (&["send", &session, "say later", "--no-wait"], &[0]),
        (&["screen", &session], &[6]),
        (&["interrupt", &session], &[6]),
        (&["why", &session], &[0]),
    ] {
        let ran = bounded(&fleet, args);
        assert!(codes.contains(&ran.code), "{args:?}: {ran:?}");
    }
    let killed = bounded(&fleet, &["kill", &session]);
    assert_eq!(killed.code, 0, "{killed:?}");
    assert_eq!(fleet.status(&session), "killed");
    fleet.until_no_agents();
}

#[test]
fn l4_a_run_with_a_stopped_holder_is_killed_without_its_help() {
    for fleet in [Fleet::new(), fleet_without_cgroups()] {
        for restart in [false, true] {
            let stray = Stray::new(&fleet, "trap '' HUP TERM");
            let (session, agent) = stray.spawn(&fleet);
            let holders = above(agent);
            stop(parent(agent));
            if restart {
                fleet.kill_daemon();
            }
            let killed = bounded(&fleet, &["kill", &session]);
            assert_eq!(killed.code, 0, "{killed:?}");
            assert_eq!(fleet.status(&session), "killed");
            for pid in holders.into_iter().chain([agent]) {
                assert!(!alive(pid), "{} lives", command_line(pid));
            }
            stray.until_none();
            drop(stray);
            fs::remove_dir_all(fleet.home.user().join("strays")).unwrap();
        }
    }
}

/// A folder on a small disk of its own; none where this user may not mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mounted(at: &Path) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"])
            .arg(at)
            .output()
            .unwrap();
        mount.status.success().then(|| Self(at.to_owned()))
    }

    /// Takes all the room there is.
    fn fill(&self) {
        use std::io::Write as _;
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("--lazy")
            .arg(&self.0)
            .output();
    }
}

#[test]
fn a_kill_ends_the_processes_when_the_disk_is_full_and_is_recorded_later() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mounted(&place.path().join("disk")) else {
        eprintln!("skipped: this user may not mount a small disk");
        return;
    };
    let fleet = Fleet::at(disk.0.join("home"));
    let stray = Stray::new(&fleet, "");
    let (session, agent) = stray.spawn(&fleet);
    disk.fill();
    let ran = bounded(&fleet, &["--json", "kill", &session]);
    assert_eq!(ran.code, 6, "{ran:?}");
    let message = text(&ran.error()["message"]);
    assert!(message.contains("were ended"), "{message}");
    assert!(
        message.contains("nothing of this kill is recorded"),
        "{message}"
    );
    assert!(!alive(agent));
    stray.until_none();
    disk.make_room();
    fleet.until_status(&session, "killed");
    fleet.until_no_agents();
}

#[test]
fn a_removed_home_ends_its_daemon_its_holders_and_their_agents() {
    let fleet = fleet_without_cgroups();
    fleet.json(&["daemon", "stop"]);
    let errors = fleet.home.user().join("daemon-errors");
    let mut daemon = fleet.home.command(&["daemon", "run"]);
    let mut daemon = daemon
        .stderr(fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    eventually(
        || fleet.home.socket().exists().then_some(()),
        || "no daemon".into(),
    );
    let stray = Stray::new(&fleet, "");
    let (_, agent) = stray.spawn(&fleet);
    let other = fleet.spawn("say hello", &["--runtime", "tmux"]);
    let in_tmux = pid(&fleet.until_status(&other, "idle"));
    let mut all = above(agent);
    all.extend([agent, in_tmux]);
    remove_while_written(fleet.home.root());
    let code = daemon.wait().unwrap().code();
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
    let said = fs::read_to_string(&errors).unwrap();
    assert!(said.contains("was removed"), "{said}");
    for pid in all {
        eventually(
            || (!alive(pid)).then_some(()),
            || format!("{} lives", command_line(pid)),
        );
    }
    stray.until_none();
    assert!(!fleet.home.root().exists(), "nobody made it again");
}

/// As `rm -rf` does, and again while somebody still writes into it.
fn remove_while_written(root: &Path) {
    eventually(
        || match fs::remove_dir_all(root) {
            Ok(()) => Some(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(()),
            Err(_) => None,
        },
        || format!("{} cannot be removed", root.display()),
    );
}

#[test]
fn l5_a_removed_workspace_ends_no_agent() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    let agent = pid(&fleet.until_status(&session, "idle"));
    fs::remove_dir_all(fleet.folder(&session)).unwrap();
    let receipt = fleet.post(&session, "say still here");
    // Its terminal takes what is typed; what the agent makes of it without a folder is its own affair.
    fleet.until_receipt(&receipt, &["echoed", "submitted", "turn_started"]);
    assert!(alive(agent));
}

#[test]
fn l3_a_moved_home_stops_its_daemon_and_keeps_its_agents() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    let agent = pid(&fleet.until_status(&session, "idle"));
    let daemon = fleet.daemon_pid();
    let moved = fleet.home.user().join("moved");
    fs::rename(fleet.home.root(), &moved).unwrap();
    eventually(
        || (!alive(daemon)).then_some(()),
        || "the daemon goes on".into(),
    );
    assert!(alive(agent));
    assert!(!fleet.home.root().exists(), "nobody made it again");
    let mut show = fleet.home.command(&["--json", "show", &session]);
    show.env("SKEIN_HOME", &moved);
    eventually(
        || {
            let found = crate::base::Ran::from(show.output().unwrap()).document();
            (found["runtime"]["pid"].as_i64() == Some(agent.into())).then_some(())
        },
        || "the next daemon does not find the agent".into(),
    );
    let mut kill = fleet.home.command(&["kill", &session]);
    let killed = kill.env("SKEIN_HOME", &moved).output().unwrap();
    assert!(killed.status.success(), "{killed:?}");
    assert!(!alive(agent));
    let mut stop = fleet.home.command(&["daemon", "stop"]);
    stop.env("SKEIN_HOME", &moved).output().unwrap();
}
