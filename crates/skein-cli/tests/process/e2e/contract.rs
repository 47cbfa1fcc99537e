//! The interface that scripts depend on: JSON, exit codes, ids, pages, pipes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::{Call, Home, Ran};

/// The leaves of the command tree, as the manual knows them: `thread new` and the like.
pub(crate) fn commands(home: &Home) -> BTreeSet<String> {
    let folder = home.user().join("man");
    let report = home.json(&["man", "--out", folder.to_str().unwrap()]);
    let pages: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(report["pages"].as_array().unwrap().len(), pages.len());
    let names: Vec<&str> = pages
        .iter()
        .map(|p| p.strip_suffix(".1").unwrap())
        .collect();
    names
        .iter()
        .filter(|name| {
            !names
                .iter()
                .any(|other| other.starts_with(&format!("{name}-")))
        })
        // `skein-events` has leaves below it and is a command itself.
        .chain(names.iter().filter(|name| **name == "skein-events"))
        .map(|name| name.strip_prefix("skein-").unwrap().to_owned())
        .collect()
}

#[test]
fn every_command_prints_one_json_document() {
    let home = Home::new();
    let mut uncovered = commands(&home);
    // In an order in which each finds what it needs; what it prints has these fields.
    let table: &[(&str, &[&str], &[&str])] = &[
        (
            "project-add",
            &["project", "add", "--no-folder", "--name", "api"],
            &["id", "name", "prefix", "version"],
        ),
        ("project-ls", &["project", "ls"], &["data", "next"]),
        (
            "project-show",
            &["project", "show", "api"],
            &["id", "limits", "retention"],
        ),
        (
            "project-set",
            &["project", "set", "api", "--width", "9"],
            &["id", "limits"],
        ),
        (
            "thread-new",
            &["thread", "new", "t", "--project", "api"],
            &["id", "title", "state"],
        ),
        ("thread-ls", &["thread", "ls"], &["data", "next"]),
        (
            "spawn",
            &["spawn", "one", "--project", "api"],
            &[
                "id",
                "owner",
                "phase",
                "status",
                "runtime",
                "workspace",
                "usage",
            ],
        ),
        (
            "spawn",
            &["spawn", "two", "three", "--project", "api"],
            &["data", "next"],
        ),
        ("ls", &["ls"], &["data", "next"]),
        (
            "show",
            &["show", "api-1"],
            &[
                "id",
                "tenant",
                "project",
                "thread",
                "parent",
                "owner",
                "owner_version",
                "previous_owners",
                "version",
                "phase",
                "status",
                "status_reason",
                "agent",
                "runtime",
                "workspace",
                "run",
                "display_name",
                "created_at",
                "last_activity_at",
                "usage",
            ],
        ),
        (
            "tree",
            &["tree", "api-1"],
            &["ancestors", "root", "truncated"],
        ),
        (
            "session-begin-turn",
            &["session", "begin-turn", "api-1"],
            &["id", "phase"],
        ),
        (
            "session-ask",
            &["session", "ask", "api-1", "which?"],
            &["id", "question"],
        ),
        (
            "answer",
            &["answer", "api-1", "this"],
            &["id", "session", "key", "state", "attempts", "history"],
        ),
        (
            "session-end-turn",
            &["session", "end-turn", "api-1"],
            &["id", "usage"],
        ),
        (
            "session-begin-turn",
            &["session", "begin-turn", "api-1"],
            &["id"],
        ),
        (
            "session-ask",
            &["session", "ask", "api-1", "again?"],
            &["id"],
        ),
        (
            "session-answer",
            &["session", "answer", "api-1", "this"],
            &["id", "state"],
        ),
        (
            "session-ask",
            &["session", "ask", "api-1", "once more?"],
            &["id"],
        ),
        (
            "session-withdraw",
            &["session", "withdraw", "api-1"],
            &["id", "phase"],
        ),
        (
            "handoff",
            &["handoff", "api-1", "--to", "user:ann"],
            &["id", "owner", "previous_owners"],
        ),
        (
            "wait",
            &["wait", "api-1", "--until", "idle"],
            &["id", "status"],
        ),
        (
            "broadcast",
            &["broadcast", "api-2", "--to", "user:ann", "--to", "user:bob"],
            &["data", "next"],
        ),
        (
            "merge",
            &["merge", "api-2", "--from", "api-4"],
            &["id", "merges"],
        ),
        (
            "summary-set",
            &["summary", "set", "api-1", "done"],
            &["id", "session", "outcome", "text"],
        ),
        (
            "summary-show",
            &["summary", "show", "api-1"],
            &["id", "session", "text"],
        ),
        (
            "session-end",
            &["session", "end", "api-1"],
            &["id", "outcome"],
        ),
        ("restore", &["restore", "api-1"], &["id", "run"]),
        (
            "kill",
            &["kill", "api-1", "--reason", "enough"],
            &["id", "outcome"],
        ),
        ("events", &["events"], &["data", "next"]),
        ("events", &["events", "--limit", "2"], &["data", "next"]),
        (
            "events-verify",
            &["events", "verify"],
            &["ok", "events", "broken_at"],
        ),
        (
            "events-seal",
            &["events", "seal", "--keep", "5"],
            &["sealed", "dropped"],
        ),
        ("token-new", &["token", "new", "ci"], &["token", "secret"]),
        ("token-ls", &["token", "ls"], &["data", "next"]),
        ("retention-run", &["retention", "run"], &["archived"]),
        (
            "daemon-start",
            &["daemon", "start"],
            &["pid", "version", "uptime_s", "sessions", "socket"],
        ),
        (
            "daemon-status",
            &["daemon", "status"],
            &["pid", "version", "uptime_s", "sessions", "socket"],
        ),
        ("config-show", &["config", "show"], &["data", "next"]),
        ("completion", &["completion", "bash"], &["shell", "script"]),
        ("man", &["man"], &["page"]),
        ("doctor", &["doctor"], &[]),
        ("demo", &["demo", "--fast"], &[]),
        ("daemon-stop", &["daemon", "stop"], &["pid", "socket"]),
    ];
    for (name, args, fields) in table {
        let document = home.json(args);
        for field in *fields {
            assert!(
                document.get(field).is_some(),
                "{args:?} has no `{field}`: {document}"
            );
        }
        if let Some(data) = document.get("data") {
            assert!(data.is_array(), "{args:?}");
            assert!(
                document["next"].is_null() || document["next"].is_string(),
                "{args:?}"
            );
        }
        uncovered.remove(*name);
    }
    // These need an id that was made on the way.
    let id = |list: &Value| list["data"][0]["id"].as_str().unwrap().to_owned();
    let thread = id(&home
        .json(&["thread", "new", "x", "--project", "api"])
        .into_list());
    for verb in ["show", "archive", "reopen", "rm"] {
        assert_eq!(home.json(&["thread", verb, &thread])["id"], json!(thread));
        uncovered.remove(&format!("thread-{verb}"));
    }
    let token = id(&home.json(&["token", "ls"]));
    assert!(home.json(&["token", "rm", &token])["revoked_at"].is_string());
    uncovered.remove("token-rm");
    home.json(&["project", "add", "--no-folder", "--name", "gone"]);
    assert_eq!(home.json(&["project", "rm", "gone"])["name"], "gone");
    uncovered.remove("project-rm");
    // It serves until it is stopped; `daemon` tests show it.
    uncovered.remove("daemon-run");
    // So does this; `model_server` tests show it.
    uncovered.remove("model-server");
    // A terminal cannot be shown as JSON.
    assert_eq!(home.error(2, &["attach", "api-1"])["kind"], "misuse");
    uncovered.remove("attach");
    transcripts(&home, &mut uncovered);
    agents(&home, &mut uncovered);
    assert_eq!(
        uncovered,
        BTreeSet::new(),
        "commands without a line in the table"
    );
}

