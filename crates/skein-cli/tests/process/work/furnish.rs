//! What a new workspace is furnished with, and what is left of a set-up that fails.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::harness::{Fleet, alive, eventually, text};
use crate::work::tree::{commands, tree};

const SPAWN: [&str; 6] = [
    "spawn",
    "--project",
    "api",
    "--agent",
    "scripted",
    "say hello",
];

#[test]
fn ignored_files_are_copied_or_linked_and_the_set_up_is_run() {
    let fleet = Fleet::new();
    fleet.sh(
        &fleet.repo,
        "printf '.env\\ncache\\nbuilt\\n' > .gitignore; git add .; git commit -qm ignore; \
         echo SECRET=1 > .env; mkdir cache; echo big > cache/big",
    );
    fleet.settings(
        "copy = [\".env\"]\nsymlink = [\"cache\"]\nsetup = [\"cp .env built\", \"echo $COLOUR >> built\"]\nenv = { COLOUR = \"red\" }\n",
    );
    let session = fleet.spawn("say hello", &[]);
    let folder = fleet.folder(&session);
    assert_eq!(
        fs::read_to_string(folder.join(".env")).unwrap(),
        "SECRET=1\n"
    );
    assert_eq!(
        fs::read_link(folder.join("cache")).unwrap(),
        fleet.repo.join("cache")
    );
    assert_eq!(
        fs::read_to_string(folder.join("built")).unwrap(),
        "SECRET=1\nred\n"
    );
    fleet.until_status(&session, "idle");
    // What was only copied is no work, so the folder goes; what it links to stays.
    fleet.json(&["kill", &session]);
    assert!(!folder.exists());
    assert_eq!(
        fs::read_to_string(fleet.repo.join("cache/big")).unwrap(),
        "big\n"
    );
}

#[test]
fn a_set_up_tells_what_it_does_while_it_does_it() {
    let fleet = Fleet::new();
    let gate = fleet.home.user().join("gate");
    fleet.settings(&format!(
        "setup = [\"echo fetching parts; until test -e {}; do sleep 0.05; done\"]\n",
        gate.display()
    ));
    let mut child = fleet
        .command(&SPAWN)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let seen = eventually(
        || {
            let list = fleet.json(&["ls"]);
            let session = list["data"][0]["id"].as_str()?.to_owned();
            let why = fleet.run(&["why", &session]).stdout;
            why.contains("fetching parts").then_some((session, why))
        },
        || fleet.json(&["ls"]).to_string(),
    );
    assert!(seen.1.contains("setup"), "{}", seen.1);
    fs::write(&gate, "").unwrap();
    let told: Vec<String> = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .collect();
    assert!(child.wait().unwrap().success(), "{told:?}");
    let told = told.join("\n");
    assert!(told.contains("setting up the workspace"), "{told}");
    let (session, _) = seen;
    assert!(
        told.contains(&format!("{session} | fetching parts")),
        "{told}"
    );
    fleet.until_status(&session, "idle");
    let kept = fleet.run(&["logs", "--setup", &session]).stdout;
    assert!(kept.contains("\nfetching parts\n"), "{kept}");
}

#[test]
fn l14_a_set_up_that_prints_its_secrets_keeps_them() {
    let fleet = Fleet::new();
    fleet.settings(
        "setup = [\"set -x; echo $DEPLOY_TOKEN; : --key=$DEPLOY_TOKEN; exit 1\"]\n\
         [env]\nDEPLOY_TOKEN = \"hunter2\"\n",
    );
    let ran = fleet.run(&SPAWN);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("[redacted]"), "{ran:?}");
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    let session = text(&fleet.json(&["ls", "--all"])["data"][0]["id"]);
    for told in [
        format!("{:?}", fleet.events(&session)),
        fleet.show(&session).to_string(),
        fleet.run(&["logs", "--setup", &session]).stdout,
    ] {
        assert!(
            told.contains("[redacted]") && !told.contains("hunter2"),
            "{told}"
        );
    }
}

