//! Agents outlive the daemon, and the daemon finds them again; what did not outlive it is brought back.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::delivery::agents::Frozen;
use crate::delivery::post::{assert_l6, post};
use crate::harness::Ran;
use crate::harness::{Fleet, alive, end, eventually, text};

pub(crate) fn pid(session: &Value) -> i32 {
    i32::try_from(session["runtime"]["pid"].as_i64().unwrap()).unwrap()
}

pub(crate) fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit_once(") ").unwrap().1;
    rest.split(' ').nth(1).unwrap().parse().unwrap()
}

fn until_gone(pid: i32) {
    eventually(|| (!alive(pid)).then_some(()), || format!("{pid} lives"));
}

/// What must be the same before and after.
fn picture(fleet: &Fleet, session: &str) -> (i32, Value, Vec<String>) {
    let screen = fleet.json(&["screen", session]);
    (
        pid(&fleet.show(session)),
        screen["rows"].clone(),
        fleet.prompts(session),
    )
}

/// Agents that go on, and agents to which something happens while nobody looks.
fn readopted(stop: impl Fn(&Fleet)) {
    let fleet = Fleet::new();
    let calm = [
        (fleet.spawn("say hello", &[]), "idle"),
        (fleet.spawn("wait 600", &[]), "working"),
        (fleet.spawn("ask now? | yes | no", &[]), "needs_input"),
    ];
    // They come to it once the daemon is away.
    let mut frozen = vec![];
    let mut held = |task: &str, status: &'static str, why: &'static str| {
        let id = fleet.spawn(&format!("wait 8; {task}"), &[]);
        let alive = fleet.until(&id, |s| s["runtime"]["pid"].is_number());
        frozen.push(Frozen::new(pid(&alive)));
        (id, status, why, pid(&alive))
    };
    let moved = [
        held("crash 3", "failed", "3"),
        held("finish", "done", "0"),
        held("ask later? | yes | no", "needs_input", "later?"),
    ];
    for (id, status) in &calm {
        fleet.until_status(id, status);
    }
    let before: Vec<_> = calm.iter().map(|(id, _)| picture(&fleet, id)).collect();
    stop(&fleet);
    drop(frozen);
    for n in [0, 1] {
        until_gone(moved[n].3);
    }
    for ((id, status), before) in calm.iter().zip(&before) {
        fleet.until_status(id, status);
        assert_eq!(&picture(&fleet, id), before, "{id}");
        assert_eq!(fleet.show(id)["run"], 1);
    }
    for (id, status, why, _) in &moved {
        let found = fleet.until_status(id, status);
        assert!(text(&found["status_reason"]).contains(why), "{found}");
    }
    for (id, status) in &calm {
        if *status == "idle" {
            let sent = post(&fleet, id, "say again");
            assert_l6(&fleet, id, "say hello", &[sent]);
        }
    }
    fleet.json(&["answer", &moved[2].0, "yes"]);
    fleet.until_status(&moved[2].0, "idle");
}

#[test]
fn a_killed_daemon_finds_every_agent_again_and_what_happened_meanwhile() {
    readopted(Fleet::kill_daemon);
}

#[test]
fn a_stopped_daemon_stops_no_agent() {
    readopted(|fleet| drop(fleet.json(&["daemon", "stop"])));
}