/// The commands about transcripts, in an order in which each finds what it needs.
fn transcripts(home: &Home, uncovered: &mut BTreeSet<String>) {
    let (session, empty) = (home.spawn(&["talk"]), home.spawn(&["quiet"]));
    let blob = home.user().join("blob");
    let (s, blob) = (session.as_str(), blob.to_str().unwrap());
    let state = home.user().join("state.json");
    std::fs::write(&state, r#"{"custom": {"a": 1}}"#).unwrap();
    let state = state.to_str().unwrap();
    let say = |id| ["append", s, "--role", "user", "--id", id, "--text", "hello"];
    let table: &[(&str, &[&str], &[&str])] = &[
        (
            "append",
            &say("m1"),
            &["session", "added", "already", "version"],
        ),
        ("append", &say("m2"), &["added"]),
        ("show", &["show", s], &["data", "next"]),
        ("search", &["search", "hello"], &["data", "next"]),
        (
            "state-set",
            &["state", "set", s, state],
            &["session", "version"],
        ),
        (
            "state-show",
            &["state", "show", s],
            &["version", "tasks", "custom"],
        ),
        (
            "export",
            &["export", s, "--format", "zeitlich", "--out", blob],
            &["session", "format", "path", "bytes"],
        ),
        (
            "import",
            &["import", &empty, blob],
            &["session", "added", "already"],
        ),
        (
            "compact",
            &[
                "compact",
                s,
                "--from",
                "m1",
                "--through",
                "m2",
                "--text",
                "short",
            ],
            &["added"],
        ),
        ("rewind", &["rewind", s, "--to", "m2"], &["to", "dropped"]),
        (
            "reply",
            &["reply", s, "--id", "m3"],
            &["session", "id", "dropped"],
        ),
        ("repair", &["repair", s], &["session", "closed"]),
        ("usage", &["usage", s], &["own", "total", "sessions"]),
        ("flush", &["flush", s], &["entries", "segments", "kept_hot"]),
        ("hydrate", &["hydrate", s], &["session", "hydrated"]),
    ];
    for (name, args, fields) in table {
        let document = home.json(&[&["transcript"], *args].concat());
        for field in *fields {
            let found = document.get(field);
            assert!(found.is_some(), "{args:?} has no `{field}`: {document}");
        }
        uncovered.remove(&format!("transcript-{name}"));
    }
    let fork = home.json(&["fork", s]);
    assert_eq!(fork["forked_from"], json!({"session": s, "message": "m2"}));
    uncovered.remove("fork");
}

/// The commands about sessions with agents, in a repository with a worktree made by hand.
fn agents(home: &Home, uncovered: &mut BTreeSet<String>) {
    let repo = home.user().join("repo");
    let hand = home.user().join("hand");
    std::fs::create_dir(&repo).unwrap();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t"];
        let mut command = home.program("git");
        command.current_dir(&repo).args(identity).args(args);
        assert!(command.output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "--initial-branch=main"]);
    git(&["commit", "--allow-empty", "--message=begin"]);
    git(&["worktree", "add", "-b", "hand", hand.to_str().unwrap()]);
    let made = home
        .command(&["--json", "init"])
        .current_dir(&repo)
        .output()
        .unwrap();
    let made = Ran::from(made).document();
    assert_eq!(made["default_branch"], "main");
    uncovered.remove("init");
    let id = |document: &Value| document["id"].as_str().unwrap().to_owned();
    let task = "write a.txt hello";
    let spawn = [
        "spawn",
        task,
        "--project",
        "repo",
        "--agent",
        "scripted",
        "--key",
        "k",
    ];
    let session = id(&home.json(&spawn));
    let adopted = [
        "adopt",
        hand.to_str().unwrap(),
        "--agent",
        "scripted",
        "--task",
        "say hello",
    ];
    let adopted = id(&home.json(&adopted));
    uncovered.remove("adopt");
    let receipt: &[&str] = &["id", "session", "key", "state", "attempts", "history"];
    let table: &[(&str, &[&str], &[&str])] = &[
        ("send", &["send", &session, "wait 600"], receipt),
        ("interrupt", &["interrupt", &session], &["id", "phase"]),
        (
            "why",
            &["why", &session],
            &["session", "status", "reason", "rule", "facts"],
        ),
        ("screen", &["screen", &session], &["rows", "cursor"]),
        ("logs", &["logs", &session], &["session", "run", "text"]),
        ("diff", &["diff", &session], &["session", "diff"]),
        ("agent-ls", &["agent", "ls"], &["data", "next"]),
        ("gc", &["gc", "--dry-run"], &["data", "next", "dry_run"]),
        (
            "hook",
            &["hook", "Nothing", "--session", &session, "--run", "1"],
            &["ok"],
        ),
    ];
    for (name, args, fields) in table {
        let document = home.json(args);
        for field in *fields {
            let found = document.get(field);
            assert!(found.is_some(), "{args:?} has no `{field}`: {document}");
        }
        uncovered.remove(*name);
    }
    for session in [session, adopted] {
        assert_eq!(home.json(&["kill", &session])["outcome"], "killed");
    }
}

