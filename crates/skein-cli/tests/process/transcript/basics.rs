//! What is said is kept, shown, found and written out.

use serde_json::json;

use crate::harness::Home;
use crate::transcript::{ids, kinds, say};

const TALK: &str = r#"{"id":"u1","role":"user","text":"please fix the login form"}
{"id":"a1","role":"assistant","content":[{"type":"thinking","text":"hm\nwell"},{"type":"tool_call","id":"c1","name":"bash","input":{"command":"ls src"}}],"usage":{"input_tokens":10,"output_tokens":5,"cost_usd":0.5}}

{"id":"t1","role":"tool","content":[{"type":"tool_result","call":"c1","content":[{"type":"text","text":"one\ntwo\nthree"}]}]}
{"id":"a2","role":"assistant","text":"It was <b>bold</b>; done."}
"#;

fn talk(home: &Home) -> String {
    let session = home.spawn(&["talk"]);
    let args = ["--json", "transcript", "append", &session];
    let ran = home.run_with_input(&args, TALK.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.document()["added"], 4);
    session
}

#[test]
fn l10_what_is_said_is_there_once_and_after_a_restart() {
    let home = Home::with_project();
    let session = talk(&home);
    let again = ["--json", "transcript", "append", &session];
    let again = home.run_with_input(&again, TALK.as_bytes()).document();
    assert_eq!((&again["added"], &again["already"]), (&json!(0), &json!(4)));
    home.kill();
    assert_eq!(ids(&home, &session), ["u1", "a1", "t1", "a2"]);
    let shown = home.show(&session);
    assert_eq!(shown["transcript"]["messages"], 4);
    assert_eq!(shown["transcript"]["tier"], "hot");
    assert_eq!(shown["forked_from"], json!(null));
    // A transcript is its own log: what is said leaves no event.
    assert_eq!(kinds(&home, &session), ["session.spawned"]);
    let listed = home.json(&["ls"]);
    assert_eq!(listed["data"][0].get("transcript"), None, "lists read none");
}