#[test]
fn l3_a_run_whose_holder_was_killed_is_lost_and_brought_back() {
    let fleet = Fleet::new();
    let task = "spawn-child 600; say hello";
    let session = fleet.spawn(task, &[]);
    let other = fleet.spawn("say bystander", &[]);
    let idle = fleet.until_status(&session, "idle");
    fleet.until_status(&other, "idle");
    let bystander = pid(&fleet.show(&other));
    let agent = pid(&idle);
    end(parent(agent));
    let lost = fleet.until_status(&session, "lost");
    assert!(
        text(&lost["status_reason"]).contains("is not known"),
        "{lost}"
    );
    until_gone(agent);
    eventually(
        || {
            let left = fleet.agents();
            (!left.values().any(|line| line.contains("sleep 600"))).then_some(())
        },
        || format!("{:?}", fleet.agents()),
    );
    assert!(alive(bystander));
    let back = fleet.json(&["restore", "--all"]);
    let ids: Vec<String> = back["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| text(&s["id"]))
        .collect();
    assert_eq!(ids, [session.as_str()]);
    fleet.until_status(&session, "idle");
    assert_eq!(
        fleet.prompts(&session),
        [task],
        "the task is not given twice"
    );
    assert_eq!(fleet.show(&session)["run"], 2);
    assert_eq!(fleet.show(&other)["run"], 1);
}

/// All processes of a fleet get a signal, and the first command brings all of it back.
fn brought_back(signal: Signal, why: &str) {
    let fleet = Fleet::new();
    let sessions = [fleet.spawn("say hello", &[]), fleet.spawn("wait 600", &[])];
    let agents = [
        pid(&fleet.until_status(&sessions[0], "idle")),
        pid(&fleet.until_status(&sessions[1], "working")),
    ];
    let mut all = vec![fleet.daemon_pid()];
    all.extend(agents.map(parent));
    all.extend(agents);
    for pid in &all {
        let _ = kill_process(Pid::from_raw(*pid).unwrap(), signal);
    }
    all.into_iter().for_each(until_gone);
    let back = fleet.json(&["restore", "--all"]);
    let back = back["data"].as_array().unwrap().iter();
    let back: Vec<String> = back.map(|s| text(&s["id"])).collect();
    assert_eq!(back, sessions);
    for session in &sessions {
        let events = fleet.events(session);
        let ended = events.iter().find(|e| e["kind"] == "session.ended");
        assert_eq!(ended.unwrap()["data"]["outcome"], "lost", "{ended:?}");
        let session = fleet.show(session);
        assert_eq!(session["runtime"]["state"], "alive", "{session}");
        assert_eq!(session["run"], 2, "{session}");
    }
    let told = fleet.events(&sessions[0]);
    let told = told.iter().find(|e| e["kind"] == "session.ended").unwrap();
    assert!(text(&told["data"]["reason"]).contains(why), "{told}");
}

#[test]
fn l3_restore_all_is_the_first_command_after_a_power_failure() {
    brought_back(Signal::KILL, "is not known");
}

#[test]
fn l3_what_an_orderly_shutdown_ended_is_lost_and_brought_back() {
    brought_back(Signal::TERM, "received a signal to end");
}

#[test]
fn l3_agents_whose_holders_alone_were_told_to_end_are_brought_back() {
    let fleet = Fleet::new();
    let sessions = [fleet.spawn("say hello", &[]), fleet.spawn("say hello", &[])];
    for session in &sessions {
        let agent = pid(&fleet.until_status(session, "idle"));
        kill_process(Pid::from_raw(parent(agent)).unwrap(), Signal::TERM).unwrap();
    }
    fleet.json(&["restore", "--all"]);
    for session in &sessions {
        // Whoever had not noticed yet is brought back by the next one.
        eventually(
            || {
                fleet.json(&["restore", "--all"]);
                (fleet.show(session)["run"] == 2).then_some(())
            },
            || fleet.show(session).to_string(),
        );
        fleet.until_status(session, "idle");
        assert_eq!(fleet.prompts(session), ["say hello"]);
    }
}

#[test]
fn an_agent_that_was_killed_has_failed_by_that_signal() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    end(pid(&fleet.until_status(&session, "idle")));
    let failed = fleet.until_status(&session, "failed");
    let why = text(&failed["status_reason"]);
    assert!(why.contains("SIGKILL") || why.contains("signal 9"), "{why}");
}

#[test]
fn l5_a_workspace_that_somebody_removed_is_made_again() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write kept.txt kept; commit kept", &[]);
    end(pid(&fleet.until_status(&session, "idle")));
    fleet.until_status(&session, "failed");
    let folder = fleet.folder(&session);
    fs::remove_dir_all(&folder).unwrap();
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    assert_eq!(
        fs::read_to_string(folder.join("kept.txt")).unwrap(),
        "kept\n"
    );
    assert!(fleet.run(&["screen", &session]).stdout.contains("resumed"));
}

