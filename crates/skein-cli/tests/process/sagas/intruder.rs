//! Agents and words that are up to no good: floods, escape sequences, metacharacters, forged variables,
//! secrets.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::harness::{Fleet, eventually, text};
use crate::sagas::audit::{clean, settled};
use crate::sagas::hostile::refused;

#[test]
fn l13_an_agent_that_is_not_there_is_told_and_leaves_nothing() {
    let fleet = Fleet::new();
    fleet.settings("[agents.ghost]\ncommand = 'no-such-agent-anywhere'\n");
    let error = refused(&fleet, 5, &["--agent", "ghost"]);
    assert!(
        error.to_string().contains("no-such-agent-anywhere"),
        "{error}"
    );
    let error = refused(&fleet, 3, &["--agent", "nobody-knows"]);
    assert!(error.to_string().contains("nobody-knows"), "{error}");
    let ran = fleet.run(&[
        "--json",
        "spawn",
        "--project",
        "api",
        "say hello",
        "--command",
        "/no/such/program",
        "--prompt-via",
        "typed",
    ]);
    assert_eq!(ran.code, 6, "{ran:?}");
    let message = text(&ran.error()["message"]);
    assert!(message.contains("`/no/such/program` is not installed"));
    let sessions = settled(&fleet);
    assert_eq!(sessions[0]["status"], "failed", "{sessions:?}");
    clean(&fleet);
    assert_eq!(fleet.git(&["branch", "--list", "skein/*"]), "");
}

#[test]
fn an_agent_that_floods_its_terminal_is_killed_like_any_other() {
    let fleet = Fleet::new();
    let session = fleet.spawn("flood 100000", &[]);
    fleet.until_status(&session, "working");
    let other = fleet.spawn("say hello", &[]);
    fleet.until_status(&other, "idle");
    let killed = fleet.json(&["kill", &session]);
    assert_eq!(killed["status"], "killed", "{killed}");
    fleet.json(&["kill", &other]);
    fleet.until_no_agents();
    let log = fleet
        .home
        .root()
        .join("logs/sessions/default")
        .join(&session);
    let size: u64 = fs::read_dir(log)
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(size < 64 << 20, "the history is bounded: {size} bytes");
    clean(&fleet);
}

/// What a hostile program prints to have its way with a terminal, and what no viewer may be sent.
const ATTACKS: [&str; 9] = [
    "stolen title",
    "never ended",
    "\u{1b}]52;",
    "c3RvbGVu",
    "\u{1b}P",
    "\u{1b}[c",
    "\u{1b}[>c",
    "\u{1b}[5n",
    "\u{1b}[14t",
];

fn assert_harmless(what: &str, bytes: &[u8]) {
    let shown = String::from_utf8_lossy(bytes);
    assert!(shown.contains("garbage"), "{what}: {shown:?}");
    for attack in ATTACKS {
        assert!(
            !shown.contains(attack),
            "{what} carries {attack:?}: {shown:?}"
        );
    }
}

/// Runs `attach` in a terminal of its own while `happens`, until the run is over; gives all it wrote.
fn attached(fleet: &Fleet, session: &str, happens: impl FnOnce()) -> Vec<u8> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, vec![]).unwrap().into_string().unwrap();
    let open = || {
        let file = fs::OpenOptions::new().read(true).write(true).open(&name);
        Stdio::from(file.unwrap())
    };
    let mut command = fleet.command(&["attach", session]);
    command.env("TERM", "xterm-256color");
    command.stdin(open()).stdout(open()).stderr(open());
    let mut viewer = command.spawn().unwrap();
    // Our own copies of the far end.
    drop(command);
    let seen = Arc::new(Mutex::new(vec![]));
    let (sink, mut terminal) = (seen.clone(), fs::File::from(master));
    let reader = thread::spawn(move || {
        let mut chunk = [0; 4096];
        // The far end closes with an error once its last process is gone.
        while let Ok(n @ 1..) = terminal.read(&mut chunk) {
            sink.lock().unwrap().extend_from_slice(&chunk[..n]);
        }
    });
    let shown = || String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
    eventually(|| shown().contains("hello").then_some(()), shown);
    happens();
    eventually(|| viewer.try_wait().unwrap(), shown);
    reader.join().unwrap();
    std::mem::take(&mut seen.lock().unwrap())
}

#[test]
fn l15_escape_attacks_reach_no_viewer_and_no_log() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    fleet.until_status(&session, "idle");
    let happens = || {
        fleet.json(&["send", &session, "garbage 16"]);
        fleet.until_status(&session, "idle");
        for args in [
            &["screen", &session][..],
            &["logs", &session],
            &["--json", "screen", &session],
        ] {
            let output = fleet.command(args).output().unwrap();
            assert!(output.status.success(), "{args:?}");
            assert_harmless(&format!("{args:?}"), &output.stdout);
        }
        fleet.json(&["kill", &session]);
    };
    assert_harmless("attach", &attached(&fleet, &session, happens));
    let log = fleet
        .home
        .root()
        .join("logs/sessions/default")
        .join(&session);
    assert_harmless("the file", &fs::read(log.join("1.log")).unwrap());
    clean(&fleet);
}