#[test]
fn l5_what_a_failed_set_up_wrote_is_kept_and_the_error_says_where() {
    let fleet = Fleet::new();
    let main = fleet.main_state();
    fleet.settings(
        "setup = [\"mkdir out; echo precious > out/file; echo no luck today >&2; exit 3\"]\n",
    );
    let settings = fs::read(fleet.repo.join("skein.toml")).unwrap();
    let ran = fleet.run(&SPAWN);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("no luck today"), "its output: {ran:?}");
    assert!(ran.stderr.contains("status 3"), "{ran:?}");
    let list = fleet.json(&["ls", "--all"]);
    let session = text(&list["data"][0]["id"]);
    let failed = fleet.show(&session);
    assert_eq!(failed["status"], "failed", "{failed}");
    assert!(!fleet.folder(&session).exists());
    let kept = text(&failed["workspace"]["backups"][0]["ref"]);
    assert!(ran.stderr.contains(&kept), "{kept}: {ran:?}");
    assert_eq!(
        fleet.git(&["show", &format!("{kept}:out/file")]),
        "precious"
    );
    assert!(
        fleet
            .events(&session)
            .iter()
            .any(|e| e["data"].to_string().contains(&kept)),
        "{:?}",
        fleet.kinds(&session)
    );
    let command = commands(&fleet.run(&["show", &session]).stdout)
        .into_iter()
        .find(|c| c.starts_with("git "))
        .unwrap();
    fleet.sh(Path::new("/"), &command);
    let back = format!("{}-{session}-1", fleet.repo.display());
    assert_eq!(
        fs::read_to_string(format!("{back}/out/file")).unwrap(),
        "precious\n"
    );
    fleet.git(&["worktree", "remove", "--force", &back]);
    // Once the set-up is mended a restore brings it all back.
    fleet.settings("setup = [\"test -e out/file\"]\n");
    fleet.json(&["restore", &session]);
    let file = fleet.folder(&session).join("out/file");
    assert_eq!(fs::read_to_string(file).unwrap(), "precious\n");
    fleet.until_status(&session, "idle");
    fs::write(fleet.repo.join("skein.toml"), settings).unwrap();
    fs::remove_file(fleet.repo.join("skein.toml")).unwrap();
    assert_eq!(fleet.main_state(), main);
}

#[test]
fn a_set_up_that_takes_too_long_is_ended_with_all_it_began() {
    let fleet = Fleet::new();
    fleet.settings("setup = [\"sleep 600 & sleep 600\"]\nsetup_timeout = \"1s\"\n");
    let ran = fleet.run(&SPAWN);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("sleep 600"), "{ran:?}");
    let list = fleet.json(&["ls", "--all"]);
    let session = text(&list["data"][0]["id"]);
    assert_eq!(fleet.show(&session)["status"], "failed");
    assert!(!fleet.folder(&session).exists());
    assert_eq!(fleet.git(&["worktree", "list"]).lines().count(), 1);
    eventually(
        || (!sleepers(&fleet)).then_some(()),
        || "what the set-up began goes on".to_owned(),
    );
}

/// Whether a process runs in the home's worktrees.
fn sleepers(fleet: &Fleet) -> bool {
    !workers(fleet).is_empty()
}

/// The processes that run in the home's worktrees.
fn workers(fleet: &Fleet) -> Vec<i32> {
    let root = fleet.home.root().join("worktrees");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let below = entries.filter(|entry| {
        fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&root))
    });
    below
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// A spawn whose set-up waits at a gate, beside a process that left its group; gives it once it waits there.
struct AtSetUp {
    fleet: Fleet,
    log: std::path::PathBuf,
    gate: std::path::PathBuf,
    session: String,
    workers: Vec<i32>,
}

fn at_set_up() -> AtSetUp {
    let fleet = Fleet::new();
    let (log, gate) = (
        fleet.home.user().join("log"),
        fleet.home.user().join("gate"),
    );
    fleet.settings(&format!(
        "setup = [\"setsid sleep 600 & echo begin >> {log}; until test -e {gate}; do sleep 0.05; done; kill $!; echo end >> {log}\"]\n",
        log = log.display(),
        gate = gate.display()
    ));
    let quiet = || Stdio::null();
    let mut command = fleet.command(&SPAWN);
    let mut command = command.stdout(quiet()).stderr(quiet()).spawn().unwrap();
    lines(&log, 1);
    // Whoever waits would start another daemon at once.
    command.kill().unwrap();
    command.wait().unwrap();
    let session = text(&fleet.json(&["ls"])["data"][0]["id"]);
    let workers = eventually(
        || {
            let lasting = |pid: &i32| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.starts_with(b"sh\0-c") || line == b"sleep\x00600\0"
            };
            let found: Vec<i32> = workers(&fleet).into_iter().filter(lasting).collect();
            (found.len() == 2).then_some(found)
        },
        || "the set-up has no processes".to_owned(),
    );
    AtSetUp {
        fleet,
        log,
        gate,
        session,
        workers,
    }
}

