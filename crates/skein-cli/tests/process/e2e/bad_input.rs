//! L13: bad input gets a clear error with a hint, never a panic, and changes nothing.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;

use serde_json::json;

use crate::harness::{Call, Home, Ran, hostile};

fn assert_misused(ran: &Ran, what: &dyn std::fmt::Debug) {
    assert!([2, 3].contains(&ran.code), "{what:?}: {ran:?}");
    assert_eq!(ran.stdout, "", "{what:?}");
    let error = ran.error();
    let message = error["message"].as_str().unwrap();
    assert!(
        message.len() < 2000,
        "a huge value is not repeated whole: {}",
        message.len()
    );
    // What comes back must be safe to show on a terminal.
    assert!(!message.chars().any(char::is_control), "{message:?}");
}

/// Runs the table against a home and sees that the ledger stays as it is.
fn unchanged(home: &Home, attempts: impl FnOnce(&Home)) {
    let before = home.ledger();
    attempts(home);
    assert_eq!(home.ledger(), before);
    home.assert_verified();
}

/// Every option that takes a name meets a third of the texts, and every text a third of the options.
#[test]
fn l13_hostile_names_ids_and_actors_are_refused_by_the_command_line() {
    every_third_is_refused(0..1);
}

#[test]
fn heavy_l13_every_hostile_name_is_refused_by_every_command() {
    every_third_is_refused(1..3);
}

/// Of all pairs of a text and a command, those whose numbers add up to one of `parts`, modulo three.
fn every_third_is_refused(parts: Range<usize>) {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    unchanged(&home, |home| {
        for (number, bad) in hostile().into_iter().enumerate() {
            if bad.len() > 100_000 {
                continue; // longer than an argument may be; sent as a body below
            }
            let given = |flag: &str| format!("{flag}={bad}");
            let commands: Vec<Vec<String>> = [
                vec!["project", "add", "--no-folder", &given("--name")],
                vec![
                    "project",
                    "add",
                    "--no-folder",
                    "--name=good",
                    &given("--prefix"),
                ],
                vec!["project", "show", "--", &bad],
                vec!["project", "rm", "--", &bad],
                vec!["thread", "show", "--", &bad],
                vec!["thread", "archive", "--", &bad],
                vec!["show", "--", &bad],
                vec!["tree", "--", &bad],
                vec!["kill", "--", &bad],
                vec!["session", "begin-turn", "--", &bad],
                vec!["handoff", &session, &given("--to")],
                vec!["handoff", "--to=user:x", "--", &bad],
                vec!["spawn", "t", "--project=api", &given("--owner")],
                vec!["spawn", "t", "--project=api", &given("--agent")],
                vec!["spawn", "t", "--project=api", &given("--workspace")],
                vec!["spawn", "t", &given("--project")],
                vec!["spawn", "t", &given("--thread")],
                vec!["spawn", "t", &given("--parent")],
                vec!["token", "new", &given("--actor"), "good"],
                vec!["token", "new", "--", &bad],
                vec!["token", "rm", "--", &bad],
                vec!["ls", &given("--tenant")],
                vec!["ls", &given("--cursor")],
                vec!["ls", &given("--limit")],
                vec!["ls", &given("--thread")],
                vec!["events", &given("--since")],
                vec!["events", &given("--session")],
                vec!["wait", &session, "--until=done", &given("--timeout")],
            ]
            .into_iter()
            .map(|args| args.into_iter().map(str::to_owned).collect())
            .collect();
            let chosen = |at: usize| parts.contains(&((at + number) % 3));
            for (_, args) in commands
                .into_iter()
                .enumerate()
                .filter(|(at, _)| chosen(*at))
            {
                let ran = home.run(&[vec!["--json".to_owned()], args.clone()].concat());
                assert_misused(&ran, &args);
            }
        }
    });
}

