//! `gc`: takes what we made and nobody needs, says why, and takes nothing else.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Call, Daemon};
use crate::harness::{Fleet, GC, alive, eventually, text};
use crate::work::tree::{Tree, everything, tree};

fn items(report: &Value) -> Vec<Value> {
    let data = report["data"].as_array().unwrap().iter();
    let mut all: Vec<Value> = data
        .map(|item| json!([item["what"], item["id"], item["action"]]))
        .collect();
    all.sort_by_key(ToString::to_string);
    all
}

/// Everything a clean-up could take: the home's folders, but for the ledger and the daemon's own files.
fn home(fleet: &Fleet) -> Tree {
    let mut found = everything(fleet.home.root());
    found.retain(|path, _| {
        let name = path.to_string_lossy();
        let own = ["skein.db", "daemon.", "skeind.", "logs/daemon"];
        !own.iter().any(|own| name.starts_with(own)) && !name.ends_with(".log")
    });
    found
}

/// A dirty session that was killed, so that folder and backup are there.
fn killed(fleet: &Fleet) -> String {
    let session = fleet.spawn("write a.txt one", &[]);
    fleet.until_status(&session, "idle");
    fleet.json(&["kill", &session]);
    session
}

#[test]
fn a_dry_run_tells_all_and_changes_nothing() {
    let fleet = Fleet::new();
    let session = killed(&fleet);
    let stray = fleet.home.root().join("worktrees/default/api-77");
    fleet.git(&[
        "worktree",
        "add",
        "--quiet",
        "--detach",
        &stray.display().to_string(),
    ]);
    let (before, refs) = (home(&fleet), fleet.refs());
    let report = fleet.json(&[&GC[..], &["--dry-run"]].concat());
    assert_eq!(report["dry_run"], true);
    let backup = format!("refs/skein/backup/{session}/1");
    let wanted = [
        json!(["backup", backup, "remove"]),
        json!(["folder", "api-77", "remove"]),
        json!(["log", session, "remove"]),
        json!(["workspace", session, "remove"]),
    ];
    assert_eq!(items(&report), wanted, "{report}");
    for item in report["data"].as_array().unwrap() {
        assert!(text(&item["reason"]).len() > 10, "{item}");
    }
    assert_eq!(home(&fleet), before);
    assert_eq!(fleet.refs(), refs);
    assert!(fleet.folder(&session).exists() && stray.exists());
    let said = fleet.run(&[&GC[..], &["--dry-run"]].concat());
    assert!(said.stderr.contains("nothing was removed"), "{said:?}");
}

#[test]
fn cleaning_up_twice_is_cleaning_up_once() {
    let fleet = Fleet::new();
    let session = killed(&fleet);
    let first = fleet.json(&["gc", "--older-than", "0s"]);
    let wanted = ["log", "workspace"].map(|what| json!([what, session, "remove"]));
    assert_eq!(items(&first), wanted);
    assert!(!fleet.folder(&session).exists());
    let (before, refs) = (home(&fleet), fleet.refs());
    let second = fleet.json(&["gc", "--older-than", "0s"]);
    assert_eq!(second["data"], json!([]), "{second}");
    assert_eq!(home(&fleet), before);
    assert_eq!(fleet.refs(), refs);
}

#[test]
fn l5_backups_are_dropped_by_age_and_only_of_sessions_that_are_over() {
    let fleet = Fleet::new();
    let over = killed(&fleet);
    let live = killed(&fleet);
    fleet.json(&["restore", &live]);
    fleet.until_status(&live, "idle");
    let refs = fleet.refs();
    // Young ones stay, whosever they are.
    fleet.json(&[
        "gc",
        "--older-than",
        "1d",
        "--backups-older-than",
        "1d",
        "--discard",
        "--yes",
    ]);
    assert_eq!(fleet.refs(), refs);
    // Old ones are named, and go only when somebody says so.
    let old = ["gc", "--older-than", "1d", "--backups-older-than", "0s"];
    let named = json!(["backup", format!("refs/skein/backup/{over}/1"), "keep"]);
    assert_eq!(items(&fleet.json(&old)), [named]);
    assert_eq!(fleet.run(&[&old[..], &["--discard"]].concat()).code, 2);
    assert_eq!(fleet.refs(), refs);
    let report = fleet.json(&[
        "gc",
        "--older-than",
        "1d",
        "--backups-older-than",
        "0s",
        "--discard",
        "--yes",
    ]);
    let dropped = format!("refs/skein/backup/{over}/1");
    assert_eq!(
        items(&report),
        [json!(["backup", dropped, "remove"])],
        "{report}"
    );
    let left = fleet.refs();
    assert!(!left.contains(&dropped), "{left}");
    assert!(
        left.contains(&format!("refs/skein/backup/{live}/1")),
        "{left}"
    );
    // The folder of the ended one still holds all of it, and is not taken before its time.
    assert!(fleet.folder(&over).join("a.txt").exists());
}