trait IntoList {
    fn into_list(self) -> Value;
}

impl IntoList for Value {
    fn into_list(self) -> Value {
        json!({"data": [self], "next": null})
    }
}

#[test]
fn every_exit_code_means_what_it_says() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    assert_eq!(home.run(&["show", &session]).code, 0);
    assert_eq!(home.error(2, &["ls", "--limit", "0"])["kind"], "misuse");
    assert_eq!(home.error(3, &["show", "api-99"])["kind"], "not_found");
    assert_eq!(home.error(4, &["restore", &session])["kind"], "conflict");
    let thread = home.show(&session)["thread"].as_str().unwrap().to_owned();
    home.json(&["session", "begin-turn", &session]);
    let error = home.error(5, &["thread", "archive", &thread]);
    assert_eq!(error["kind"], "refused");
    assert_eq!(error["details"]["total"], 1);
    let wait = ["wait", &session, "--until", "done", "--timeout", "0"];
    assert_eq!(home.error(7, &wait)["kind"], "timed_out");
    home.stop();
    assert_eq!(home.error(6, &["daemon", "status"])["kind"], "unavailable");
    // 1 is for what ought not to happen; a broken chain is shown in `events`, a bad output here.
    let full = home
        .command(&["--json", "ls"])
        .stdout(std::fs::File::create("/dev/full").unwrap())
        .output();
    let full = Ran::from(full.unwrap());
    assert_eq!(
        (full.code, full.error()["kind"].clone()),
        (1, json!("failed"))
    );
}

