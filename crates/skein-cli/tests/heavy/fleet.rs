//! Many agents at once on a small machine: all answered across a crash, and nothing is left; and a fleet at
//! rest costs nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Fleet, alive, eventually, text};

/// The fields of `/proc/PID/stat` after the name, from the state on.
fn stat(pid: i32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = text.rsplit_once(") ").unwrap();
    rest.split_whitespace().map(str::to_owned).collect()
}

/// Processor time used so far, in hundredths of a second.
fn processor_time(pid: i32) -> u64 {
    let fields = stat(pid);
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Page faults of children that ended: grows with every one.
fn faults_of_children(pid: i32) -> u64 {
    stat(pid)[8].parse().unwrap()
}

/// What a process has open, but for databases: their connections are pooled, and opened when they are needed.
fn descriptors(pid: i32) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let pooled = |to: PathBuf| to.to_string_lossy().contains(".db");
    open.filter(|fd| !fs::read_link(fd.path()).is_ok_and(pooled))
        .count()
}

/// Ended processes nobody waited for, below any of these.
fn zombies(parents: &[i32]) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let Some((_, rest)) = text.rsplit_once(") ") else {
                return false;
            };
            let mut fields = rest.split_whitespace();
            let parent = |field: &str| field.parse().is_ok_and(|pid| parents.contains(&pid));
            fields.next() == Some("Z") && fields.next().is_some_and(parent)
        })
        .collect()
}

/// Files below a folder, but for those of ended runs that people may read.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return vec![];
    };
    let mut found = vec![];
    for entry in entries.flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// That many agents, each with a task of its own, spawned by one command.
fn spawn_many(fleet: &Fleet, count: usize) -> Vec<String> {
    let file = fleet.home.user().join("tasks");
    let tasks: Vec<String> = (1..=count).map(|n| format!("say task {n}\n")).collect();
    fs::write(&file, tasks.concat()).unwrap();
    let from = file.display().to_string();
    let args = [
        "spawn",
        "--project",
        "api",
        "--agent",
        "scripted",
        "--from",
        &from,
    ];
    let list = fleet.json(&args);
    let sessions = list["data"].as_array().unwrap();
    assert_eq!(sessions.len(), count);
    sessions.iter().map(|s| text(&s["id"])).collect()
}

fn list(fleet: &Fleet) -> BTreeMap<String, Value> {
    let list = fleet.json(&["ls", "--all", "--limit", "1000"]);
    let sessions = list["data"].as_array().unwrap().iter();
    sessions.map(|s| (text(&s["id"]), s.clone())).collect()
}

fn until_all(fleet: &Fleet, sessions: &[String], status: &str) {
    let mut last = BTreeMap::new();
    let mut still = 0;
    // Each step forward is given the whole time again: many take long together on a small machine.
    while still != sessions.len() {
        still = eventually(
            || {
                last = list(fleet);
                let now = sessions
                    .iter()
                    .filter(|s| last[*s]["status"] == status)
                    .count();
                (now != still).then_some(now)
            },
            || {
                let all = list(fleet);
                let others = sessions.iter().filter(|s| all[*s]["status"] != status);
                let told: Vec<String> = others
                    .map(|s| format!("{s} {} {}", all[s]["status"], all[s]["status_reason"]))
                    .collect();
                format!("not {status}: {told:?}")
            },
        );
    }
}

/// Sends once, however often the daemon is away meanwhile; gives the receipt.
fn send_once(fleet: &Fleet, session: &str, message: &str) -> String {
    let key = format!("to-{session}");
    eventually(
        || {
            let ran = fleet.run(&[
                "--json",
                "send",
                session,
                message,
                "--no-wait",
                "--key",
                &key,
            ]);
            (ran.code == 0).then(|| text(&ran.document()["id"]))
        },
        || format!("{session} cannot be sent to"),
    )
}

#[test]
fn heavy_l6_a_hundred_agents_answer_across_a_crash() {
    const COUNT: usize = 100;
    let fleet = Fleet::new();
    let at_start = descriptors(fleet.daemon_pid());
    let sessions = spawn_many(&fleet, COUNT);
    until_all(&fleet, &sessions, "idle");

    let sent = AtomicUsize::new(0);
    let receipts: BTreeMap<String, String> = thread::scope(|scope| {
        let (fleet, sent) = (&fleet, &sent);
        let workers: Vec<_> = sessions
            .chunks(COUNT / 4)
            .map(|part| {
                scope.spawn(move || {
                    let send = |session: &String| {
                        let receipt =
                            send_once(fleet, session, &format!("say answer of {session}"));
                        sent.fetch_add(1, Ordering::SeqCst);
                        (session.clone(), receipt)
                    };
                    part.iter().map(send).collect::<Vec<_>>()
                })
            })
            .collect();
        eventually(
            || (sent.load(Ordering::SeqCst) > COUNT / 2).then_some(()),
            || format!("{} were sent", sent.load(Ordering::SeqCst)),
        );
        fleet.home.kill();
        workers
            .into_iter()
            .flat_map(|w| w.join().unwrap())
            .collect()
    });
    assert_eq!(receipts.len(), COUNT);

    for (n, session) in sessions.iter().enumerate() {
        fleet.until_receipt(&receipts[session], &["submitted", "turn_started"]);
        let prompts = fleet.prompts(session);
        let wanted = [
            format!("say task {}", n + 1),
            format!("say answer of {session}"),
        ];
        assert_eq!(prompts, wanted, "{session}: exactly once, in order");
    }
    // Holders wait for what their agents leave, too.
    let daemon = fleet.daemon_pid();
    let mut holders: Vec<i32> = in_home(&fleet, daemon).into_iter().map(|h| h.0).collect();
    assert!(holders.len() >= COUNT, "{holders:?}");
    holders.push(daemon);
    no_zombies(&holders);
    for session in &sessions {
        fleet.post(session, "finish");
    }
    until_all(&fleet, &sessions, "done");
    nothing_is_left(&fleet, at_start);
}