#[test]
fn l5_what_was_kept_for_a_session_goes_with_it_but_for_what_a_restore_needs() {
    let fleet = Fleet::new();
    let live = fleet.spawn("say hello", &[]);
    // One agent's conversation is in its private folder, the other has none there.
    let remembers = fleet.spawn("say hello", &[]);
    let command = ["--agent", "custom", "--command", "cat > got; exec cat got"];
    let task = ["spawn", "--project", "api", "--prompt-via", "stdin", "hi"];
    let forgets = text(&fleet.json(&[&task[..], &command].concat())["id"]);
    fleet.until_status(&live, "idle");
    fleet.until_status(&remembers, "idle");
    fleet.until(&forgets, |s| s["phase"] == "ended");
    fleet.json(&["kill", &remembers]);
    let logs = |session: &str| {
        fleet
            .home
            .root()
            .join("logs/sessions/default")
            .join(session)
    };
    let places = |session: &str| [fleet.private(session), logs(session)];
    let there = |session: &str| places(session).map(|place| place.exists());
    for session in [&live, &remembers, &forgets] {
        assert_eq!(there(session), [true, true], "{session}");
    }

    let young = fleet.json(&["gc", "--older-than", "1d"]);
    assert_eq!(young["data"], json!([]), "{young}");
    let mut wanted = vec![
        json!(["log", remembers, "remove"]),
        json!(["log", forgets, "remove"]),
        json!(["private", forgets, "remove"]),
    ];
    wanted.sort_by_key(ToString::to_string);
    let belongings = |report: &Value| {
        let mut items = items(report);
        items.retain(|item| item[0] == "log" || item[0] == "private");
        items
    };
    let before = home(&fleet);
    let told = fleet.json(&["gc", "--older-than", "0s", "--dry-run"]);
    assert_eq!(belongings(&told), wanted, "{told}");
    assert_eq!(home(&fleet), before);
    let done = fleet.json(&["gc", "--older-than", "0s"]);
    assert_eq!(belongings(&done), wanted, "{done}");
    assert_eq!(there(&live), [true, true]);
    assert_eq!(there(&remembers), [true, false]);
    assert_eq!(there(&forgets), [false, false]);
    let again = fleet.json(&["gc", "--older-than", "0s"]);
    assert_eq!(again["data"], json!([]), "{again}");

    // Both come back, the one in its conversation.
    fleet.json(&["restore", &remembers]);
    fleet.until_status(&remembers, "idle");
    assert_eq!(fleet.prompts(&remembers), ["say hello"], "not afresh");
    fleet.json(&["restore", &forgets]);
    fleet.until(&forgets, |s| s["phase"] == "ended" && s["run"] == 2);
}