#[test]
fn l13_hostile_titles_tasks_and_texts_are_refused_or_kept_as_they_are() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    for bad in [
        "",
        "  ",
        "a\u{7}b",
        "a\nb",
        "\u{202e}x",
        "zero\u{200b}width",
        &"x".repeat(201),
    ] {
        let ran = home.run(&["--json", "thread", "new", "--project", "api", "--", bad]);
        assert_misused(&ran, &bad);
    }
    for bad in ["", " \n ", "a\u{7}b", "a\u{1b}[2Jb"] {
        assert_misused(
            &home.run(&["--json", "spawn", "--project", "api", "--", bad]),
            &bad,
        );
        let ended = [
            "--json",
            "session",
            "end",
            &session,
            &format!("--reason={bad}"),
        ];
        assert_misused(&home.run(&ended), &bad);
    }
    let huge = "x".repeat(5000);
    assert_misused(
        &home.run(&["--json", "summary", "set", &session, "--", &huge]),
        &"summary",
    );
    assert_eq!(home.json(&["ls"])["data"].as_array().unwrap().len(), 1);
    assert_eq!(
        home.json(&["thread", "ls"])["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // What is allowed comes back as it was given, and is shown without harm.
    for good in [
        "--upload-pack=touch /tmp/x",
        "../../etc/passwd",
        "Größe 💥 日本",
        "a; rm -rf /",
    ] {
        let thread = home.json(&["thread", "new", "--project", "api", "--", good]);
        assert_eq!(thread["title"], good);
    }
    let task = "first line\n\tsecond \u{202e}line";
    let made = home.json(&["spawn", "--project", "api", "--", task]);
    assert_eq!(made["task"], task);
    let shown = home.run(&["ls"]);
    assert!(!shown.stdout.contains('\u{202e}'), "{shown:?}");
}

#[test]
fn l13_arguments_that_are_not_utf_8_are_misuse() {
    let home = Home::with_project();
    let bad = || OsString::from_vec(b"a\xff\xfeb".to_vec());
    unchanged(&home, |home| {
        let text = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
        for mut args in [
            text(&["--json", "show"]),
            text(&["--json", "spawn", "--project", "api"]),
            text(&["--json", "spawn", "t", "--project"]),
            text(&["--json", "project", "add"]),
            text(&["--json", "thread", "new", "--project", "api"]),
            text(&["--json", "--tenant"]),
            text(&["--json", "spawn", "--project", "api", "--from"]),
            text(&["--json"]),
        ] {
            args.push(bad());
            assert_misused(&home.run(&args), &args);
        }
        let folder = home.user().join(bad());
        std::fs::create_dir(&folder).unwrap();
        let here = home
            .command(&["--json", "project", "add"])
            .current_dir(&folder)
            .output();
        assert_misused(&Ran::from(here.unwrap()), &folder);
        for name in ["SKEIN_TENANT", "SKEIN_ACTOR", "SKEIN_URL"] {
            let ran = home
                .command(&["--json", "ls"])
                .env(name, bad())
                .output()
                .unwrap();
            assert_misused(&Ran::from(ran), &name);
        }
    });
    // A home whose name is not UTF-8 is a folder like any other.
    let odd = Home::with_root(home.user().join(OsStr::new(&bad())).join("home"));
    assert_eq!(odd.run(&["--json", "project", "ls"]).code, 0);
}

#[test]
fn l13_environments_are_checked_like_arguments() {
    let home = Home::with_project();
    for (name, bad) in [
        ("SKEIN_TENANT", "../x"),
        ("SKEIN_TENANT", "Default"),
        ("SKEIN_TENANT", "a\r\nskein-actor: system"),
        ("SKEIN_ACTOR", "root"),
        ("SKEIN_ACTOR", "user:a b"),
        ("SKEIN_ACTOR", "user:a\r\nx: y"),
        ("SKEIN_URL", "ftp://127.0.0.1"),
        ("SKEIN_URL", "not a url"),
        ("SKEIN_URL", "http://"),
    ] {
        let ran = home
            .command(&["--json", "ls"])
            .env(name, bad)
            .output()
            .unwrap();
        let ran = Ran::from(ran);
        assert_eq!(ran.code, 2, "{name}={bad:?}: {ran:?}");
        ran.error();
    }
}

#[test]
fn l13_wrong_command_lines_are_misuse_and_name_what_was_meant() {
    let home = Home::new();
    for (args, hint) in [
        (&["--json"][..], ""),
        (&["--json", "spwan"], "spawn"),
        (&["--json", "ls", "--al"], "--all"),
        (&["--json", "project"], ""),
        (&["--json", "project", "ad"], "add"),
        (&["--json", "handoff", "x-1"], ""),
        (&["--json", "handoff", "x-1", "--to"], ""),
        (&["--json", "spawn"], ""),
        (&["--json", "events", "--since", "-1"], ""),
        (&["--json", "events", "--since", "99999999999999999999"], ""),
        (&["--json", "ls", "--limit", "1e3"], ""),
        (&["--json", "ls", "extra"], ""),
        (&["--json", "completion", "tcsh"], "bash"),
        (&["--json", "token", "new", "x", "--role", "root"], "admin"),
        (
            &["--json", "session", "end", "x-1", "--outcome", "won"],
            "done",
        ),
        (&["--json", "spawn", "x", "--budget", "lots"], ""),
        (&["--json", "spawn", "x", "--budget", "-5"], ""),
        (
            &[
                "--json",
                "summary",
                "set",
                "x-1",
                "t",
                "--deliverable",
                "car:x",
            ],
            "file:",
        ),
        (&["--json", "project", "add", "--no-folder"], "--name"),
        (&["--json", "spawn", "--from", "/nowhere/at/all"], ""),
        (&["--json", "daemon", "run", "--log-level", "[[["], ""),
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert_eq!(ran.stdout, "");
        let error = ran.error();
        assert_eq!(error["kind"], "misuse");
        assert!(error.to_string().contains(hint), "{args:?}: {error}");
        let people = home.run(&args[1..]);
        assert_eq!(people.code, 2, "{people:?}");
        assert!(
            people.stderr.contains("error:") || people.stderr.contains("Usage:"),
            "{people:?}"
        );
    }
    assert!(
        home.pid().is_none(),
        "nothing was started for a command line that makes no sense"
    );
}

#[test]
fn l13_unknown_settings_name_the_nearest_key() {
    let home = Home::new();
    let folder = home.user().join("repo");
    std::fs::create_dir_all(&folder).unwrap();
    let config = home.user().join(".config/skein");
    std::fs::create_dir_all(&config).unwrap();
    let file = folder.join("skein.toml");
    let add = ["--json", "project", "add", folder.to_str().unwrap()];
    for (text, nearest) in [
        ("[limits]\ndepht = 1\n", "limits.depth"),
        ("[retention]\nidle_tll = \"1d\"\n", "retention.idle_ttl"),
        ("[projcet]\nname = \"x\"\n", "project"),
        ("width = 1\n", "limits.width"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = home.run(&add);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            ran.error()["hints"].to_string().contains(nearest),
            "{ran:?}"
        );
    }
    for text in [
        "[limits\n",
        "limits = 3\n",
        "[limits]\ndepth = \"x\"\n",
        "\u{0}\u{1}",
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = home.run(&add);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            ran.error()["message"]
                .as_str()
                .unwrap()
                .contains("skein.toml"),
            "{ran:?}"
        );
    }
    std::fs::write(&file, b"[limits]\n# \xff\ndepth = 1\n").unwrap();
    assert_eq!(home.run(&add).code, 2);
    std::fs::remove_file(&file).unwrap();
    // The daemon's own settings stop it with the same words, whoever starts it.
    std::fs::write(
        config.join("config.toml"),
        "[daemon]\nlisen = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    for args in [
        &["--json", "daemon", "start"][..],
        &["--json", "daemon", "run"],
        &["--json", "ls"],
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(
            ran.error()["hints"].to_string().contains("daemon.listen"),
            "{ran:?}"
        );
    }
    assert!(home.json_fails_without_a_daemon());
}

