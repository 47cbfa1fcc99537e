//! L3: what goes on while the cold tier cannot be reached.

use crate::base::{Daemon, Home};
use crate::{configure, ids, say};

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
    let append = [
        "transcript",
        "append",
        &silent,
        "--role",
        "user",
        "--text",
        "x",
    ];
    home.error(6, &append);
}
