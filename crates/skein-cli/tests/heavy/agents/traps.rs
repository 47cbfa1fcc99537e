//! What the programs do that misleads whoever drives them, one test per trap.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use skein_fixtures::model_server::ExchangeOutcome;

use crate::agents::stage::{AIDER, CLAUDE, CODEX, GEMINI, OPENCODE, Program, Stage, Who};
use crate::harness::Ran;
use crate::harness::{alive, end, eventually, text};

/// The same claim for several programs, a test for each.
macro_rules! each {
    ($claim:ident: $($name:ident: $program:expr),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                $claim($program);
            }
        )+
    };
}

/// Processes whose home is the test's, also those that have left everything else behind.
fn at_home(stage: &Stage) -> BTreeMap<i32, String> {
    let mark = format!("HOME={}", stage.fleet.home.user().display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        if read("environ")
            .split(|b| *b == 0)
            .any(|v| v == mark.as_bytes())
        {
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            found.insert(pid, line);
        }
    }
    found
}

#[test]
fn heavy_codex_starts_no_daemon_that_outlives_its_session() {
    let stage = Stage::new(CODEX);
    let daemons = || {
        let mut all = at_home(&stage);
        all.retain(|_, line| line.contains("app-server") || line.contains("pid-update-loop"));
        all
    };
    let session = stage.spawn(
        "MARK-ONE [[say one ;; bash sleep 600]]",
        &["--permission", "full"],
    );
    stage.heard("MARK-ONE");
    let sleeps = || {
        at_home(&stage)
            .values()
            .any(|line| line.contains("sleep 600"))
    };
    eventually(
        || sleeps().then_some(()),
        || format!("{:?}", at_home(&stage)),
    );
    assert_eq!(daemons(), BTreeMap::new(), "while it works");
    stage.json(&["kill", &session]);
    stage.fleet.until_no_agents();
    let left = at_home(&stage);
    assert!(
        left.values().all(|line| line.contains(" daemon run")),
        "{left:?}"
    );
    assert!(!stage.fleet.home.user().join(".codex/packages").exists());
}