impl Home {
    fn json_fails_without_a_daemon(&self) -> bool {
        self.run(&["--json", "daemon", "status"]).code == 6
    }
}

#[test]
fn l13_absurd_numbers_are_refused_or_kept_exactly() {
    let home = Home::with_project();
    let session = home.spawn(&["work", "--budget", "1000"]);
    home.json(&["session", "begin-turn", &session]);
    let end = format!("/api/v1/sessions/{session}/end-turn");
    for bad in [
        r#"{"cost_usd": -1}"#,
        r#"{"cost_usd": 1e300}"#,
        r#"{"cost_usd": 1e999}"#,
        r#"{"cost_usd": "1"}"#,
        r#"{"input_tokens": -1}"#,
        r#"{"input_tokens": 18446744073709551616}"#,
        r#"{"run": -1}"#,
    ] {
        let call = Call::new("POST", &end)
            .header("content-type", "application/json")
            .body(bad);
        home.call(&call).error(400);
    }
    assert_eq!(home.show(&session)["phase"], "active");
    let beyond = json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX});
    home.call(&Call::post(&end, &beyond)).error(400);
    assert_eq!(home.show(&session)["phase"], "active");
    let most = json!({"input_tokens": 500_000_000_000_u64, "cost_usd": 0.1});
    let after = home.call(&Call::post(&end, &most)).ok();
    assert_eq!(after["usage"]["input_tokens"], 500_000_000_000_u64);
    assert_eq!(after["usage"]["cost_usd"], 0.1);
    // Spent beyond all measure, it can do no more, but nothing overflowed.
    let error = home.error(5, &["session", "begin-turn", &session]);
    assert_eq!(error["details"]["rule"], "budget");
    home.error(5, &["spawn", "part", "--parent", &session]);
    for bad in ["NaN", "inf", "-0.1", "1e10"] {
        let ran = home.run(&[
            "--json",
            "session",
            "end-turn",
            &session,
            &format!("--cost-usd={bad}"),
        ]);
        assert_eq!(ran.code, 2, "{bad}: {ran:?}");
    }
    home.assert_verified();
}