#[test]
fn errors_for_people_say_what_why_and_what_next() {
    let home = Home::with_project();
    let ran = home.run(&["show", "api-99"]);
    assert_eq!(ran.stdout, "");
    assert_eq!(
        ran.stderr,
        "error: session `api-99` not found\nhint: `skein ls --all` lists the sessions\n"
    );
    let empty = home.run(&["ls"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (0, ""));
    assert!(empty.stderr.contains("skein spawn"), "{empty:?}");
    home.spawn(&["work"]);
    for args in [
        &["ls"][..],
        &["project", "ls"],
        &["show", "api-1"],
        &["events"],
        &["--help"],
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, 0);
        assert!(
            !ran.stdout.contains('\u{1b}'),
            "no colour off a terminal: {ran:?}"
        );
    }
}

#[test]
fn ids_may_be_given_as_unique_prefixes() {
    let home = Home::with_project();
    for _ in 0..10 {
        home.spawn(&["work"]);
    }
    // An id that is also the beginning of another means itself.
    assert_eq!(home.show("api-1")["id"], "api-1");
    let error = home.error(2, &["show", "api-"]);
    assert!(
        error["message"].as_str().unwrap().contains("api-2"),
        "{error}"
    );
    let error = home.error(2, &["kill", "a"]);
    assert!(
        error["message"].as_str().unwrap().contains("ambiguous"),
        "{error}"
    );
    assert_eq!(home.json(&["ls"])["data"].as_array().unwrap().len(), 10);
    let thread = home.show("api-1")["thread"].as_str().unwrap().to_owned();
    for length in [thread.len(), thread.len() - 1, thread.len() - 6] {
        assert_eq!(
            home.json(&["thread", "show", &thread[..length]])["id"],
            json!(thread)
        );
    }
    home.error(2, &["thread", "show", "thr_"]);
    home.error(3, &["thread", "show", &format!("{thread}0")]);
    let project = home.json(&["project", "show", "api"])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        home.json(&["project", "show", &project[..8]])["name"],
        "api"
    );
    // Prefixes serve wherever an id does.
    home.json(&["session", "begin-turn", "api-10"]);
    assert_eq!(
        home.json(&["ls", "--thread", &thread[..10]])["data"][0]["id"],
        "api-1"
    );
}