#[test]
fn what_cannot_be_resumed_is_launched_afresh_with_its_task_and_says_so() {
    let fleet = Fleet::new();
    let launches: PathBuf = fleet.home.user().join("launches");
    let script = fleet.home.user().join("plain.sh");
    fs::write(
        &script,
        format!("echo \"$*\" >> {}; exec cat\n", launches.display()),
    )
    .unwrap();
    fleet.settings(&format!(
        "[agents.plain]\ncommand = 'sh {}'\nprompt = 'argv'\n",
        script.display()
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "plain", "do it"]);
    let session = text(&spawned["id"]);
    let told = || fs::read_to_string(&launches).unwrap_or_default();
    eventually(|| (told() == "do it\n").then_some(()), told);
    fleet.json(&["kill", &session]);
    let ran = fleet.run(&["--json", "restore", &session]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let note = text(&ran.document()["note"]);
    eventually(|| (told() == "do it\ndo it\n").then_some(()), told);
    let launched: Vec<Value> = fleet
        .events(&session)
        .into_iter()
        .filter(|event| event["kind"] == "session.launched")
        .map(|event| event["data"]["fresh"].clone())
        .collect();
    assert_eq!(launched.len(), 2);
    assert_eq!(launched[0], Value::Null);
    assert_eq!(launched[1], note.as_str(), "the event says why");
    let told = fleet.run(&["show", &session]).stdout;
    assert!(told.contains(&note), "{told}");
}

const RESUME: &str = "resume = 'sleep 600 # {native}'";

/// An agent that writes down what is typed. In its first run it is busy with the first line for good, later
/// with each for a second.
fn typist(fleet: &Fleet, more: &str, resume: &str) -> impl Fn() -> Vec<String> + use<> {
    let typed = fleet.home.user().join("typed");
    let script = fleet.home.user().join("typist.sh");
    let lines = format!(
        "[ -e {0} ] && later=1\n\
         while echo READY && read -r line; do\n\
         echo \"$line\" >> {0}; clear; echo BUSY; sleep ${{later:-600}}; clear; done\n",
        typed.display()
    );
    fs::write(&script, lines).unwrap();
    fleet.settings(&format!(
        "{more}\n[agents.typist]\ncommand = 'sh {0} {{native}}'\nprompt = 'typed'\n{resume}\n\
         [[agents.typist.rules.rule]]\nname = 'busy'\nsays = 'active'\nall = [{{ regex = '^BUSY' }}]\n\
         [[agents.typist.rules.rule]]\nname = 'ready'\nsays = 'ready'\nall = [{{ regex = '^READY' }}]\n",
        script.display()
    ));
    move || {
        let text = fs::read_to_string(&typed).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn l6_a_restore_that_starts_fresh_gives_the_task() {
    let fleet = Fleet::new();
    let typed = typist(&fleet, "setup = ['exit 7']", RESUME);
    let spawn = ["spawn", "--project", "api", "--agent", "typist", "do it"];
    let ran = fleet.run(&spawn);
    assert_eq!(ran.code, 1, "{ran:?}");
    let typed_later = typist(&fleet, "", RESUME);
    let ran = fleet.run(&["--json", "restore", "api-1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let note = text(&ran.document()["note"]);
    assert!(note.contains("started fresh with its task"), "{note}");
    eventually(
        || (typed_later() == ["do it"]).then_some(()),
        || format!("{:?} {}", typed(), fleet.run(&["screen", "api-1"]).stdout),
    );
}

#[test]
fn l6_what_waited_comes_after_the_task_of_a_restore_that_starts_fresh() {
    let fleet = Fleet::new();
    let typed = typist(&fleet, "", "");
    let spawn = ["spawn", "--project", "api", "--agent", "typist", "do it"];
    fleet.json(&spawn);
    fleet.until_status("api-1", "working");
    fleet.post("api-1", "and this");
    fleet.json(&["kill", "api-1"]);
    assert_eq!(typed(), ["do it"]);
    fleet.json(&["restore", "api-1"]);
    eventually(
        || (typed() == ["do it", "do it", "and this"]).then_some(()),
        || format!("{:?} {}", typed(), fleet.run(&["screen", "api-1"]).stdout),
    );
}

/// Puts a program of this name into a PATH, which is given.
fn program(fleet: &Fleet, name: &str, lines: &str) -> String {
    let bin = fleet.home.user().join("bin");
    fs::create_dir(&bin).unwrap();
    let program = bin.join(name);
    fs::write(&program, format!("#!/bin/sh\n{lines}")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", bin.display())
}

/// A program that is taken for aider: it has a prompt, and a log of what its model used, which others write.
const AIDER: &str = "printf '> '\nwhile read -r line; do printf '\\nI see.\\n\\n> '; done\n";

/// What aider's log says of one answer: a token in, ten out.
fn use_tokens(fleet: &Fleet, session: &str) {
    let log = fleet.private(session).join("aider-1.jsonl");
    let mut file = File::options().append(true).create(true).open(log).unwrap();
    let used = r#"{"prompt_tokens": 1, "completion_tokens": 10}"#;
    writeln!(file, r#"{{"event": "message_send", "properties": {used}}}"#).unwrap();
}

#[test]
fn l10_tokens_are_counted_once_across_a_restart_of_the_daemon() {
    let fleet = Fleet::new();
    let spawn = ["--json", "spawn", "--project", "api", "--agent", "aider"];
    let ran = fleet
        .command(&[&spawn[..], &["go"]].concat())
        .env("PATH", program(&fleet, "aider", AIDER))
        .output();
    let session = text(&Ran::from(ran.unwrap()).document()["id"]);
    fleet.until_status(&session, "idle");
    let counted = |times: u64| {
        let used = |s: &Value, name: &str| s["usage"][name].as_u64().unwrap();
        let shown = fleet.until(&session, |s| used(s, "input_tokens") >= times);
        let seen = (used(&shown, "input_tokens"), used(&shown, "output_tokens"));
        assert_eq!(seen, (times, 10 * times), "{shown}");
    };
    use_tokens(&fleet, &session);
    use_tokens(&fleet, &session);
    counted(2);
    fleet.kill_daemon();
    // Also what is told while nobody listens.
    use_tokens(&fleet, &session);
    counted(3);
    fleet.kill_daemon();
    use_tokens(&fleet, &session);
    counted(4);
    let told = fleet.events(&session);
    let told = told.iter().filter(|e| e["kind"] == "session.usage");
    let sum: u64 = told
        .map(|e| e["data"]["input_tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(sum, 4, "the events tell the same");
}

/// A driver whose program is in a process group of its own, as they all are, has children that left its session, and
/// hears nothing; then `kill` gets the driver's process.
fn nothing_is_left(kill: impl Fn(i32)) {
    let fleet = Fleet::new();
    let path = program(
        &fleet,
        "opencode",
        "trap '' TERM HUP INT\nsetsid sh -c 'trap \"\" TERM HUP INT; sleep 600; sleep 601' &\n\
         sh -c 'sleep 602; sleep 603' &\ncat > /dev/null\nsleep 604\n",
    );
    let spawn = ["spawn", "--project", "api", "--agent", "opencode"];
    let how = ["--via", "acp", "go"];
    let mut asking = fleet
        .command(&[&spawn[..], &how].concat())
        .env("PATH", path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let sleeps = || {
        let mut all = fleet.processes();
        all.retain(|_, line| line.contains("sleep 60"));
        all
    };
    eventually(
        || (sleeps().len() >= 4).then_some(()),
        || format!("{:?}", fleet.processes()),
    );
    // The driver may be at work before anybody has looked at it.
    let seen = fleet.until("api-1", |s| s["runtime"]["pid"].is_i64());
    kill(pid(&seen));
    eventually(
        || sleeps().is_empty().then_some(()),
        || format!("{:?}", sleeps()),
    );
    assert!(!asking.wait().unwrap().success());
}

#[test]
fn l4_a_driver_that_was_killed_leaves_nothing_running() {
    nothing_is_left(end);
}

#[test]
fn l4_a_driver_that_was_killed_with_its_holder_leaves_nothing_running() {
    nothing_is_left(|driver| end(parent(driver)));
    nothing_is_left(|driver| {
        let holder = parent(driver);
        end(driver);
        end(holder);
    });
}