/// Processes that have something of the home open or work in it, holders above all.
fn in_home(fleet: &Fleet, but: i32) -> Vec<(i32, String)> {
    let root = fleet.home.root().canonicalize().unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    let inside = |path: PathBuf| fs::read_link(path).is_ok_and(|to| to.starts_with(&root));
    let mut found = vec![];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let descriptors = fs::read_dir(entry.path().join("fd"));
        let mut open = descriptors.into_iter().flatten().flatten();
        let here = inside(entry.path().join("cwd")) || open.any(|fd| inside(fd.path()));
        if here && pid != own && pid != but {
            let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, line.replace('\0', " ")));
        }
    }
    found
}

fn no_zombies(parents: &[i32]) {
    eventually(
        || zombies(parents).is_empty().then_some(()),
        || format!("zombies {:?}", zombies(parents)),
    );
}

fn nothing_is_left(fleet: &Fleet, descriptors_at_start: usize) {
    fleet.until_no_agents();
    let daemon = fleet.daemon_pid();
    eventually(
        || in_home(fleet, daemon).is_empty().then_some(()),
        || format!("{:?}", in_home(fleet, daemon)),
    );
    no_zombies(&[daemon]);
    // A few connections that are kept open; one in twenty-five agents that left something would be seen.
    let most = descriptors_at_start + 4;
    eventually(
        || (descriptors(daemon) <= most).then_some(()),
        || {
            format!(
                "{} descriptors, {descriptors_at_start} at the start",
                descriptors(daemon)
            )
        },
    );
    let report = fleet.json(&["gc", "--older-than", "0s"]);
    let root = fleet.home.root();
    let left = |name: &str| files(&root.join(name));
    assert_eq!(left("runs"), Vec::<PathBuf>::new(), "{report}");
    assert_eq!(left("worktrees"), Vec::<PathBuf>::new(), "{report}");
    assert_eq!(fleet.git(&["worktree", "list"]).lines().count(), 1);
    let locks: Vec<PathBuf> = files(root)
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "lock") && !p.ends_with("daemon.lock"))
        .collect();
    assert_eq!(locks, Vec::<PathBuf>::new());
    assert_eq!(
        files(&fleet.repo.join(".git/worktrees")),
        Vec::<PathBuf>::new()
    );
    assert_eq!(fleet.json(&["events", "verify"])["ok"], true);
}

#[test]
fn heavy_l12_two_hundred_idle_agents_cost_nothing() {
    const COUNT: usize = 200;
    const WINDOW: Duration = Duration::from_secs(30);
    /// One in a hundred, of one processor.
    const MOST: u64 = 30;
    let fleet = Fleet::new();
    let sessions = spawn_many(&fleet, COUNT);
    until_all(&fleet, &sessions, "idle");

    let daemon = fleet.daemon_pid();
    // What the spawns set going may still be ending in the first windows.
    let mut used = vec![];
    while used.len() < 3 && used.last().is_none_or(|used| *used >= MOST) {
        let before = processor_time(daemon);
        thread::sleep(WINDOW);
        used.push(processor_time(daemon) - before);
    }
    assert!(used.last().is_some_and(|used| *used < MOST), "{used:?}");

    let before = faults_of_children(daemon);
    for _ in 0..3 {
        assert_eq!(list(&fleet).len(), COUNT);
    }
    assert_eq!(
        faults_of_children(daemon),
        before,
        "a list starts no process"
    );

    let agents = fleet.agents();
    assert!(agents.len() >= COUNT, "{agents:?}");
    fleet.home.kill();
    fleet.json(&["daemon", "start"]);
    until_all(&fleet, &sessions, "idle");
    for (id, session) in list(&fleet) {
        assert_eq!(session["runtime"]["state"], "alive", "{id}");
        assert_eq!(session["run"], 1, "{id}");
    }
    let still: Vec<&i32> = agents.keys().filter(|pid| !alive(**pid)).collect();
    assert!(still.is_empty(), "ended with the daemon: {still:?}");
    for session in [&sessions[0], &sessions[COUNT / 2], &sessions[COUNT - 1]] {
        fleet.json(&["send", session, "say still here"]);
    }
}