#[test]
fn l5_a_private_folder_goes_when_nothing_can_be_restored_and_what_it_links_to_stays() {
    let fleet = Fleet::new();
    let [archived, ended] = ["one", "two"].map(|name| {
        let session = fleet.spawn(&format!("say {name}"), &[]);
        fleet.until_status(&session, "idle");
        fleet.json(&["kill", &session]);
        session
    });
    let mine = fleet.home.user().join("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("login"), "secret\n").unwrap();
    std::os::unix::fs::symlink(&mine, fleet.private(&archived).join("link")).unwrap();
    fleet.json(&["project", "set", "api", "--max-ended", "1"]);
    fleet.json(&["retention", "run"]);
    assert_eq!(fleet.status(&archived), "archived");
    let report = fleet.json(&["gc", "--older-than", "0s"]);
    assert!(!fleet.private(&archived).exists(), "{report}");
    assert!(fleet.private(&ended).exists(), "{report}");
    assert_eq!(fs::read_to_string(mine.join("login")).unwrap(), "secret\n");
}

#[test]
fn l5_what_a_clean_up_keeps_it_does_not_drop() {
    let fleet = Fleet::new();
    let session = killed(&fleet);
    fleet.git(&[
        "update-ref",
        "-d",
        &format!("refs/skein/backup/{session}/1"),
    ]);
    fleet.json(&GC);
    assert!(!fleet.folder(&session).exists());
    fleet.json(&["restore", &session]);
    let file = fs::read_to_string(fleet.folder(&session).join("a.txt"));
    assert_eq!(file.unwrap(), "one\n");
}

#[test]
fn l5_what_is_written_between_backup_and_removal_gets_a_backup_of_its_own() {
    let fleet = Fleet::new();
    let session = killed(&fleet);
    let kept = fleet.git(&["rev-parse", &format!("refs/skein/backup/{session}/1")]);
    // Clean again, so the clean-up finds nothing to back up; it is killed before it removes the folder.
    let folder = fleet.folder(&session);
    fs::remove_file(folder.join("a.txt")).unwrap();
    fleet.home.stop();
    let mut daemon = fleet.home.command(&["daemon", "run", "--announce"]);
    daemon.env("SKEIN_TEST_CRASH_AT", "gc.backup.recorded:1");
    let daemon = Daemon::announced(daemon).unwrap();
    let pid = daemon.pid();
    // By hand: the command line would start another daemon at once.
    let call = Call::post("/api/v1/gc", &json!({"ended_for_seconds": 0}));
    fleet.home.raw(&call.bytes());
    eventually(
        || (!alive(pid)).then_some(()),
        || "the daemon goes on".to_owned(),
    );
    assert!(folder.exists(), "the clean-up was cut short");
    fs::write(folder.join("late.txt"), "late\n").unwrap();
    fleet.json(&["gc", "--older-than", "0s"]);
    eventually(
        || (!folder.exists()).then_some(()),
        || fleet.show(&session).to_string(),
    );
    let name = |n: u64| format!("refs/skein/backup/{session}/{n}");
    assert_eq!(fleet.git(&["rev-parse", &name(1)]), kept);
    let late = format!("{}:late.txt", name(2));
    assert_eq!(fleet.git(&["show", &late]), "late");
}

#[test]
fn l5_folders_no_record_knows_go_when_they_are_clean_and_are_named_when_they_hold_work() {
    let fleet = Fleet::new();
    fleet.spawn("say hello", &[]);
    let below = fleet.home.root().join("worktrees/default");
    let add = |name: &str| {
        let folder = below.join(name);
        fleet.git(&[
            "worktree",
            "add",
            "--quiet",
            "--detach",
            &folder.display().to_string(),
        ]);
        folder
    };
    let (clean, dirty, ahead) = (add("api-70"), add("api-71"), add("api-72"));
    fs::write(dirty.join("loose.txt"), "work\n").unwrap();
    fleet.sh(&ahead, "echo mine > mine; git add .; git commit -qm mine");
    let before = (tree(&dirty), tree(&ahead));
    let report = fleet.json(&["gc", "--older-than", "0s"]);
    let wanted = [
        json!(["folder", "api-70", "remove"]),
        json!(["folder", "api-71", "keep"]),
        json!(["folder", "api-72", "keep"]),
    ];
    assert_eq!(items(&report), wanted, "{report}");
    assert!(!clean.exists());
    assert_eq!((tree(&dirty), tree(&ahead)), before);
    let list = fleet.git(&["worktree", "list"]);
    assert!(
        !list.contains("api-70") && list.contains("api-71"),
        "{list}"
    );
    let again = fleet.json(&["gc", "--older-than", "0s"]);
    assert_eq!(items(&again), wanted[1..], "{again}");
}

#[test]
fn l5_what_others_made_is_never_touched() {
    let fleet = Fleet::new();
    let worktree = fleet.home.user().join("mine");
    fleet.git(&[
        "worktree",
        "add",
        "--quiet",
        "-b",
        "mine",
        &worktree.display().to_string(),
    ]);
    fs::write(worktree.join("loose.txt"), "mine\n").unwrap();
    // Refs as another home, or another tool, would leave them.
    fleet.sh(
        &fleet.repo,
        "git branch skein/other-5; git branch skein/api-500; \
         for name in backup/other-5/1 backup/api-500/1 left/api-500 strange; do git update-ref refs/skein/$name HEAD; done",
    );
    let tmux = Tmux::start(&fleet);
    let strange = fleet.home.root().join("worktrees/default/not-a-session!");
    let session = killed(&fleet);
    fs::create_dir_all(&strange).unwrap();
    fs::write(strange.join("file"), "?\n").unwrap();
    let others = |fleet: &Fleet| {
        let refs = fleet.refs();
        let refs: Vec<&str> = refs.lines().filter(|r| !r.contains(&session)).collect();
        (
            refs.join("\n"),
            tree(&worktree),
            tree(&strange),
            fleet.main_state(),
        )
    };
    let before = others(&fleet);
    let report = fleet.json(&GC);
    assert!(!fleet.folder(&session).exists(), "{report}");
    assert_eq!(others(&fleet), before, "{report}");
    if let Some(tmux) = &tmux {
        assert_eq!(tmux.sessions(&fleet), "mine");
    }
}

/// A tmux server of the user's own.
struct Tmux<'a> {
    fleet: &'a Fleet,
    socket: std::path::PathBuf,
}