#[test]
fn heavy_l6_a_question_of_claude_code_gets_its_answer_and_not_the_next_message() {
    let stage = Stage::new(CLAUDE);
    let session = stage.spawn("MARK-ONE [[ask which? | red | blue ;; say done]]", &[]);
    let asked = stage.until_status(&session, "needs_input");
    let question = asked["question"].to_string();
    for part in ["which?", "red", "blue"] {
        assert!(question.contains(part), "{question}");
    }
    let waits = stage.post(&session, "1 MARK-WAITS [[say done]]");
    stage.answer(&session, "blue");
    stage.until_receipt(&waits, &["turn_started"]);
    stage.heard("MARK-WAITS");
    stage.until_status(&session, "idle");
    let told = stage.transcripts();
    assert!(told.contains(r#"\"which?\"=\"blue\""#), "{told}");
    assert_eq!(stage.times_heard("MARK-WAITS"), 1);
}

#[test]
fn heavy_gemini_dies_with_its_whole_tree() {
    let stage = Stage::new(GEMINI);
    let task = "MARK-ONE [[bash sleep 600]]";
    let session = stage.spawn(task, &["--permission", "full"]);
    let tree = || {
        let mut all = at_home(&stage);
        all.retain(|_, line| line.contains("gemini") || line.contains("sleep 600"));
        all
    };
    let whole = || {
        let tree = tree();
        let nodes = tree.values().filter(|line| line.contains("node")).count();
        (nodes >= 2 && tree.values().any(|l| l.starts_with("sleep 600"))).then_some(tree)
    };
    let whole = eventually(whole, || format!("{:?}", at_home(&stage)));
    stage.json(&["kill", &session]);
    eventually(
        || whole.keys().all(|pid| !alive(*pid)).then_some(()),
        || format!("{whole:?}, of which {:?}", tree()),
    );
    assert_eq!(tree(), BTreeMap::new());
}

fn driver_leaves_nothing(program: Program) {
    let stage = Stage::new(program);
    let session = stage.spawn("MARK-ONE [[say one]]", &[]);
    stage.until_status(&session, "idle");
    let others = || {
        let mut all = at_home(&stage);
        all.retain(|_, line| !line.contains(" daemon run"));
        all
    };
    assert!(others().len() >= 2, "{:?}", others());
    end(stage.pid(&session));
    stage.until_status(&session, "failed");
    eventually(
        || others().is_empty().then_some(()),
        || format!("{:?}", others()),
    );
}

each! { driver_leaves_nothing:
    heavy_opencode_dies_with_its_driver: OPENCODE.via("native"),
    heavy_codex_dies_with_its_driver: CODEX.via("native"),
}

const SLOW: &str = "[[slow 600 one two three four five six seven eight]]";

#[test]
fn heavy_an_interrupted_turn_of_claude_code_is_seen_although_no_hook_tells_it() {
    let stage = Stage::new(CLAUDE);
    let session = stage.spawn(&format!("MARK-SLOW {SLOW}"), &["--permission", "full"]);
    stage.heard("MARK-SLOW");
    stage.until_status(&session, "working");
    stage.json(&["interrupt", &session]);
    stage.until_status(&session, "idle");
    stage.asked("an answer that was cut short", |e| {
        e.outcome == Some(ExchangeOutcome::Gone)
    });
    let after = stage.post(&session, "MARK-AFTER [[say done]]");
    stage.until_receipt(&after, &["turn_started"]);
    stage.heard("MARK-AFTER");
    stage.until_status(&session, "idle");
}

#[test]
fn heavy_l3_a_state_that_claude_code_left_behind_is_not_believed() {
    let stage = Stage::new(CLAUDE);
    let session = stage.spawn(&format!("MARK-SLOW {SLOW}"), &["--permission", "full"]);
    stage.heard("MARK-SLOW");
    stage.until_status(&session, "working");
    let pid = stage.pid(&session);
    let file = stage
        .fleet
        .home
        .user()
        .join(format!(".claude/sessions/{pid}.json"));
    let left = || {
        let state: Value = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        (state["status"] == "busy").then_some(())
    };
    eventually(left, || format!("{} is not busy", file.display()));
    end(pid);
    stage.until(&session, "an end", |s| s["phase"] == "ended");
    eventually(left, || {
        "the trap is not laid: the state went with its process".into()
    });
    stage.json(&["restore", &session]);
    let idle = stage.until_status(&session, "idle");
    assert_ne!(idle["runtime"]["pid"].as_i64(), Some(i64::from(pid)));
    let after = stage.post(&session, "MARK-AFTER [[say done]]");
    stage.until_receipt(&after, &["turn_started"]);
    stage.heard("MARK-AFTER");
    stage.until_status(&session, "idle");
}

/// More than 100 kB.
fn long_lines() -> Vec<String> {
    let line =
        |n| format!("line {n:04}: all work and no play makes a dull message, and a long one");
    (0..1600).map(line).collect()
}

/// One message, and one turn. How long a program that draws it all takes to say that it took it, nobody knows.
fn paste(stage: &Stage, message: &str) {
    let session = stage.spawn("MARK-ONE [[say one]]", &["--permission", "full"]);
    stage.until_status(&session, "idle");
    assert!(message.len() > 100_000);
    let receipt = stage.post(&session, message);
    stage.until_receipt(&receipt, &["submitted", "turn_started"]);
    stage.heard("MARK-LONG");
    stage.until_file(&stage.folder(&session).join("long.txt"));
    stage.until_status(&session, "idle");
    assert_eq!(stage.times_heard("MARK-LONG"), 1, "one message, one turn");
}

/// What is pasted becomes a file, so that every byte of it is compared.
fn long_paste_arrives(program: Program) {
    let stage = Stage::new(program);
    let content = long_lines().join("\n");
    paste(
        &stage,
        &format!("MARK-LONG [[write long.txt {content} ;; say done]]"),
    );
    let written = fs::read_to_string(stage.folder("api-1").join("long.txt")).unwrap();
    let lengths = (written.len(), content.len());
    assert!(written.trim_end() == content, "{lengths:?} bytes");
}

each! { long_paste_arrives:
    heavy_l6_a_long_paste_arrives_whole_at_claude_code: CLAUDE,
    heavy_l6_a_long_paste_arrives_whole_at_gemini: GEMINI,
    heavy_l6_a_long_paste_arrives_whole_at_opencode: OPENCODE,
}

/// What stands at its end is obeyed, and all of it is in the conversation that the program keeps: Codex' tool for
/// files is the shell, which takes no text that long, and aider takes minutes to draw such an answer.
fn long_paste_is_kept(program: Program) {
    let stage = Stage::new(program);
    let lines = long_lines();
    let task = "[[write long.txt short ;; say done]]";
    paste(&stage, &format!("MARK-LONG {} {task}", lines.join("\n")));
    let kept = stage.transcripts();
    let mut rest = kept.as_str();
    for line in &lines {
        let at = rest.find(line.as_str());
        rest = &rest[at.unwrap_or_else(|| panic!("{line} did not arrive in its place"))..];
    }
}

each! { long_paste_is_kept:
    heavy_l6_a_long_paste_arrives_whole_at_codex: CODEX,
    heavy_l6_a_long_paste_arrives_whole_at_aider: AIDER,
}

/// Our own input is a pipe that stays open and silent, when daemon and agent are started by it.
fn open_input_hangs_nothing(program: Program) {
    let stage = Stage::new(program);
    stage.fleet.kill_daemon();
    let agent = [
        "--agent",
        program.agent,
        "--via",
        program.via,
        "--permission",
        "full",
    ];
    let task = [
        "--json",
        "spawn",
        "--project",
        "api",
        "MARK-ONE [[bash cat ;; say done]]",
    ];
    let mut command = stage.command(&[&task[..], &agent].concat());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let held = child.stdin.take();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    let session = text(&ran.document()["id"]);
    stage.heard("MARK-ONE");
    let idle = stage.until_status(&session, "idle");
    assert_eq!(idle["turns"], 1, "{idle}");
    drop(held);
}

each! { open_input_hangs_nothing:
    heavy_input_left_open_does_not_hang_claude_code: CLAUDE,
    heavy_input_left_open_does_not_hang_codex: CODEX,
    heavy_input_left_open_does_not_hang_opencode: OPENCODE,
}

fn may_do_everything(stage: &Stage) {
    let session = stage.spawn(
        "MARK-ONE [[write who.txt me ;; say done]]",
        &["--permission", "full"],
    );
    stage.heard("MARK-ONE");
    let file = stage.folder(&session).join("who.txt");
    stage.until_file(&file);
    let idle = stage.until_status(&session, "idle");
    assert_eq!(idle["turns"], 1, "{idle}");
    assert_eq!(fs::metadata(file).unwrap().uid(), stage.uid());
    stage.json(&["kill", &session]);
    stage.fleet.until_no_agents();
}

#[expect(
    clippy::print_stderr,
    reason = "who reads the log should know what was not tried"
)]
fn may_do_everything_as_somebody_else(program: Program) {
    let able = rustix::process::geteuid().is_root() && Path::new("/usr/bin/setpriv").exists();
    if !able {
        eprintln!("skipped: becoming another user takes root and setpriv");
        return;
    }
    may_do_everything(&Stage::of(&[program], Who::Nobody));
}

