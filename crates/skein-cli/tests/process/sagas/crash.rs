//! L4: the daemon is killed before and after every step of every saga; then nothing half-done is left.
//!
//! The points come from the saga machine: each test runs its story once and logs the points that the daemon
//! reaches, which must be those of the kind's steps ([`SagaKind::steps`]), and then once for each of them, in a home of its
//! own, with a daemon that ends itself there. Any later command starts another daemon, which finds the rest. A
//! new kind of saga has no story in [`story`] and does not compile.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use serde_json::Value;
use skein_domain::{SagaKind, SagaStep};

use crate::harness::Daemon;
use crate::harness::{Fleet, alive, eventually, text};
use crate::sagas::audit::{clean, rows, settled};
use crate::sagas::undo::lock;

/// Homes that are at work at once.
const AT_ONCE: usize = 3;

/// What happens, and how it must have ended whatever happened meanwhile.
struct Story {
    /// What must be there before; done by a daemon that does not crash.
    before: fn(&Fleet),
    /// What the daemon is asked while it crashes; commands may fail.
    act: fn(&Fleet),
    /// How it must have ended.
    after: fn(&Fleet),
}

/// Tells a story with a daemon that has this variable; gives the home, and whether the daemon crashed.
fn tell(story: &Story, variable: &str, value: &str) -> (Fleet, bool) {
    let fleet = Fleet::new();
    (story.before)(&fleet);
    fleet.home.stop();
    let mut daemon = fleet.home.command(&["daemon", "run", "--announce"]);
    daemon.env(variable, value);
    let daemon = Daemon::announced(daemon).unwrap();
    let pid = daemon.pid();
    thread::scope(|scope| {
        let act = scope.spawn(|| (story.act)(&fleet));
        eventually(
            || (act.is_finished() || !alive(pid)).then_some(()),
            || format!("{value}: neither ended nor crashed"),
        );
        // Whoever waits for the daemon waits for another one now.
        fleet.run(&["ls"]);
    });
    // A point may come after the answer.
    let is_awaited = variable == "SKEIN_TEST_CRASH_AT" && value.ends_with(":1");
    if is_awaited {
        eventually(
            || (!alive(pid)).then_some(()),
            || format!("{value} is never reached"),
        );
    }
    let crashed = !alive(pid);
    if crashed {
        assert_eq!(daemon.wait(), None, "{value}");
    }
    (fleet, crashed)
}

/// The points of a story, each with how often it was reached.
fn points(story: &Story) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("points");
    let (fleet, crashed) = tell(story, "SKEIN_TEST_CRASH_LOG", log.to_str().unwrap());
    assert!(!crashed);
    check(story, &fleet);
    let mut times = HashMap::<String, u32>::new();
    let log = fs::read_to_string(log).unwrap();
    log.lines()
        .map(|point| {
            let times = times.entry(point.to_owned()).or_default();
            *times += 1;
            format!("{point}:{times}")
        })
        .collect()
}

fn check(story: &Story, fleet: &Fleet) {
    settled(fleet);
    (story.after)(fleet);
    clean(fleet);
}

/// The points of a saga that does all its steps.
fn done(kind: SagaKind) -> Vec<String> {
    let of_step = |step: &SagaStep| {
        let names = ["begin", "done", "recorded"];
        names.map(|name| format!("{}.{}.{name}", kind.as_str(), step.as_str()))
    };
    kind.steps().iter().flat_map(of_step).collect()
}

/// The points of a saga that fails at a step: what it does up to there, and the way back.
fn undone(kind: SagaKind, failing: SagaStep) -> Vec<String> {
    let steps = kind.steps();
    let at = steps.iter().position(|s| *s == failing).unwrap();
    let back = |step: &SagaStep| {
        let names = ["undo", "undone", "undo_recorded"];
        names.map(|name| format!("{}.{}.{name}", kind.as_str(), step.as_str()))
    };
    let forth = done(kind).into_iter().take(3 * (at + 1));
    forth
        .chain(steps[..=at].iter().rev().flat_map(back))
        .collect()
}

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Tells the story once for every point that it reaches, with a crash there. These must be among them.
fn crash_everywhere(story: &Story, expected: &[String]) {
    let points = points(story);
    for name in expected {
        assert!(
            points.iter().any(|point| point.starts_with(name)),
            "{name} is not among {points:?}"
        );
    }
    let queue = Mutex::new(VecDeque::from(points));
    let next = || queue.lock().unwrap().pop_front();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(point) = next() {
                    crash_at(story, &point);
                }
            });
        }
    });
}