/// Waits until a file has so many lines.
fn lines(file: &Path, count: usize) -> String {
    let read = || fs::read_to_string(file).unwrap_or_default();
    eventually(|| Some(read()).filter(|t| t.lines().count() >= count), read)
}

#[test]
fn l4_a_set_up_the_daemons_death_cut_short_is_ended_before_it_is_done_again() {
    let at = at_set_up();
    at.fleet.kill_daemon();
    assert!(at.workers.iter().all(|pid| alive(*pid)), "they outlive it");
    at.fleet.run(&["ls"]);
    lines(&at.log, 2);
    assert!(at.workers.iter().all(|pid| !alive(*pid)));
    fs::write(&at.gate, "").unwrap();
    at.fleet.until_status(&at.session, "idle");
    assert_eq!(lines(&at.log, 3), "begin\nbegin\nend\n");
}

#[test]
fn l4_a_set_up_the_daemons_death_cut_short_is_ended_before_its_folder_goes() {
    let at = at_set_up();
    let quiet = || Stdio::null();
    let mut kill = at.fleet.command(&["kill", &at.session]);
    let mut kill = kill.stdout(quiet()).stderr(quiet()).spawn().unwrap();
    eventually(
        || {
            let kinds = at.fleet.kinds(&at.session);
            kinds.iter().any(|k| k == "saga.failed").then_some(())
        },
        || format!("{:?}", at.fleet.kinds(&at.session)),
    );
    at.fleet.kill_daemon();
    at.fleet.run(&["ls"]);
    at.fleet.until_status(&at.session, "killed");
    assert!(!at.fleet.folder(&at.session).exists());
    assert!(at.workers.iter().all(|pid| !alive(*pid)));
    assert!(!sleepers(&at.fleet));
    assert_eq!(lines(&at.log, 1), "begin\n");
    kill.wait().unwrap();
}

#[test]
fn l5_a_restore_whose_set_up_failed_can_be_tried_again_without_its_folder() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write a.txt one; commit mine", &[]);
    fleet.until_status(&session, "idle");
    fleet.json(&["kill", &session]);
    assert!(!fleet.folder(&session).exists());
    fleet.settings("setup = [\"exit 3\"]\n");
    assert_ne!(fleet.run(&["restore", &session]).code, 0);
    fleet.until_status(&session, "killed");
    fs::remove_dir_all(fleet.folder(&session)).unwrap();
    fleet.settings("setup = [\"echo done > set-up\"]\n");
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    let folder = fleet.folder(&session);
    assert_eq!(fs::read_to_string(folder.join("a.txt")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(folder.join("set-up")).unwrap(), "done\n");
}

#[test]
fn a_pool_of_worktrees_is_filled_after_a_spawn_and_used_by_the_next() {
    let fleet = Fleet::new();
    fleet.settings("pool = 1\n");
    fleet.spawn("say one", &[]);
    let pool = fleet.home.root().join("worktrees/.pool");
    let member = || fs::read_dir(&pool).ok()?.flatten().map(|e| e.path()).next();
    let ready = eventually(
        || {
            let member = member()?;
            let list = fleet.git(&["worktree", "list", "--porcelain"]);
            (member.join("readme.md").exists() && list.contains("locked skein pool\n"))
                .then_some(member)
        },
        || fleet.git(&["worktree", "list", "--porcelain"]),
    );
    use std::os::unix::fs::MetadataExt as _;
    let number = fs::metadata(&ready).unwrap().ino();
    // A clean-up leaves it alone.
    fleet.json(&["gc", "--older-than", "0s"]);
    assert!(ready.exists());
    let session = fleet.spawn("write a.txt two; commit mine", &[]);
    let folder = fleet.folder(&session);
    assert_eq!(
        fs::metadata(&folder).unwrap().ino(),
        number,
        "the very same folder"
    );
    fleet.until_status(&session, "idle");
    let branch = fleet.git_in(&folder, &["branch", "--show-current"]);
    assert_eq!(branch, format!("skein/{session}"));
    assert_eq!(tree(&folder).len(), 2);
    fleet.json(&["kill", &session]);
    assert!(!folder.exists());
    assert!(fleet.git(&["log", "--oneline", &branch]).contains("mine"));
}