#[test]
fn heavy_claude_code_may_be_let_do_everything_by_whoever_runs_the_tests() {
    may_do_everything(&Stage::new(CLAUDE));
}

each! { may_do_everything_as_somebody_else:
    heavy_claude_code_may_be_let_do_everything_by_a_user_without_rights: CLAUDE,
    heavy_codex_may_be_let_do_everything_by_a_user_without_rights: CODEX,
    heavy_gemini_may_be_let_do_everything_by_a_user_without_rights: GEMINI,
    heavy_opencode_may_be_let_do_everything_by_a_user_without_rights: OPENCODE,
}

/// Programs ask the model for a title of what they do; that is nobody's turn.
fn titles_are_no_turns(program: Program) {
    let stage = Stage::new(program);
    let session = stage.spawn(
        "MARK-ONE [[bash echo hello ;; say done]]",
        &["--permission", "full"],
    );
    stage.heard("MARK-ONE");
    stage.asked_for_itself();
    let idle = stage.until_status(&session, "idle");
    assert_eq!(idle["turns"], 1, "{idle}");
    let after = stage.post(&session, "MARK-AFTER [[say done]]");
    stage.until_receipt(&after, &["turn_started"]);
    stage.heard("MARK-AFTER");
    let idle = stage.until(&session, "a second turn", |s| {
        s["status"] == "idle" && s["turns"] != 1
    });
    assert_eq!(idle["turns"], 2, "{idle}");
}

each! { titles_are_no_turns:
    heavy_a_title_that_codex_makes_is_no_turn: CODEX,
    heavy_a_title_that_opencode_makes_is_no_turn: OPENCODE,
}

