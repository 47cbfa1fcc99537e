//! L5: what is begun or brought back while a clean-up runs is none of its business.
//!
//! The clean-up is held at each of its points in turn, and sessions are spawned and restored meanwhile.

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::Value;

use crate::harness::Daemon;
use crate::harness::{Fleet, GC, eventually, text};

/// A session that can be restored, one whose folder can go, and a folder that nobody knows.
fn before(fleet: &Fleet) -> String {
    let ended = fleet.spawn("say hello", &[]);
    fleet.until_status(&ended, "idle");
    fleet.json(&["kill", &ended]);
    assert!(!fleet.folder(&ended).exists());
    let dirty = fleet.spawn("write a.txt one", &[]);
    fleet.until_status(&dirty, "idle");
    fleet.json(&["kill", &dirty]);
    let stray = fleet.folder("api-77").display().to_string();
    fleet.git(&["worktree", "add", "--quiet", "--detach", &stray]);
    ended
}

fn daemon(fleet: &Fleet, log: &Path, hold: Option<(&str, &Path)>) -> Daemon {
    fleet.home.stop();
    let mut daemon = fleet.home.command(&["daemon", "run", "--announce"]);
    daemon.env("SKEIN_TEST_CRASH_LOG", log);
    if let Some((point, until)) = hold {
        daemon.env("SKEIN_TEST_HOLD_AT", point);
        daemon.env("SKEIN_TEST_HOLD_UNTIL", until);
    }
    Daemon::announced(daemon).unwrap()
}

fn reached(log: &Path) -> Vec<String> {
    let log = fs::read_to_string(log).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

/// The points of a clean-up between the work of its sagas.
fn points() -> Vec<String> {
    let fleet = Fleet::new();
    before(&fleet);
    let log = fleet.home.user().join("points");
    let _daemon = daemon(&fleet, &log, None);
    fleet.json(&GC);
    let mut found = reached(&log);
    let own = ["gc.backups.", "gc.folder", "gc.run", "gc.belongings."];
    found.retain(|point| own.iter().any(|own| point.starts_with(own)));
    found
}

fn held_at(point: &str) {
    let fleet = Fleet::new();
    let ended = before(&fleet);
    let (log, go) = (
        fleet.home.user().join("points"),
        fleet.home.user().join("go"),
    );
    let _daemon = daemon(&fleet, &log, Some((point, &go)));
    let mut new = String::new();
    let report = thread::scope(|scope| {
        let gc = scope.spawn(|| fleet.json(&GC));
        eventually(
            || reached(&log).iter().any(|p| p == point).then_some(()),
            || format!("{point} is not in {:?}", reached(&log)),
        );
        fleet.json(&["restore", &ended]);
        new = fleet.spawn("write b.txt two", &[]);
        for session in [&ended, &new] {
            fleet.until_status(session, "idle");
        }
        fs::write(&go, "").unwrap();
        gc.join().unwrap()
    });
    for session in [&ended, &new] {
        let mine = |item: &&Value| text(&item["id"]).starts_with(session.as_str());
        let taken = report["data"].as_array().unwrap().iter().find(mine);
        assert_eq!(taken, None, "{point}");
        let idle = fleet.until_status(session, "idle");
        assert_eq!(idle["runtime"]["state"], "alive", "{point}: {idle}");
        assert!(fleet.folder(session).join(".git").exists(), "{point}");
    }
    assert!(fleet.folder(&new).join("b.txt").exists(), "{point}");
    assert!(!fleet.folder("api-77").exists(), "{point}: {report}");
    assert_eq!(fleet.prompts(&new), ["write b.txt two"], "{point}");
}

/// One point before each kind of thing is looked at.
const NAMED: [&str; 4] = [
    "gc.backups.begin",
    "gc.folders.listed",
    "gc.runs.listed",
    "gc.belongings.listed",
];

#[test]
fn l5_a_clean_up_leaves_alone_what_begins_while_it_runs() {
    NAMED.into_iter().for_each(held_at);
}

#[test]
fn heavy_l5_a_clean_up_leaves_alone_what_begins_at_any_of_its_points() {
    let points = points();
    for name in NAMED {
        assert!(points.iter().any(|p| p == name), "{name}: {points:?}");
    }
    let others = points.iter().filter(|p| !NAMED.contains(&p.as_str()));
    others.for_each(|point| held_at(point));
}