impl<'a> Tmux<'a> {
    /// None where tmux is not installed.
    fn start(fleet: &'a Fleet) -> Option<Self> {
        if !Path::new("/usr/bin/tmux").exists() {
            return None;
        }
        let socket = fleet.home.user().join("tmux.sock");
        let tmux = Self { fleet, socket };
        tmux.run(&["new-session", "-d", "-s", "mine", "sleep 600"]);
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self
            .fleet
            .home
            .program("tmux")
            .arg("-S")
            .arg(&self.socket)
            .args(args)
            .output();
        String::from_utf8(output.unwrap().stdout)
            .unwrap()
            .trim()
            .to_owned()
    }

    fn sessions(&self, _: &Fleet) -> String {
        self.run(&["list-sessions", "-F", "#{session_name}"])
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn a_run_that_no_session_holds_on_to_is_ended() {
    let fleet = Fleet::new();
    let first = fleet.spawn("say one", &[]);
    let ended = fleet.spawn("say gone", &[]);
    fleet.until_status(&first, "idle");
    fleet.until_status(&ended, "idle");
    fleet.json(&["kill", &ended]);
    fleet.until_status(&ended, "killed");
    fleet.until_agents(1);
    let held = fleet.agents();
    fleet.json(&["daemon", "stop"]);
    let kept: Vec<(std::path::PathBuf, Vec<u8>)> = ledger(&fleet);
    let unknown = fleet.spawn("say two", &[]);
    fleet.json(&["restore", &ended]);
    fleet.until_status(&unknown, "idle");
    fleet.until_status(&ended, "idle");
    fleet.json(&["daemon", "stop"]);
    // The ledger of before: by it one of them has ended and the other never was, while both their agents go
    // on.
    for (path, _) in ledger(&fleet) {
        fs::remove_file(path).unwrap();
    }
    for (path, bytes) in kept {
        fs::write(path, bytes).unwrap();
    }
    assert!(fleet.agents().len() > held.len());
    let report = fleet.json(&["gc", "--older-than", "0s"]);
    // That of the ended one may have been ended when the daemon began.
    let mut runs = items(&report);
    runs.retain(|item| item[0] == "run" && item[1] != format!("{ended}/2"));
    let wanted = json!(["run", format!("{unknown}/1"), "end"]);
    assert_eq!(runs, [wanted], "{report}");
    eventually(
        || (fleet.agents() == held).then_some(()),
        || format!("{held:?} {:?}", fleet.agents()),
    );
    assert_eq!(fleet.status(&first), "idle", "the first goes on");
    assert_eq!(fleet.status(&ended), "killed");
    let again = fleet.json(&["gc", "--older-than", "0s"]);
    assert!(items(&again).iter().all(|i| i[0] != "run"), "{again}");
}

/// The database's files with what is in them.
fn ledger(fleet: &Fleet) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(fleet.home.root()).unwrap().flatten();
    entries
        .filter(|e| e.file_name().to_string_lossy().starts_with("skein.db"))
        .map(|e| (e.path(), fs::read(e.path()).unwrap()))
        .collect()
}