#[test]
fn l13_wrong_phases_are_conflicts_that_say_what_to_do() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    unchanged(&home, |home| {
        for args in [
            &["session", "end-turn", &session][..],
            &["session", "ask", &session, "?"],
            &["answer", &session, "x"],
            &["session", "withdraw", &session],
            &["restore", &session],
            &["session", "begin-turn", &session, "--run", "7"],
            &[
                "session",
                "begin-turn",
                &session,
                "--expect-owner-version",
                "7",
            ],
            &[
                "handoff",
                &session,
                "--to",
                "user:x",
                "--expect-version",
                "7",
            ],
            &["merge", &session, "--from", &session],
        ] {
            let ran = home.run(&[&["--json"], args].concat());
            assert!([4, 5].contains(&ran.code), "{args:?}: {ran:?}");
            let error = ran.error();
            assert_eq!(
                error["kind"],
                if ran.code == 4 { "conflict" } else { "refused" }
            );
        }
        for args in [
            &["broadcast", &session, "--to", "user:x"][..],
            &["broadcast", &session, "--to", "user:x", "--to", "user:x"],
        ] {
            assert_eq!(home.error(2, args)["kind"], "misuse");
        }
        let error = home.error(5, &["handoff", &session, "--to", "user:tester"]);
        assert_eq!(error["details"]["rule"], "same_owner");
    });
}

#[test]
fn l13_input_from_files_and_stdin_is_checked() {
    let home = Home::with_project();
    let spawn = ["--json", "spawn", "--project", "api", "--from", "-"];
    for bad in [
        &b""[..],
        b"\n\n# only a comment\n",
        b"\xff\xfe",
        &[b'x'; 5 << 20],
    ] {
        assert_misused(&home.run_with_input(&spawn, bad), &bad.len());
    }
    assert_eq!(home.json(&["ls"])["data"], json!([]));
    let made = home
        .run_with_input(&spawn, b"one\n\n# no\ntwo\r\n")
        .document();
    assert_eq!(made["data"].as_array().unwrap().len(), 2);
    // A bad task in the middle: nothing is made, and its line is named.
    let ran = home.run_with_input(&spawn, b"three\nfo\x07ur\nfive\n");
    assert_misused(&ran, &"a bad line");
    let message = ran.error()["message"].to_string();
    assert!(message.contains("line 2 of"), "{message}");
    assert_eq!(home.json(&["ls"])["data"].as_array().unwrap().len(), 2);
}