#[test]
fn pages_show_everything_once_while_others_insert() {
    let home = Home::with_project();
    let spawn = || {
        home.call(&Call::post(
            "/api/v1/sessions",
            &json!({"project": "api", "task": "t"}),
        ))
        .ok()
    };
    let before: Vec<String> = (0..30)
        .map(|_| spawn()["id"].as_str().unwrap().to_owned())
        .collect();
    let mut seen: Vec<String> = vec![];
    let mut cursor: Option<String> = None;
    loop {
        let mut args = vec!["ls", "--limit", "7"];
        if let Some(cursor) = &cursor {
            args.extend(["--cursor", cursor]);
        }
        let page = home.json(&args);
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= 7);
        seen.extend(data.iter().map(|s| s["id"].as_str().unwrap().to_owned()));
        spawn();
        spawn();
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), seen.len(), "nothing twice");
    assert!(
        before.iter().all(|id| seen.contains(id)),
        "everything once: {seen:?}"
    );
    // Events go forward, so their pages end at the newest.
    let mut since = 0;
    let mut events = vec![];
    loop {
        let page = home.json(&["events", "--limit", "10", "--since", &since.to_string()]);
        events.extend(page["data"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => since = next.parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(events, home.events());
    let exact = home.json(&["project", "ls", "--limit", "1"]);
    assert_eq!(exact["next"], Value::Null, "a full last page has no next");
}

#[test]
fn filters_narrow_and_never_lie() {
    let home = Home::with_project();
    home.json(&["project", "add", "--no-folder", "--name", "web"]);
    let one = home.spawn(&["one"]);
    home.json(&["spawn", "two", "--project", "web"]);
    let done = home.spawn(&["three"]);
    home.json(&["session", "end", &done]);
    let ids = |args: &[&str]| -> Vec<String> {
        let list = home.json(&[&["ls"], args].concat());
        let data = list["data"].as_array().unwrap().clone();
        data.iter()
            .map(|s| s["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&[]), ["web-1", "api-1"]);
    assert_eq!(ids(&["--all"]), ["api-2", "web-1", "api-1"]);
    assert_eq!(ids(&["--project", "api"]), [one.as_str()]);
    assert_eq!(ids(&["--status", "done"]), [done.as_str()]);
    assert_eq!(
        ids(&["--status", "done,idle", "--project", "api"]),
        ["api-2", "api-1"]
    );
    home.error(2, &["ls", "--status", "sleepy"]);
    home.error(3, &["ls", "--project", "nowhere"]);
    // Filtered pages, too, show everything once.
    let page = home.json(&["ls", "--all", "--status", "idle", "--limit", "1"]);
    let next = page["next"].as_str().unwrap();
    let rest = home.json(&[
        "ls", "--all", "--status", "idle", "--limit", "1", "--cursor", next,
    ]);
    assert_eq!(rest["data"][0]["id"], "api-1");
}

#[test]
fn projects_are_found_by_the_current_folder() {
    let home = Home::new();
    let deep = home.user().join("repo/src/deep");
    std::fs::create_dir_all(&deep).unwrap();
    let within = |folder: &Path, args: &[&str]| {
        Ran::from(
            home.command(&[&["--json"], args].concat())
                .current_dir(folder)
                .output()
                .unwrap(),
        )
    };
    let outside = within(&deep, &["spawn", "x"]);
    assert_eq!(outside.code, 3, "{outside:?}");
    assert!(outside.error()["hints"].to_string().contains("project add"));
    let added = within(&home.user().join("repo"), &["project", "add"]).document();
    assert_eq!(added["name"], "repo");
    assert_eq!(
        added["path"],
        json!(home.user().join("repo").canonicalize().unwrap())
    );
    assert_eq!(
        within(&deep, &["spawn", "x"]).document()["project"],
        added["id"]
    );
    // The folder belongs to one project, whatever way leads to it.
    std::os::unix::fs::symlink(home.user().join("repo"), home.user().join("alias")).unwrap();
    for path in ["repo", "alias", "repo/src/..", "./repo/"] {
        let path = home.user().join(path);
        let error = home.error(
            4,
            &["project", "add", "--name", "other", path.to_str().unwrap()],
        );
        assert_eq!(error["kind"], "conflict");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let home = Home::with_project();
    for n in 0..200 {
        home.call(&Call::post(
            "/api/v1/threads",
            &json!({"project": "api", "title": n.to_string()}),
        ))
        .ok();
    }
    for args in [
        &["events"][..],
        &["--json", "events"],
        &["thread", "ls"],
        &["--help"],
        &["man"],
        &["completion", "bash"],
    ] {
        let mut child = home
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn wait_sees_what_happens_while_it_waits() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let waiting = home
        .command(&["--json", "wait", &session, "--until", "done,failed"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    home.json(&["session", "begin-turn", &session]);
    home.json(&["session", "end-turn", &session]);
    home.json(&["session", "end", &session, "--outcome", "failed"]);
    let ran = Ran::from(waiting.wait_with_output().unwrap());
    assert_eq!(ran.document()["status"], "failed");
    assert_eq!(
        home.error(3, &["wait", "api-99", "--until", "done"])["kind"],
        "not_found"
    );
}

#[test]
fn archive_refusals_carry_fifty_offenders_and_the_exact_total() {
    let home = Home::with_project();
    let thread = home.json(&["thread", "new", "busy", "--project", "api"])["id"].clone();
    for _ in 0..60 {
        let made = home
            .call(&Call::post(
                "/api/v1/sessions",
                &json!({"thread": thread, "task": "t"}),
            ))
            .ok();
        let turn = format!(
            "/api/v1/sessions/{}/begin-turn",
            made["id"].as_str().unwrap()
        );
        home.call(&Call::post(&turn, &json!({}))).ok();
    }
    let error = home.error(5, &["thread", "archive", thread.as_str().unwrap()]);
    assert_eq!(error["details"]["total"], 60);
    assert_eq!(error["details"]["offenders"].as_array().unwrap().len(), 50);
    let error = home.error(5, &["thread", "rm", thread.as_str().unwrap()]);
    assert_eq!(error["details"]["total"], 60);
}

#[test]
fn tenants_of_one_machine_do_not_mix() {
    let home = Home::with_project();
    home.spawn(&["secret"]);
    assert_eq!(home.json_as("other", &["ls", "--all"])["data"], json!([]));
    let ran = home
        .command(&["--json", "ls", "--all"])
        .env("SKEIN_TENANT", "other")
        .output()
        .unwrap();
    assert_eq!(Ran::from(ran).document()["data"], json!([]));
    assert_eq!(home.json_as("other", &["events", "verify"])["events"], 0);
    // The flag wins over the environment.
    let ran = home
        .command(&["--json", "--tenant", "default", "ls"])
        .env("SKEIN_TENANT", "other")
        .output();
    assert_eq!(
        Ran::from(ran.unwrap()).document()["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn empty_references_name_nothing() {
    let home = Home::new();
    for args in [
        &["show", ""][..],
        &["thread", "show", " "],
        &["project", "rm", ""],
        &["ls", "--project", ""],
    ] {
        let error = home.error(2, args);
        assert!(error.to_string().contains("cannot be empty"), "{error}");
    }
}
