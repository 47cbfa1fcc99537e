//! tmux is missing, broken or hangs: Skein says so, and agents go on.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::Daemon;
use crate::harness::{Fleet, text};
use crate::tmux::screen::{Tmux, shown};

/// A folder with the programs that the daemon needs, and with `tmux` if a script for it is given.
fn programs(fleet: &Fleet, tmux: Option<&str>) -> PathBuf {
    let folder = fleet.home.user().join("programs");
    fs::create_dir(&folder).unwrap();
    for name in ["git", "sh"] {
        symlink(PathBuf::from("/usr/bin").join(name), folder.join(name)).unwrap();
    }
    if let Some(script) = tmux {
        let path = folder.join("tmux");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn daemon_with(fleet: &Fleet, path: &PathBuf) -> Daemon {
    fleet.json(&["daemon", "stop"]);
    let mut command = fleet.command(&["daemon", "run", "--announce"]);
    command.env("PATH", path);
    Daemon::announced(command).unwrap()
}

const SPAWN: [&str; 8] = [
    "spawn",
    "--project",
    "api",
    "--agent",
    "scripted",
    "--runtime",
    "tmux",
    "say hello",
];

#[test]
fn l13_without_tmux_the_runtime_is_refused_before_anything_is_made() {
    let fleet = Fleet::new();
    let daemon = daemon_with(&fleet, &programs(&fleet, None));
    let refused = fleet.run(&[&["--json"], &SPAWN[..]].concat());
    assert_eq!(refused.code, 5, "{refused:?}");
    let error = refused.error();
    assert!(text(&error["message"]).contains("`tmux`"), "{error}");
    let hints = error["hints"].to_string();
    assert!(hints.contains("install tmux"), "{error}");
    assert!(hints.contains("--runtime pty"), "{error}");
    assert_eq!(fleet.json(&["ls", "--all"])["data"], serde_json::json!([]));
    assert_eq!(fleet.git(&["branch", "--list", "skein/*"]), "");
    let session = fleet.spawn("say hello", &["--runtime", "pty"]);
    assert_eq!(session, "api-1", "no id was used up");
    daemon.kill();
}

#[test]
fn a_window_that_cannot_be_opened_is_told_of_and_the_agent_runs() {
    let fleet = Fleet::new();
    let broken = "#!/bin/sh\n[ \"$1\" = -V ] && exit 0\necho 'no windows today' >&2\nexit 1\n";
    let daemon = daemon_with(&fleet, &programs(&fleet, Some(broken)));
    let ran = fleet.run(&SPAWN);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("no windows today"), "{ran:?}");
    assert!(ran.stderr.contains("skein attach api-1"), "{ran:?}");
    let session = fleet.until_status("api-1", "idle");
    let problem = text(&session["runtime"]["window"]["problem"]);
    assert!(problem.contains("no windows today"), "{session}");
    for told in [fleet.run(&["show", "api-1"]), fleet.run(&["why", "api-1"])] {
        assert!(told.stdout.contains("no windows today"), "{told:?}");
    }
    fleet.json(&["send", "api-1", "say again", "--wait"]);
    assert_eq!(fleet.prompts("api-1"), ["say hello", "say again"]);
    daemon.kill();
    // With the next daemon, which finds tmux, all is well.
    fleet.until("api-1", |s| s["runtime"]["window"]["problem"].is_null());
    Tmux::of(&fleet).until_windows(&["api-1:0 api-1"]);
    assert_eq!(fleet.show("api-1")["run"], 1);
}

#[test]
fn l3_a_tmux_server_that_hangs_delays_a_spawn_and_stops_nothing() {
    let fleet = Fleet::new();
    let session = shown(&fleet, "say hello", &[]);
    let tmux = Tmux::of(&fleet);
    let server = Pid::from_raw(tmux.server()).unwrap();
    kill_process(server, Signal::STOP).unwrap();
    let other = shown(&fleet, "say other", &[]);
    let problem = text(&fleet.show(&other)["runtime"]["window"]["problem"]);
    assert!(problem.contains("no answer"), "{problem}");
    for id in [&session, &other] {
        fleet.json(&["send", id, "say again", "--wait"]);
        fleet.until_status(id, "idle");
    }
    kill_process(server, Signal::CONT).unwrap();
    fleet.json(&["restore", &other]);
    tmux.until_windows(&["api-1:0 api-1", "api-2:0 api-2"]);
    assert!(fleet.show(&other)["runtime"]["window"]["problem"].is_null());
}
