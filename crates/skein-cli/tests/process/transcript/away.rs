//! L3: what goes on while the cold tier cannot be reached.

use serde_json::json;

use crate::harness::eventually;
use crate::harness::{Daemon, Home};
use crate::transcript::{append, append_lines, configure, ids, say};

/// A daemon whose cold tier is a bucket that nobody serves.
fn start(home: &Home) -> Daemon {
    let mut daemon = home.command(&["daemon", "run", "--announce"]);
    daemon
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "here")
        .env("AWS_ACCESS_KEY_ID", "nobody")
        .env("AWS_SECRET_ACCESS_KEY", "nothing");
    Daemon::announced(daemon).unwrap()
}

#[test]
fn l3_a_new_session_speaks_and_is_read_though_its_bucket_is_away() {
    let home = Home::new();
    configure(&home, "[transcripts]\ncold = \"s3://nowhere/skein\"\n");
    let daemon = start(&home);
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    let silent = home.spawn(&["say nothing"]);
    assert_eq!(ids(&home, &session), Vec::<String>::new());
    home.json(&["transcript", "reply", &session, "--id", "a1"]);
    say(&home, &session, "user", "m1", "the first word");
    assert_eq!(ids(&home, &session), ["m1"]);
    let found = home.json(&["transcript", "search", "word"]);
    assert_eq!(found["data"][0]["message"], "m1");
    // What it cannot do, it says; a restore is not among that.
    home.error(6, &["transcript", "flush", &session]);
    home.error(6, &["fork", &session]);
    home.json(&["session", "end", &silent]);
    assert_eq!(home.json(&["restore", &silent])["run"], 2);
    daemon.kill();
    let _daemon = start(&home);
    say(&home, &session, "user", "m3", "hot as it was");
    assert_eq!(ids(&home, &session), ["m1", "m3"]);
    // Of this one nothing is known any more: it may have been put away, so it is asked for.
    let speak = [
        "transcript",
        "append",
        &silent,
        "--role",
        "user",
        "--text",
        "x",
    ];
    home.error(6, &speak);
}

/// What a restore could not close while the tier was away is closed before the first word after it.
#[test]
fn l10_calls_that_a_restore_could_not_close_are_closed_with_the_first_word() {
    let home = Home::new();
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    let call = json!({"type": "tool_call", "id": "c1", "name": "bash", "input": {}});
    let asked = json!({"id": "a1", "role": "assistant", "content": [call]});
    append_lines(&home, &session, &[asked]);
    home.json(&["session", "end", &session]);
    home.json(&["transcript", "flush", &session]);
    let (cold, away) = (home.root().join("cold"), home.root().join("away"));
    // The daemon has not opened it yet, so it finds it missing.
    home.stop();
    std::fs::rename(&cold, &away).unwrap();
    assert_eq!(home.json(&["restore", &session])["run"], 2);
    std::fs::rename(&away, &cold).unwrap();
    let args = append(&session, "user", "u1", "go on");
    eventually(
        || (home.run(&args).code == 0).then_some(()),
        || "the tier is back and not used".into(),
    );
    assert_eq!(ids(&home, &session), ["a1", "closed:a1:0", "u1"]);
}