#[test]
fn a_session_that_said_nothing_has_an_empty_transcript() {
    let home = Home::with_project();
    let session = home.spawn(&["quiet"]);
    assert_eq!(ids(&home, &session), Vec::<String>::new());
    assert_eq!(home.show(&session).get("transcript"), None);
    let ran = home.run(&["transcript", "show", &session]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert!(ran.stderr.contains("no messages"), "{ran:?}");
    assert_eq!(
        home.json(&["transcript", "state", "show", &session])["version"],
        0
    );
    assert_eq!(home.json(&["transcript", "flush", &session])["entries"], 0);
}

#[test]
fn people_see_headings_lines_for_tools_and_no_colour_in_a_pipe() {
    let home = Home::with_project();
    let session = talk(&home);
    let shown = home.run(&["transcript", "show", &session]).stdout;
    for wanted in [
        "User  ",
        "  please fix the login form\n",
        "  · thinking (2 lines)\n",
        "  → bash ls src\n",
        "  ← one  (3 lines)\n",
        "  It was <b>bold</b>; done.\n",
    ] {
        assert!(shown.contains(wanted), "{wanted:?} in {shown}");
    }
    assert!(!shown.contains('\u{1b}') && !shown.contains("two"));
    let full = home.run(&["transcript", "show", &session, "--full"]).stdout;
    assert!(full.contains("  two\n  three\n"), "{full}");
    let last = home.json(&["transcript", "show", &session, "--last", "2"]);
    assert_eq!(last["data"][0]["id"], "t1");
    let page = home.json(&["transcript", "show", &session, "--limit", "3"]);
    assert_eq!(page["data"].as_array().unwrap().len(), 3);
    let cursor = page["next"].as_str().unwrap();
    let rest = home.json(&["transcript", "show", &session, "--cursor", cursor]);
    assert_eq!(
        (&rest["data"][0]["id"], &rest["next"]),
        (&json!("a2"), &json!(null))
    );
}

#[test]
fn search_finds_in_all_sessions_and_filters() {
    let home = Home::with_project();
    let session = talk(&home);
    home.json(&["project", "add", "--no-folder", "--name", "web"]);
    let args = ["spawn", "--project", "web", "--agent", "none", "other"];
    let other = home.json(&args)["id"].as_str().unwrap().to_owned();
    say(
        &home,
        &other,
        "assistant",
        "x1",
        "the login page of the web",
    );
    let find = |args: &[&str]| -> Vec<String> {
        let list = home.json(&[&["transcript", "search"], args].concat());
        let hits = list["data"].as_array().unwrap().iter();
        let mut found: Vec<String> = hits
            .map(|h| {
                let excerpt: Vec<char> = h["excerpt"].as_str().unwrap().chars().collect();
                for mark in h["marks"].as_array().unwrap() {
                    let at = |n: usize| mark[n].as_u64().unwrap() as usize;
                    let word: String = excerpt[at(0)..at(1)].iter().collect();
                    assert!(!word.trim().is_empty(), "{h}");
                }
                format!(
                    "{}/{}",
                    h["session"].as_str().unwrap(),
                    h["message"].as_str().unwrap()
                )
            })
            .collect();
        found.sort();
        found
    };
    let (u1, x1) = (&*format!("{session}/u1"), &*format!("{other}/x1"));
    assert_eq!(find(&["login"]), [u1, x1]);
    assert_eq!(find(&["login", "web"]), [x1]);
    assert_eq!(find(&["\"login form\""]), [u1]);
    assert_eq!(find(&["login", "--session", &session]), [u1]);
    assert_eq!(find(&["login", "--project", "web"]), [x1]);
    assert_eq!(find(&["login", "--role", "assistant"]), [x1]);
    assert_eq!(find(&["login", "--since", "1h"]), [u1, x1]);
    assert_eq!(find(&["login", "--since", "2100-01-01T00:00:00Z"]), [""; 0]);
    assert_eq!(find(&["three"]), [format!("{session}/t1")]);
    home.kill();
    // The first search after a crash catches up.
    say(&home, &other, "user", "x2", "zebra");
    home.kill();
    assert_eq!(find(&["zebra"]), [format!("{other}/x2")]);
    // Another tenant finds nothing, and its words change no ranks.
    let list = home.json_as("elsewhere", &["transcript", "search", "login"]);
    assert_eq!(list["data"], json!([]));
    let human = home.run(&["transcript", "search", "zebra"]);
    assert!(human.stdout.contains("    zebra"), "{human:?}");
    let human = home.run(&["transcript", "search", "three"]);
    assert!(human.stdout.contains("one two three"), "{human:?}");
    assert_eq!(find(&["zebr"]), [""; 0], "words are meant whole");
    let zebra = [format!("{other}/x2")];
    assert_eq!(find(&["zebr*"]), zebra);
    assert_eq!(find(&["\"zebr*"]), zebra);
    let list = home.json(&["transcript", "search", "zeb*"]);
    assert_eq!(list["data"][0]["marks"], json!([[0, 5]]), "the whole word");
    for odd in ["*", "**", "\"*\""] {
        home.error(2, &["transcript", "search", odd]);
    }
    for odd in ["a*b", "a**", "\"a*\"", "*a\"", &"x*".repeat(499)] {
        assert_eq!(find(&[odd]), [""; 0], "{odd}");
    }
}

#[test]
fn exports_are_lines_markdown_a_page_or_a_snapshot() {
    let home = Home::with_project();
    let session = talk(&home);
    let export = |format: &str| {
        home.run(&["transcript", "export", &session, "--format", format])
            .stdout
    };
    let lines = export("jsonl");
    assert_eq!(lines.lines().count(), 4);
    let copy = home.spawn(&["copy"]);
    let ran = home.run_with_input(&["transcript", "append", &copy], lines.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        home.json(&["transcript", "show", &copy])["data"][1]["content"],
        home.json(&["transcript", "show", &session])["data"][1]["content"]
    );
    let markdown = export("markdown");
    assert!(markdown.contains("\n## Assistant · ") && markdown.contains("**→ bash**"));
    let page = export("html");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("&lt;b&gt;bold&lt;/b&gt;") && !page.contains("<b>"));
    let blob = home.user().join("blob.gz");
    let path = blob.to_str().unwrap();
    let args = [
        "transcript",
        "export",
        &session,
        "--format",
        "zeitlich",
        "-o",
        path,
    ];
    assert!(home.json(&args)["bytes"].as_u64().unwrap() > 20);
    assert_eq!(std::fs::read(&blob).unwrap()[..2], [0x1f, 0x8b]);
    let target = home.spawn(&["imported"]);
    let import = [
        "transcript",
        "import",
        &target,
        path,
        "--format",
        "zeitlich",
    ];
    assert_eq!(home.json(&import)["added"], 4);
    let again = home.json(&import);
    assert_eq!((&again["added"], &again["already"]), (&json!(0), &json!(4)));
    assert_eq!(ids(&home, &target), ids(&home, &session));
    assert!(kinds(&home, &target).contains(&"transcript.imported".to_owned()));
    // A broken export never takes the place of a file.
    let args = ["transcript", "export", "api-99", "-o", path];
    home.error(3, &args);
    assert!(std::fs::read(&blob).unwrap().len() > 20);
}