fn crash_at(story: &Story, point: &str) {
    // Names the point if something below panics.
    let told = Told(point);
    let (fleet, _) = tell(story, "SKEIN_TEST_CRASH_AT", point);
    check(story, &fleet);
    drop(told);
}

struct Told<'a>(&'a str);

impl Drop for Told<'_> {
    #[expect(clippy::print_stderr, reason = "the test's own report")]
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("with a crash at {}", self.0);
        }
    }
}

const TASK: &str = "write a.txt one";

fn only_session(fleet: &Fleet) -> Value {
    let all = settled(fleet);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

/// The agent lives and was given its task once.
fn is_at_work(fleet: &Fleet) {
    let session = text(&only_session(fleet)["id"]);
    // Idle is it also before it has taken what was typed.
    eventually(
        || (!fleet.prompts(&session).is_empty()).then_some(()),
        || fleet.run(&["why", &session]).stdout,
    );
    let idle = fleet.until_status(&session, "idle");
    assert_eq!(idle["runtime"]["state"], "alive", "{idle}");
    assert_eq!(fleet.prompts(&session), [TASK]);
    let written = fs::read_to_string(fleet.folder(&session).join("a.txt")).unwrap();
    assert_eq!(written, "one\n");
}

/// Waits for the session to be as wanted, whatever becomes of the daemon meanwhile.
fn until(fleet: &Fleet, wanted: impl Fn(&Value) -> bool) {
    let look = || fleet.run(&["--json", "show", "api-1"]);
    eventually(
        || {
            let ran = look();
            (ran.code == 0 && wanted(&ran.document())).then_some(())
        },
        || format!("{:?}", look()),
    );
}

fn kept(fleet: &Fleet, session: &Value) -> String {
    let backups = session["workspace"]["backups"].as_array().unwrap();
    let last = text(&backups.last().unwrap()["ref"]);
    fleet.git(&["show", &format!("{last}:a.txt")])
}

fn spawn(fleet: &Fleet) {
    fleet.spawn(TASK, &[]);
    fleet.until_status("api-1", "idle");
}

fn try_spawn(fleet: &Fleet, args: &[&str]) {
    let spawn = ["spawn", "--project", "api", TASK];
    fleet.run(&[&spawn, args].concat());
}

fn is_killed(fleet: &Fleet) {
    let session = only_session(fleet);
    assert_eq!(session["status"], "killed", "{session}");
    assert_eq!(kept(fleet, &session), "one");
    assert_eq!(fleet.prompts("api-1"), [TASK]);
}

fn is_undone(fleet: &Fleet, status: &str) {
    let session = only_session(fleet);
    assert_eq!(session["status"], status, "{session}");
    assert_eq!(session["workspace"]["state"], "gone", "{session}");
    assert!(!fleet.folder("api-1").exists());
    assert_eq!(fleet.git(&["branch", "--list", "skein/*"]), "");
}

/// A session without an agent, owned by the machine's user.
fn plain(fleet: &Fleet) {
    fleet.json(&["spawn", "--project", "api", "--agent", "none", TASK]);
}

/// How often the events of a session tell of this.
fn times(fleet: &Fleet, kind: &str) -> usize {
    let kinds = fleet.kinds("api-1");
    kinds.iter().filter(|k| *k == kind).count()
}

/// What a saga of this kind is asked for, and how it must have ended whatever happened meanwhile: a saga that the
/// caller does not wait for is completed, one that it waits for is completed or undone.
fn story(kind: SagaKind) -> Story {
    match kind {
        SagaKind::Spawn => Story {
            before: |_| {},
            act: |fleet| try_spawn(fleet, &["--agent", "scripted"]),
            after: is_at_work,
        },
        SagaKind::Restore => Story {
            before: |fleet| {
                spawn(fleet);
                fleet.json(&["kill", "api-1"]);
                // Its folder is gone then, so that it must be made again.
                fleet.json(&["gc", "--older-than", "0s"]);
                assert!(!fleet.folder("api-1").exists());
            },
            act: |fleet| drop(fleet.run(&["restore", "api-1"])),
            after: is_at_work,
        },
        SagaKind::Kill => Story {
            before: spawn,
            act: |fleet| drop(fleet.run(&["kill", "api-1"])),
            after: is_killed,
        },
        SagaKind::Gc => Story {
            before: |fleet| {
                spawn(fleet);
                fleet.json(&["kill", "api-1"]);
                assert!(fleet.folder("api-1").join("a.txt").exists());
            },
            act: |fleet| drop(fleet.run(&["gc", "--older-than", "0s"])),
            after: |fleet| {
                is_killed(fleet);
                assert!(!fleet.folder("api-1").exists());
            },
        },
        SagaKind::Handoff => Story {
            before: plain,
            act: |fleet| drop(fleet.run(&["handoff", "api-1", "--to", "agent:b"])),
            after: |fleet| {
                let session = only_session(fleet);
                assert_eq!(session["phase"], "idle", "{session}");
                let moved = times(fleet, "handoff.committed");
                assert_eq!(
                    times(fleet, "handoff.locked"),
                    moved + times(fleet, "handoff.reverted")
                );
                assert_eq!(session["owner"] == "agent:b", moved == 1, "{session}");
                assert_eq!(session["owner_version"], 1 + moved, "{session}");
            },
        },
        SagaKind::Broadcast => Story {
            before: plain,
            act: |fleet| {
                fleet.run(&["broadcast", "api-1", "--to", "agent:b", "--to", "agent:c"]);
            },
            after: |fleet| {
                let all = settled(fleet);
                let made = times(fleet, "broadcast.committed");
                assert_eq!(
                    times(fleet, "handoff.locked"),
                    made + times(fleet, "handoff.reverted")
                );
                assert_eq!(all.len(), 1 + 2 * made, "{all:?}");
                let source = all.iter().find(|s| s["id"] == "api-1").unwrap();
                let phase = ["idle", "awaiting_merge"][made];
                assert_eq!(source["phase"], phase, "{source}");
            },
        },
        SagaKind::Fork => Story {
            before: |fleet| {
                plain(fleet);
                let message = ["--role", "user", "--id", "m1", "--text", "hello"];
                fleet.json(&[&["transcript", "append", "api-1"], &message[..]].concat());
            },
            act: |fleet| drop(fleet.run(&["fork", "api-1"])),
            after: |fleet| {
                let all = settled(fleet);
                let began = times(fleet, "fork.began");
                assert_eq!(
                    all.len() - 1,
                    began - times(fleet, "fork.undone"),
                    "{all:?}"
                );
                for session in &all {
                    let said = fleet.json(&["transcript", "show", &text(&session["id"])]);
                    assert_eq!(said["data"][0]["id"], "m1", "{said}");
                }
            },
        },
    }
}

/// Runs the story of the kind once for each point, with a daemon that ends itself before or after a step.
fn completed(kind: SagaKind) {
    crash_everywhere(&story(kind), &done(kind));
}

#[test]
fn heavy_l4_a_spawn_survives_a_crash_at_any_point() {
    completed(SagaKind::Spawn);
}

#[test]
fn heavy_l4_a_restore_survives_a_crash_at_any_point() {
    completed(SagaKind::Restore);
}

#[test]
fn heavy_l4_a_kill_survives_a_crash_at_any_point() {
    completed(SagaKind::Kill);
}

#[test]
fn heavy_l4_a_clean_up_survives_a_crash_at_any_point() {
    completed(SagaKind::Gc);
}

#[test]
fn heavy_l4_a_handoff_survives_a_crash_at_any_point() {
    completed(SagaKind::Handoff);
}

#[test]
fn heavy_l4_a_broadcast_survives_a_crash_at_any_point() {
    completed(SagaKind::Broadcast);
}

#[test]
fn heavy_l4_a_fork_survives_a_crash_at_any_point() {
    completed(SagaKind::Fork);
}

#[test]
fn l4_every_kind_of_saga_is_crashed_at_every_step() {
    let text = include_str!("crash.rs");
    for kind in SagaKind::ALL {
        let test = format!("completed(SagaKind::{kind:?});");
        assert_eq!(text.matches(&test).count(), 1, "no test crashes {kind:?}");
    }
}

#[test]
fn heavy_l4_a_spawn_in_tmux_is_completed_after_a_crash_at_any_point() {
    let story = Story {
        act: |fleet| try_spawn(fleet, &["--agent", "scripted", "--runtime", "tmux"]),
        ..story(SagaKind::Spawn)
    };
    crash_everywhere(&story, &done(SagaKind::Spawn));
}

#[test]
fn heavy_l4_a_spawn_whose_agent_dies_is_undone_after_a_crash_at_any_point() {
    let story = Story {
        before: |_| {},
        act: |fleet| try_spawn(fleet, &["--command", "exit 3", "--prompt-via", "typed"]),
        after: |fleet| is_undone(fleet, "failed"),
    };
    crash_everywhere(&story, &undone(SagaKind::Spawn, SagaStep::Prompt));
}

#[test]
fn heavy_l4_a_spawn_whose_setup_fails_is_undone_after_a_crash_at_any_point() {
    let story = Story {
        before: |fleet| fleet.settings("setup = [\"echo half > made; exit 7\"]\n"),
        act: |fleet| try_spawn(fleet, &["--agent", "scripted"]),
        after: |fleet| is_undone(fleet, "failed"),
    };
    crash_everywhere(&story, &undone(SagaKind::Spawn, SagaStep::Setup));
}

#[test]
fn heavy_l4_a_kill_during_setup_is_completed_after_a_crash_at_any_point() {
    let story = Story {
        before: |fleet| {
            // Goes on when it is told to.
            let wait = "while [ ! -e go ]; do sleep 0.05; done";
            fleet.settings(&format!("setup = [\"{wait}\"]\n"));
        },
        act: |fleet| {
            try_spawn(fleet, &["--agent", "scripted", "--no-wait"]);
            until(fleet, |s| s["saga"]["step"] == "setup");
            thread::scope(|scope| {
                let kill = scope.spawn(|| fleet.run(&["kill", "api-1"]));
                until(fleet, |s| {
                    // Not before the kill is known: the set-up would be over first.
                    let events = ["--json", "events", "--session", "api-1"];
                    let known = || fleet.run(&events).stdout.contains("\"saga.failed\"");
                    if kill.is_finished() || known() {
                        let _ = fs::write(fleet.folder("api-1").join("go"), "");
                    }
                    s["saga"].is_null()
                });
            });
        },
        after: |fleet| is_undone(fleet, "killed"),
    };
    crash_everywhere(&story, &undone(SagaKind::Spawn, SagaStep::Setup));
}

#[test]
fn heavy_l4_a_restore_whose_setup_fails_is_undone_after_a_crash_at_any_point() {
    let story = Story {
        before: |fleet| {
            spawn(fleet);
            fleet.json(&["kill", "api-1"]);
            fleet.json(&["gc", "--older-than", "0s"]);
            fleet.settings("setup = [\"exit 7\"]\n");
        },
        act: |fleet| drop(fleet.run(&["restore", "api-1"])),
        after: is_killed,
    };
    crash_everywhere(&story, &undone(SagaKind::Restore, SagaStep::Setup));
}

#[test]
fn heavy_l4_a_restore_whose_agent_dies_is_undone_after_a_crash_at_any_point() {
    let story = Story {
        before: |fleet| {
            // It ends before it takes its task, but for the first time.
            let agent = "[ ! -e ../dead ] || exit 3; : > ../dead; exec cat";
            try_spawn(fleet, &["--command", agent, "--prompt-via", "typed"]);
            fleet.json(&["kill", "api-1"]);
        },
        act: |fleet| drop(fleet.run(&["restore", "api-1"])),
        after: |fleet| {
            let session = only_session(fleet);
            assert_eq!(session["status"], "killed", "{session}");
            assert!(fleet.agents().is_empty(), "{:?}", fleet.agents());
            let _ = fs::remove_file(fleet.folder("dead"));
        },
    };
    crash_everywhere(&story, &undone(SagaKind::Restore, SagaStep::Prompt));
}

#[test]
fn heavy_l4_what_could_not_be_undone_is_cleared_up_after_a_crash_at_any_point() {
    // A set-up that is done again puts the lock there again.
    fn cleared(fleet: &Fleet) {
        until(fleet, |_| {
            let _ = fs::remove_file(lock(fleet).0);
            rows(fleet, "saga") == 0
        });
    }
    let story = Story {
        before: |fleet| {
            let (_, block) = lock(fleet);
            fleet.settings(&format!("setup = [\"{block}; exit 7\"]\n"));
        },
        act: |fleet| {
            try_spawn(fleet, &["--agent", "scripted"]);
            cleared(fleet);
        },
        after: |fleet| {
            cleared(fleet);
            is_undone(fleet, "failed");
        },
    };
    let cleared = ["clear", "cleared", "clear_recorded"];
    crash_everywhere(
        &story,
        &cleared.map(|name| format!("spawn.workspace.{name}")),
    );
}

#[test]
fn heavy_l4_what_a_clean_up_was_at_is_taken_by_the_next_after_a_crash_at_any_point() {
    // The second one may be where the crash is.
    fn gc(fleet: &Fleet) -> Value {
        let ran = || fleet.run(&["--json", "gc", "--older-than", "0s"]);
        eventually(
            || Some(ran()).filter(|r| r.code == 0).map(|r| r.document()),
            || format!("{:?}", ran()),
        )
    }
    let story = Story {
        // A session of a ledger that was lost: its agent goes on, its folder is there.
        before: |fleet| {
            let ledger = || -> Vec<PathBuf> {
                let files = fs::read_dir(fleet.home.root()).unwrap().flatten();
                let ours = |path: &PathBuf| path.to_string_lossy().contains("/skein.db");
                files.map(|f| f.path()).filter(ours).collect()
            };
            fleet.home.stop();
            let kept: Vec<_> = ledger()
                .into_iter()
                .map(|f| (fs::read(&f).unwrap(), f))
                .collect();
            fleet.spawn("say hello", &[]);
            fleet.until_status("api-1", "idle");
            fleet.home.stop();
            ledger()
                .into_iter()
                .for_each(|f| fs::remove_file(f).unwrap());
            kept.into_iter()
                .for_each(|(bytes, f)| fs::write(f, bytes).unwrap());
        },
        act: |fleet| drop(fleet.run(&["gc", "--older-than", "0s"])),
        after: |fleet| {
            gc(fleet);
            assert_eq!(
                gc(fleet)["data"],
                Value::Array(vec![]),
                "nothing is left for another"
            );
            assert!(fleet.agents().is_empty(), "{:?}", fleet.agents());
            assert!(!fleet.folder("api-1").exists());
            // What only the lost ledger could tell to be ours stays.
            fleet.git(&["branch", "-D", "skein/api-1"]);
            for place in ["sessions", "logs/sessions"] {
                let folder = fleet.home.root().join(place).join("default/api-1");
                fs::remove_dir_all(folder).unwrap();
            }
        },
    };
    crash_everywhere(
        &story,
        &named(&["gc.backups.", "gc.folder.done", "gc.run.ended"]),
    );
}

#[test]
fn heavy_l4_an_agents_own_end_is_recorded_after_a_crash_at_any_point() {
    let story = Story {
        before: spawn,
        act: |fleet| {
            fleet.run(&["send", "api-1", "finish", "--no-wait"]);
            until(fleet, |s| s["phase"] == "ended");
        },
        after: |fleet| {
            let session = only_session(fleet);
            assert_eq!(session["status"], "done", "{session}");
            assert_eq!(fleet.prompts("api-1"), [TASK, "finish"]);
        },
    };
    crash_everywhere(&story, &named(&["deliver.written", "exit.recorded"]));
}