const NASTY: [&str; 6] = [
    "$(touch pwned) `touch pwned` ; touch pwned & | > < * ? ~ ! # \\ %s %n {a,b} $HOME ${PATH} \"x\" 'y'",
    "--help",
    "-rf / --no-preserve-root",
    "@/etc/passwd =cmd|' /C calc'!A0 <script>alert(1)</script>",
    "ünïcode ✓ 🦆 日本語 \u{202e}right-to-left",
    "several\nlines; with\ttabs\n\n  and blanks",
];

#[test]
fn l15_prompts_arrive_byte_for_byte() {
    let fleet = Fleet::new();
    for via in ["typed", "argv", "stdin"] {
        let args = ["--prompt-via", via];
        let spawn = ["--json", "spawn", "--project", "api", "--agent", "scripted"];
        let tasks: Vec<&str> = NASTY.to_vec();
        let all = [&spawn[..], &args, &["--"], &tasks].concat();
        let ran = fleet.run(&all);
        assert_eq!(ran.code, 0, "{ran:?}");
        let made = ran.document();
        for (session, task) in made["data"].as_array().unwrap().iter().zip(NASTY) {
            let id = text(&session["id"]);
            eventually(
                || (!fleet.prompts(&id).is_empty()).then_some(()),
                || fleet.show(&id).to_string(),
            );
            assert_eq!(fleet.prompts(&id), [task], "{via}");
            assert!(!fleet.folder(&id).join("pwned").exists());
        }
        for session in settled(&fleet) {
            if session["phase"] != "ended" {
                fleet.run(&["kill", session["id"].as_str().unwrap()]);
            }
        }
    }
    assert!(!fleet.repo.join("pwned").exists());
    clean(&fleet);
}

#[test]
fn l15_messages_arrive_byte_for_byte() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    fleet.until_status(&session, "idle");
    for message in NASTY {
        let ran = fleet.run(&["send", &session, "--", message]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    fleet.until_status(&session, "idle");
    assert_eq!(fleet.prompts(&session)[1..], NASTY);
    clean(&fleet);
}

#[test]
fn l13_skeins_own_variables_cannot_be_set() {
    let fleet = Fleet::new();
    for name in ["SKEIN_SESSION", "SKEIN_HOME", "skein_tenant"] {
        let variable = format!("--env={name}=forged-value");
        let error = refused(&fleet, 2, &["--agent", "scripted", &variable]);
        assert!(!error.to_string().contains("forged-value"), "{error}");
    }
    fleet.settings("[env]\nSKEIN_RUN = \"7\"\n");
    refused(&fleet, 2, &["--agent", "scripted"]);
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files(&entry.path(), found),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

#[test]
fn l14_secrets_are_in_no_event_log_or_file_of_ours() {
    const SECRETS: [&str; 3] = ["hunter2-of-the-caller", "hunter3-of-the-project", "hunter4"];
    let fleet = Fleet::new();
    fleet.settings(&format!(
        "setup = [\"true\"]\n[env]\nPROJECT_TOKEN = \"{}\"\n",
        SECRETS[1]
    ));
    let variable = format!("API_TOKEN={}", SECRETS[0]);
    let session = fleet.spawn(
        "say hello",
        &["--env", &variable, "--env", "PASSWORD=hunter4"],
    );
    fleet.until_status(&session, "idle");
    let environ = fleet
        .agents()
        .keys()
        .map(|pid| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .find(|text| text.contains(&format!("SKEIN_SESSION={session}")))
        .unwrap();
    assert!(
        SECRETS.iter().all(|s| environ.contains(s)),
        "the agent has them"
    );
    let mut places = vec![];
    files(fleet.home.root(), &mut places);
    let own = ["worktrees", "sessions"].map(|name| fleet.home.root().join(name));
    places.retain(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        !name.starts_with("skein.db") && !own.iter().any(|own| path.starts_with(own))
    });
    assert!(places.len() > 4, "{places:?}");
    let mut told: Vec<(String, Vec<u8>)> = places
        .iter()
        .map(|path| {
            (
                path.display().to_string(),
                fs::read(path).unwrap_or_default(),
            )
        })
        .collect();
    for args in [
        &["--json", "events", "--limit", "1000"][..],
        &["--json", "show", &session],
        &["--json", "why", &session],
        &["--json", "ls", "--all"],
        &["--json", "logs", &session],
    ] {
        told.push((format!("{args:?}"), fleet.run(args).stdout.into_bytes()));
    }
    for (place, bytes) in told {
        let content = String::from_utf8_lossy(&bytes);
        for secret in SECRETS {
            assert!(!content.contains(secret), "{place} holds {secret}");
        }
    }
    fleet.json(&["kill", &session]);
    clean(&fleet);
}