#[test]
fn an_export_into_what_is_no_file_leaves_it_what_it_is() {
    let home = Home::with_project();
    let session = talk(&home);
    let lines = home.run(&["transcript", "export", &session]).stdout;
    for stdout in ["-", "/dev/stdout", "/dev/fd/1"] {
        let args = ["transcript", "export", &session, "-o", stdout];
        assert_eq!(home.run(&args).stdout, lines, "{stdout}");
    }
    let shell = |line: &str| {
        let mut command = home.program("/bin/sh");
        let command = command.args(["-c", line, env!("CARGO_BIN_EXE_skein"), &session]);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{line}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let export = "\"$0\" transcript export \"$1\" -o";
    let both = format!("before\n{lines}");
    let appended = format!("echo before > f; {export} /dev/stdout >> f; cat f");
    assert_eq!(shell(&appended), both);
    let appended = format!("echo before > g; {export} /dev/fd/3 3>> g > told; cat g");
    assert_eq!(shell(&appended), both);
    let piped = format!("mkfifo p; cat p & {export} p > told; wait; test -p p");
    assert_eq!(shell(&piped), lines);
}

/// What a command writes on a terminal.
fn on_a_terminal(mut command: std::process::Command) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::Read as _;
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let theirs = ptsname(&ours, vec![]).unwrap().into_string().unwrap();
    let theirs = std::fs::File::options().write(true).open(theirs).unwrap();
    let mut child = command.stdout(theirs).spawn().unwrap();
    // From here on only the child has it open, and its end is ours.
    drop(command);
    let mut shown = vec![];
    let _ = std::fs::File::from(ours).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_pager_that_is_not_there_loses_nothing() {
    let home = Home::with_project();
    let session = talk(&home);
    let last = "It was <b>bold</b>; done.";
    for (pager, told) in [
        ("no-such-pager", last),
        ("sed s/done/shown/", "It was <b>bold</b>; shown."),
        ("cat > /dev/null; echo $LESS", "FRX"),
    ] {
        let mut command = home.command(&["transcript", "show", &session]);
        command.env("PAGER", pager);
        let shown = on_a_terminal(command);
        assert_eq!(shown.matches(told).count(), 1, "{pager}: {shown}");
    }
}

#[test]
fn state_is_compared_and_set() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let set = |expect: &str, body: &str| {
        let args = [
            "--json",
            "transcript",
            "state",
            "set",
            &session,
            "-",
            "--expect",
            expect,
        ];
        home.run_with_input(&args, body.as_bytes())
    };
    let body = r#"{"tasks": {"a": {"subject": "first", "status": "completed"},
        "b": {"subject": "then", "status": "pending", "blocked_by": ["a"]}}, "custom": {"n": [1]}}"#;
    let version = set("0", body).document()["version"].as_u64().unwrap();
    let lost = set("0", "{}");
    assert_eq!(lost.code, 4, "{lost:?}");
    let details = &lost.error()["details"];
    assert_eq!(
        (&details["expected"], &details["actual"]),
        (&json!(0), &json!(version))
    );
    let circle = r#"{"tasks": {"a": {"subject": "x", "status": "pending", "blocked_by": ["a"]}}}"#;
    assert_eq!(set(&version.to_string(), circle).code, 2);
    let shown = home.json(&["transcript", "state", "show", &session]);
    assert_eq!(shown["version"], version);
    assert_eq!(shown["tasks"]["b"]["blocked_by"], json!(["a"]));
    assert_eq!(shown["custom"], json!({"n": [1]}));
}

#[test]
fn summaries_hide_from_models_and_from_nobody_else() {
    let home = Home::with_project();
    let session = talk(&home);
    let compact = [
        "transcript",
        "compact",
        &session,
        "--from",
        "u1",
        "--through",
        "t1",
        "--text",
        "short",
    ];
    assert_eq!(home.json(&compact)["added"], 1);
    assert_eq!(
        home.json(&compact)["already"],
        1,
        "its id follows from what it covers"
    );
    assert_eq!(ids(&home, &session).len(), 5);
    let shown = home.run(&["transcript", "show", &session]).stdout;
    assert_eq!(shown.matches("(hidden by a summary)").count(), 3, "{shown}");
    assert!(shown.contains("Summary of 0 to 2"), "{shown}");
    let model = home.json(&["transcript", "show", &session, "--model"]);
    let texts: Vec<&str> = model["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["short", "It was <b>bold</b>; done."]);
}

#[test]
fn totals_include_children() {
    let home = Home::with_project();
    let session = talk(&home);
    let child = home.spawn(&["below", "--parent", &session]);
    let line =
        r#"{"id":"c","role":"assistant","text":"x","usage":{"input_tokens":7,"cost_usd":0.25}}"#;
    assert_eq!(
        home.run_with_input(&["transcript", "append", &child], line.as_bytes())
            .code,
        0
    );
    let usage = home.json(&["transcript", "usage", &session]);
    assert_eq!(usage["own"]["input_tokens"], 10);
    assert_eq!(usage["total"]["input_tokens"], 17);
    assert_eq!(
        (&usage["total"]["cost_usd"], &usage["sessions"]),
        (&json!(0.75), &json!(2))
    );
    let free = home.spawn(&["free"]);
    say(&home, &free, "user", "m1", "x");
    let shown = home.run(&["transcript", "usage", &free]).stdout;
    assert!(shown.contains("0 reasoning, –\n"), "{shown}");
}
