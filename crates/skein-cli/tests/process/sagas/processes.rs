//! No process of a run outlives it: not when its holder is killed or stopped, not when the disk is full, not when
//! the home is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{Fleet, alive, end, eventually, text};

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
        Self::started_by(fleet, lines, "/bin/sh -c")
    }

    /// Only its cgroup says whose the child is.
    fn without_descriptors(fleet: &Fleet, lines: &str) -> Self {
        let close = "import os, sys; os.closerange(3, 1024); os.execv(sys.argv[1], sys.argv[1:])";
        Self::started_by(fleet, lines, &format!("python3 -c \"{close}\" /bin/sh -c"))
    }

    fn started_by(fleet: &Fleet, lines: &str, shell: &str) -> Self {
        let folder = fleet.home.user().join("strays");
        fs::create_dir(&folder).unwrap();
        let place = folder.display();
        let script = fleet.home.user().join("agent.sh");
        let child =
            format!("echo $$ > {place}/new; mv {place}/new {place}/$$; while :; do sleep 1; done");
        let text = format!(
            "(setsid env -i PATH=\"$PATH\" {shell} '{child}' </dev/null >/dev/null 2>&1 &)\n{lines}\nexec cat\n"
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

/// The agent's process, once a new daemon has found it.
fn found_again(fleet: &Fleet, session: &str) -> i32 {
    pid(&fleet.until(session, |s| s["runtime"]["pid"].is_i64()))
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
    // Stopped first: a guard that sees its holder die before it is killed itself ends the tree.
    both.iter().copied().for_each(stop);
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
fn l4_a_run_without_a_record_is_found_by_the_name_of_its_cgroup() {
    let fleet = Fleet::new();
    let stray = Stray::without_descriptors(&fleet, "trap '' HUP");
    let (session, agent) = stray.spawn(&fleet);
    if group_of(&fleet, &session).is_none() {
        eprintln!("skipped: this user cannot make a cgroup");
        return;
    }
    nobody_reacts(&fleet, agent);
    fs::remove_file(record_of(&fleet, &session)).unwrap();
    assert!(alive(stray.one()), "the child ended before the kill");
    fleet.run(&["kill", &session]);
    stray.until_none();
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

/// The cgroup of version 2 that this process is in; none where there is none.
fn own_cgroup() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let inside = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" cgroup2 "))?;
    Some(Path::new(mount.split(' ').nth(1)?).join(inside))
}

/// A cgroup that this test made.
struct TestGroup(PathBuf);

impl TestGroup {
    /// None where this user may not make one.
    fn new(name: &str) -> Option<Self> {
        let path = own_cgroup()?.join(format!("test-{name}.{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn write(&self, file: &str, text: &str) -> std::io::Result<()> {
        fs::write(self.0.join(file), text)
    }
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        // A member that was just killed leaves a moment later.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A process that no run has started.
struct Stranger {
    child: std::process::Child,
    /// Its cgroup, where this user can make one.
    group: Option<TestGroup>,
}

impl Stranger {
    fn new() -> Self {
        let mut sleep = std::process::Command::new("sleep");
        let child = sleep.arg("600").spawn().unwrap();
        let group = TestGroup::new("stranger")
            .filter(|group| group.write("cgroup.procs", &child.id().to_string()).is_ok());
        Self { child, group }
    }

    /// As /proc counts it.
    fn start_time(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let rest = stat.rsplit_once(") ").unwrap().1;
        rest.split(' ').nth(19).unwrap().parse().unwrap()
    }

    fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// A link to the stranger's cgroup that is named as the run's own cgroup would be.
    fn link(&self, folder: &Path, mark: &str) -> Option<PathBuf> {
        let link = folder.join(format!("skein.{}", mark.replace('/', ".")));
        std::os::unix::fs::symlink(&self.group.as_ref()?.0, &link).unwrap();
        Some(link)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent's files can name any process; none is ended for that.
#[test]
fn l15_a_record_that_names_strangers_has_none_of_them_ended() {
    for fleet in [Fleet::new(), fleet_without_cgroups()] {
        let mut stranger = Stranger::new();
        let other = fleet.spawn("say hello", &[]);
        let neighbour = pid(&fleet.until_status(&other, "idle"));
        let theirs: Value =
            serde_json::from_slice(&fs::read(record_of(&fleet, &other)).unwrap()).unwrap();
        let stray = Stray::new(&fleet, "trap '' HUP");
        for (mark, linked) in [(None, false), (None, true), (Some(&theirs["mark"]), true)] {
            let (session, agent) = stray.spawn(&fleet);
            // The forged record keeps the daemon from removing the run's own cgroup.
            let _own_group = group_of(&fleet, &session).map(TestGroup);
            let path = record_of(&fleet, &session);
            let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            let link = stranger.link(&fleet.home.user(), record["mark"].as_str().unwrap());
            let forged = link.filter(|_| linked).unwrap_or("/sys/fs/cgroup".into());
            record["agent"] =
                serde_json::json!({ "pid": stranger.child.id(), "start": stranger.start_time() });
            record["holder"] = stranger.child.id().into();
            record["group"] = forged.display().to_string().into();
            if let Some(mark) = mark {
                record["mark"] = mark.clone();
            }
            fs::write(&path, record.to_string()).unwrap();
            nobody_reacts(&fleet, agent);
            fleet.run(&["kill", &session]);
            stray.until_none();
            assert!(stranger.lives(), "{} ended the stranger", record["group"]);
        }
        assert!(alive(neighbour), "the neighbour's run goes on");
    }
}

#[test]
fn l3_a_cgroup_that_cannot_be_entered_stops_no_spawn() {
    let group = TestGroup::new("threaded");
    let Some(group) = group.filter(|g| g.write("cgroup.type", "threaded").is_ok()) else {
        eprintln!("skipped: this user cannot make a threaded cgroup");
        return;
    };
    let fleet = Fleet::without_project();
    set_cgroup(&fleet, &group.0.display().to_string());
    let repo = fleet.repo.display().to_string();
    fleet.json(&["project", "add", &repo, "--name", "api"]);
    let said = process_control(&fleet);
    assert!(said.contains("no cgroup"), "{said}");
    let session = fleet.spawn("say hello", &[]);
    fleet.until_status(&session, "idle");
    assert_eq!(group_of(&fleet, &session), None);
    fleet.json(&["kill", &session]);
    fleet.until_no_agents();
}

fn stop(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
}

/// Runs a command that must come back in time, whatever it says.
fn bounded(fleet: &Fleet, args: &[&str]) -> crate::harness::Ran {
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
    let (mut daemon, errors) = daemon_in_foreground(&fleet);
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
    assert!(said.contains("the home"), "{said}");
    assert!(said.contains("was removed"), "{said}");
    for pid in all {
        eventually(
            || (!alive(pid)).then_some(()),
            || format!("{} lives", command_line(pid)),
        );
    }
    stray.until_none();
    // The window of the other one, and the tmux server with it.
    fleet.until_no_agents();
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

/// Runs a command with another `SKEIN_HOME`.
fn run_in(fleet: &Fleet, home: &Path, args: &[&str]) -> crate::harness::Ran {
    let mut command = fleet.home.command(args);
    command.env("SKEIN_HOME", home);
    crate::harness::Ran::from(command.output().unwrap())
}

/// Moves the home away and waits until its daemon has stopped.
fn move_away(fleet: &Fleet) -> PathBuf {
    let daemon = fleet.daemon_pid();
    let moved = fleet.home.user().join("moved");
    fs::rename(fleet.home.root(), &moved).unwrap();
    eventually(
        || (!alive(daemon)).then_some(()),
        || "the daemon goes on".into(),
    );
    moved
}

#[test]
fn l5_a_moved_home_is_refused_until_it_is_moved_back_and_loses_no_work() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    let agent = pid(&fleet.until_status(&session, "idle"));
    fs::write(fleet.folder(&session).join("unfinished"), "work").unwrap();
    let root = fleet.home.root().canonicalize().unwrap();
    let moved = move_away(&fleet);
    assert!(alive(agent));
    assert!(!root.exists(), "nobody made it again");
    for args in [
        &["--json", "ls"][..],
        &["--json", "kill", &session],
        &["--json", "daemon", "start"],
    ] {
        let refused = run_in(&fleet, &moved, args);
        assert_eq!(refused.code, 6, "{args:?}: {refused:?}");
        let error = refused.error();
        assert!(
            text(&error["message"]).contains(&root.display().to_string()),
            "{error}"
        );
        assert!(
            error["hints"].to_string().contains("move it back"),
            "{error}"
        );
        assert!(alive(agent), "{args:?} ended the agent");
    }
    fs::rename(&moved, &root).unwrap();
    assert_eq!(
        found_again(&fleet, &session),
        agent,
        "the same agent is found"
    );
    fleet.json(&["kill", &session]);
    assert!(!alive(agent));
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    let kept = fs::read_to_string(fleet.folder(&session).join("unfinished"));
    assert_eq!(kept.unwrap(), "work");
}

#[test]
fn a_home_in_which_no_agent_ever_ran_may_move() {
    let fleet = Fleet::new();
    let session = text(&fleet.json(&["spawn", "--project", "api", "talk"])["id"]);
    let moved = move_away(&fleet);
    let shown = run_in(&fleet, &moved, &["--json", "show", &session]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert_eq!(run_in(&fleet, &moved, &["daemon", "stop"]).code, 0);
}

/// A daemon in the foreground, whose errors are kept.
fn daemon_in_foreground(fleet: &Fleet) -> (std::process::Child, PathBuf) {
    fleet.json(&["daemon", "stop"]);
    let errors = fleet.home.user().join("daemon-errors");
    let mut daemon = fleet.home.command(&["daemon", "run"]);
    let daemon = daemon
        .stderr(fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    eventually(
        || fleet.home.socket().exists().then_some(()),
        || "no daemon".into(),
    );
    (daemon, errors)
}

#[test]
fn l3_a_removed_lock_stops_the_daemon_which_says_so_and_agents_go_on() {
    for rename in [false, true] {
        let fleet = Fleet::new();
        let (mut daemon, errors) = daemon_in_foreground(&fleet);
        let session = fleet.spawn("say hello", &[]);
        let agent = pid(&fleet.until_status(&session, "idle"));
        let lock = fleet.home.lock();
        match rename {
            true => fs::rename(&lock, lock.with_extension("aside")).unwrap(),
            false => fs::remove_file(&lock).unwrap(),
        }
        let code = daemon.wait().unwrap().code();
        assert!(code.is_some_and(|code| code != 0), "{code:?}");
        let said = fs::read_to_string(&errors).unwrap();
        assert!(said.contains("daemon.lock"), "{said}");
        assert!(said.contains("agents continue"), "{said}");
        assert!(!said.contains("the home"), "{said}");
        assert!(alive(agent));
        assert_eq!(
            found_again(&fleet, &session),
            agent,
            "the next daemon finds it"
        );
    }
}

#[test]
fn l4_an_agent_cannot_start_the_daemon_of_its_own_home() {
    let fleet = Fleet::new();
    let place = fleet.home.user().join("asked");
    fs::create_dir(&place).unwrap();
    let script = fleet.home.user().join("agent.sh");
    let text_of = format!(
        "cd {}\n\
         n=1\n\
         while :; do\n\
         if [ -e ask$n ]; then sh ./ask$n >said$n 2>&1; echo $? >new; mv new code$n; n=$((n+1)); fi\n\
         sleep 0.05\n\
         done\n",
        place.display()
    );
    fs::write(&script, text_of).unwrap();
    let command = format!("sh {}", script.display());
    let args = [
        "spawn",
        "--project",
        "api",
        "--agent",
        "custom",
        "--command",
        &command,
    ];
    let first = text(&fleet.json(&[&args[..], &["--prompt-via", "argv", "go"]].concat())["id"]);
    let agent = pid(&fleet.until(&first, |s| s["runtime"]["pid"].is_i64()));
    fleet.json(&["daemon", "stop"]);
    let ask = |number: u32, line: &str| {
        let new = place.join("new-ask");
        fs::write(&new, line).unwrap();
        fs::rename(&new, place.join(format!("ask{number}"))).unwrap();
        let code = place.join(format!("code{number}"));
        let code = eventually(
            || fs::read_to_string(&code).ok(),
            || format!("{line} does not end"),
        );
        let said = fs::read_to_string(place.join(format!("said{number}"))).unwrap();
        (code.trim().parse::<i32>().unwrap(), said)
    };
    for (number, line) in [
        (1, "\"$SKEIN_BIN\" daemon start"),
        (2, "timeout 5 \"$SKEIN_BIN\" daemon run"),
        (3, "\"$SKEIN_BIN\" ls"),
    ] {
        let (code, said) = ask(number, line);
        assert_eq!(code, 6, "{line}: {said}");
        assert!(said.contains("the daemon is not running"), "{line}: {said}");
        assert!(said.contains("agents cannot start it"), "{line}: {said}");
    }
    let other = fleet.home.user().join("other-home");
    let start = format!("SKEIN_HOME={} \"$SKEIN_BIN\" daemon start", other.display());
    let (code, said) = ask(4, &start);
    assert_eq!(code, 0, "{said}");
    assert_eq!(run_in(&fleet, &other, &["daemon", "stop"]).code, 0);

    let second = fleet.spawn("say hello", &[]);
    let neighbour = pid(&fleet.until_status(&second, "idle"));
    let daemon = fleet.daemon_pid();
    fleet.json(&["kill", &first]);
    assert!(!alive(agent));
    assert!(alive(neighbour), "another session's agent goes on");
    assert_eq!(fleet.daemon_pid(), daemon, "the daemon goes on");
}