/// Whoever is to be asked is asked before files are changed; what was not asked for changes nothing.
fn changes_nothing_unasked(program: Program) {
    let stage = Stage::new(program);
    let edit = |file: &str| {
        format!(
            "bash apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {file}\n+hello\n*** End Patch\nEOF"
        )
    };
    let task = format!(
        "MARK-ONE [[bash touch unasked.txt ;; {} ;; say done]]",
        edit("yes.txt")
    );
    let session = stage.spawn(&task, &["--permission", "ask"]);
    let folder = stage.folder(&session);
    if program.via == "native" {
        // Here every command is asked about, not only what leaves the sandbox.
        stage.until(&session, "a question about a command", |s| {
            s["question"].to_string().contains("unasked.txt")
        });
        stage.answer(&session, "no");
    }
    stage.until(&session, "a question about the edit", |s| {
        s["question"].to_string().contains("yes.txt")
    });
    assert!(!folder.join("yes.txt").exists());
    stage.answer(&session, "yes");
    stage.until_file(&folder.join("yes.txt"));
    stage.until_status(&session, "idle");
    assert!(!folder.join("unasked.txt").exists());
    let no = format!("MARK-NO [[{} ;; say done]]", edit("no.txt"));
    stage.post(&session, &no);
    stage.until(&session, "another question", |s| {
        s["question"].to_string().contains("no.txt")
    });
    stage.answer(&session, "no");
    stage.until_status(&session, "idle");
    assert!(!folder.join("no.txt").exists());
}

each! { changes_nothing_unasked:
    heavy_codex_that_is_to_ask_changes_nothing_unasked: CODEX,
    heavy_codex_that_is_to_ask_changes_nothing_unasked_by_its_protocol: CODEX.via("native"),
    heavy_codex_that_is_to_ask_changes_nothing_unasked_by_acp: CODEX.via("acp"),
}

#[test]
fn heavy_claude_code_says_the_hour_until_which_a_limit_lasts_and_goes_on_once() {
    let stage = Stage::on_a_plan();
    let more = ["--permission", "full", "--resume-after-limit"];
    let task = "MARK-ONE [[bash true ;; rate-limit 20 ;; say done]]";
    let session = stage.spawn(task, &more);
    let limited = stage.until(&session, "a limit with its end", |s| {
        let reason = s["status_reason"].as_str().unwrap_or_default();
        s["status"] == "blocked" && reason.contains("until 2")
    });
    let reason = text(&limited["status_reason"]);
    // It has two ways to say it, one after the other.
    let says = |words: &&str| reason.contains(words);
    let ways = ["hit your 5-hour limit", "Usage limit reached"];
    assert!(ways.iter().any(says), "{reason}");
    assert!(reason.ends_with(":00 UTC"), "it told a minute: {reason}");
    // It goes on by itself when the limit is over; then nobody else tells it to.
    stage.heard("continue");
    stage.until_status(&session, "idle");
    let last = stage.post(&session, "MARK-LAST [[say done]]");
    stage.until_receipt(&last, &["turn_started"]);
    stage.heard("MARK-LAST");
    stage.until_status(&session, "idle");
    let turns = stage.turns();
    let told: Vec<_> = turns
        .iter()
        .filter_map(|e| e.last_user.as_deref())
        .collect();
    assert_eq!(
        told,
        [task, task, "continue", "MARK-LAST [[say done]]"],
        "once"
    );
}

#[test]
fn heavy_codex_says_until_when_a_limit_lasts_and_goes_on_by_itself() {
    let stage = Stage::new(CODEX);
    let more = ["--permission", "full", "--resume-after-limit"];
    let session = stage.spawn("MARK-ONE [[rate-limit 8 ;; say done]]", &more);
    // Its end is told with it, and not a moment later.
    let wait = [
        "wait",
        &session,
        "--until",
        "blocked,idle",
        "--timeout",
        "60s",
    ];
    let blocked = stage.json(&wait);
    assert_eq!(blocked["status"], "blocked", "{blocked}");
    let reason = blocked["status_reason"].as_str().unwrap_or_default();
    assert!(reason.contains("until 2"), "{blocked}");
    stage.heard("continue");
    stage.until_status(&session, "idle");
}

#[test]
fn heavy_gemini_waits_out_a_short_limit_and_says_until_when_a_long_one_lasts() {
    let stage = Stage::new(GEMINI);
    let task = "MARK-ONE [[rate-limit 3 ;; say done]]";
    let session = stage.spawn(task, &["--permission", "full"]);
    stage.asked("once more", |e| e.step == Some(1));
    let idle = stage.until_status(&session, "idle");
    assert_eq!(idle["turns"], 1, "{idle}");
    stage.post(&session, "MARK-TWO [[rate-limit 900 ;; say done]]");
    let limited = stage.until_status(&session, "blocked");
    let reason = text(&limited["status_reason"]);
    assert!(reason.contains("Access resets at "), "{reason}");
    assert!(reason.ends_with(":00 UTC"), "it told a minute: {reason}");
    // Nothing is typed into what it shows then.
    let waits = stage.post(&session, "2 MARK-WAITS [[say done]]");
    assert_eq!(stage.fleet.receipt(&waits)["state"], "accepted");
}
