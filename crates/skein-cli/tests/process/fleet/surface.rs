//! What users meet around the fleet: daemons that die while they wait, folders of agents, files of tasks,
//! programs that only a shell can read.

use std::fs;
use std::process::Stdio;

use crate::harness::{Fleet, end, eventually, text};

#[test]
fn l4_who_waits_for_a_spawn_outlives_the_daemon_and_starts_the_next() {
    let fleet = Fleet::new();
    let gate = fleet.home.user().join("gate");
    fleet.settings(&format!(
        "setup = [\"until test -e {}; do sleep 0.05; done\"]\n",
        gate.display()
    ));
    let spawn = ["spawn", "--agent", "scripted", "write a.txt one", "say two"];
    let child = fleet
        .command(&spawn)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually(
        || {
            let list = fleet.json(&["ls"]);
            let sessions = list["data"].as_array()?;
            let in_setup = sessions.iter().filter(|s| s["saga"]["step"] == "setup");
            (in_setup.count() == 2).then_some(())
        },
        || fleet.json(&["ls"]).to_string(),
    );
    fleet.kill_daemon();
    fs::write(&gate, "").unwrap();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    assert!(said.contains("spawned 2 sessions"), "{said}");
    for session in ["api-1", "api-2"] {
        assert!(said.contains(session), "{said}");
        fleet.until_status(session, "idle");
    }
}

#[test]
fn an_agent_in_its_worktree_is_in_its_project() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    fleet.until_status(&session, "idle");
    let folder = fleet.folder(&session);
    let inside = |args: &[&str]| fleet.command(args).current_dir(&folder).output().unwrap();
    let made = inside(&["--json", "spawn", "--agent", "none", "a part of it"]);
    assert!(made.status.success(), "{made:?}");
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(made["project"], fleet.show(&session)["project"]);
    for wrong in [&["init"][..], &["project", "add", "--name", "other"]] {
        let ran = inside(wrong);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains("workspace of a session"), "{said}");
    }
}

#[test]
fn a_command_that_only_a_shell_can_read_is_an_agent_like_any_other() {
    let fleet = Fleet::new();
    fleet.settings("[agents.odd]\ncommand = \"MODE=x sh -c 'echo odd; exec sleep 600'\"\n");
    let made = fleet.json(&["spawn", "--agent", "odd", "whatever"]);
    let session = text(&made["id"]);
    eventually(
        || {
            let seen = fleet.run(&["screen", &session]).stdout;
            seen.contains("odd").then_some(())
        },
        || fleet.run(&["why", &session]).stdout,
    );
    fleet.json(&["kill", &session]);
}

#[test]
fn l13_a_file_of_tasks_is_looked_at_as_a_whole_before_the_first_is_spawned() {
    let fleet = Fleet::new();
    let file = fleet.home.user().join("tasks");
    fs::write(&file, "\u{feff}# tasks\nsay one\n\nsay \u{1b}[2J\n").unwrap();
    let file = file.to_str().unwrap();
    let ran = fleet.run(&["spawn", "--agent", "scripted", "--from", file]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("line 4 of"), "{ran:?}");
    assert_eq!(fleet.json(&["ls", "--all"])["data"], serde_json::json!([]));
    fs::write(file, "\u{feff}# tasks\nsay one\n").unwrap();
    let made = fleet.json(&["spawn", "--agent", "scripted", "--from", file]);
    assert_eq!(made["data"].as_array().unwrap().len(), 1, "{made}");
}

#[test]
fn earlier_runs_and_receipts_can_be_looked_up() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say first light", &[]);
    fleet.until_status(&session, "idle");
    let receipt = fleet.post(&session, "say second");
    fleet.until_receipt(&receipt, &["submitted", "turn_started"]);
    let shown = fleet.json(&["show", &receipt]);
    assert_eq!(shown["session"], session.as_str(), "{shown}");
    let told = fleet.run(&["show", &receipt]).stdout;
    assert!(
        told.contains("accepted") && told.contains(&receipt),
        "{told}"
    );
    fleet.json(&["kill", &session]);
    fleet.json(&["restore", &session]);
    let first = fleet.run(&["logs", "--run", "1", &session]).stdout;
    assert!(first.contains("first light"), "{first}");
    let none = fleet.run(&["logs", "--run", "9", &session]);
    assert_eq!(none.code, 3, "{none:?}");
}

#[test]
fn a_shown_session_says_whether_its_workspace_is_dirty() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    fleet.until_status(&session, "idle");
    assert_eq!(fleet.show(&session)["workspace"]["dirty"], false);
    fs::write(fleet.folder(&session).join("new"), "x").unwrap();
    assert_eq!(fleet.show(&session)["workspace"]["dirty"], true);
    let told = fleet.run(&["show", &session]).stdout;
    assert!(told.contains("uncommitted changes"), "{told}");
    // Lists do not look.
    let list = fleet.json(&["ls"]);
    assert!(list["data"][0]["workspace"]["dirty"].is_null(), "{list}");
}

#[test]
fn init_says_what_a_folder_is_good_for() {
    let fleet = Fleet::new();
    let bare = fleet.home.user().join("bare");
    fleet.git(&["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    let ran = fleet
        .command(&["init"])
        .current_dir(&bare)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("bare repository"), "{said}");
}

#[test]
fn restore_all_brings_parents_back_before_their_children() {
    let fleet = Fleet::new();
    let parent = fleet.spawn("say parent", &[]);
    fleet.until_status(&parent, "idle");
    let child = fleet.spawn("say child", &["--parent", &parent]);
    fleet.until_status(&child, "idle");
    // As a power failure would: the holders first, so that nobody sees how their agents end.
    let agents = fleet.agents();
    fleet.kill_daemon();
    agents
        .keys()
        .filter_map(|agent| holder(*agent))
        .for_each(end);
    agents.into_keys().for_each(end);
    fleet.until_no_agents();
    let restored = fleet.json(&["restore", "--all"]);
    let ids: Vec<String> = restored["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| text(&s["id"]))
        .collect();
    assert_eq!(ids, [parent.clone(), child.clone()], "{restored}");
    // What cannot be restored is named, and what can is.
    fleet.json(&["kill", &child]);
    let ran = fleet.run(&["restore", &child, "api-99", "api-98"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("restored 1 session"), "{ran:?}");
    assert!(
        ran.stderr.contains("api-98:") && ran.stderr.contains("api-99:"),
        "{ran:?}"
    );
}

/// The process that holds an agent: its parent.
fn holder(agent: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{agent}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("PPid:"))?;
    line.trim().parse().ok().filter(|pid| *pid > 1)
}

#[test]
fn a_command_right_after_the_daemons_death_does_not_meet_its_ghost() {
    let fleet = Fleet::new();
    for _ in 0..40 {
        // Its socket takes connections until the kernel has cleared it away.
        end(fleet.daemon_pid());
        let ran = fleet.run(&["ls"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}
