//! L13: bad input gets a clear error with a hint, and changes nothing.

use serde_json::json;

use crate::harness::{Call, Home};
use crate::transcript::{append, ids, say};

#[test]
fn l13_malformed_lines_are_named_and_change_nothing() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let good = r#"{"id":"m1","role":"user","text":"x"}"#;
    for (bad, line) in [
        ("nonsense", 2),
        (r#"{"id":"m2","role":"user"}"#, 2),
        (r#"{"id":"m2","role":"boss","text":"x"}"#, 2),
        (r#"{"id":"m 2","role":"user","text":"x"}"#, 2),
        (r#"{"id":"m2","role":"user","text":"x","extra":1}"#, 2),
        ("[1,2]", 2),
        ("\u{0}", 2),
        (r#"{"id":"m2","role":"user","text":"x"#, 2),
        (r#"{"id":"m2","role":"user","text":"x"}{}"#, 2),
        (r#"{"id":"m2","role":"user","text":"\ud800"}"#, 2),
        (&"[".repeat(100_000), 2),
        (
            "{\"id\":\"m2\",\"role\":\"user\",\"text\":\"\u{7f}\"}\n\u{feff}",
            3,
        ),
    ] {
        let input = format!("{good}\n{bad}\n");
        let args = ["--json", "transcript", "append", &session];
        let ran = home.run_with_input(&args, input.as_bytes());
        assert_eq!(ran.code, 2, "{bad}: {ran:?}");
        let error = ran.error();
        let named = format!("line {line} ");
        assert!(
            error["message"].as_str().unwrap().contains(&named),
            "{error}"
        );
        assert_eq!(error["details"]["line"], line);
        assert_ne!(error["hints"], json!([]));
    }
    for nothing in [&b""[..], b"\n\n"] {
        let ran = home.run_with_input(&["--json", "transcript", "append", &session], nothing);
        assert_eq!(ran.code, 2, "{ran:?}");
    }
    let bytes = b"{\"id\":\"m1\",\"role\":\"user\",\"text\":\"\xff\xfe\"}";
    let ran = home.run_with_input(&["--json", "transcript", "append", &session], bytes);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert_ne!(ran.error()["hints"], json!([]), "{ran:?}");
    assert_eq!(ids(&home, &session), Vec::<String>::new());
}

#[test]
fn l13_unknown_messages_and_sessions_are_not_found() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    let s = session.as_str();
    for args in [
        &["fork", s, "--at", "nope"][..],
        &["transcript", "rewind", s, "--to", "nope"],
        &[
            "transcript",
            "compact",
            s,
            "--from",
            "nope",
            "--through",
            "m1",
            "--text",
            "x",
        ],
        &["transcript", "show", "api-99"],
        &["transcript", "export", "api-99"],
        &["fork", "api-99"],
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, 3, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("hint: "), "{args:?}: {ran:?}");
        assert!(!ran.stderr.contains("SESSION"), "{args:?}: {ran:?}");
    }
    assert_eq!(ids(&home, &session), ["m1"]);
    // The number of the failed fork is spent, and nothing else is left of it.
    assert_eq!(
        home.json(&["ls", "--all"])["data"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let again = home.json(&["fork", s]);
    assert_eq!(again["id"], "api-3");
    let compact = [
        "transcript",
        "compact",
        s,
        "--from",
        "m1",
        "--through",
        "m1",
        "--text",
        " ",
    ];
    home.error(2, &compact);
}

#[test]
fn l13_a_message_of_a_hundred_megabytes_is_refused_with_the_limit() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let mut line = br#"{"id":"m1","role":"user","text":""#.to_vec();
    line.resize(100 * 1024 * 1024, b'x');
    line.extend(br#""}"#);
    let args = ["--json", "transcript", "append", &session];
    let ran = home.run_with_input(&args, &line);
    assert_eq!(ran.code, 5, "{:?}", &ran.stderr);
    assert!(ran.error()["hints"][0].as_str().unwrap().contains("16 MiB"));
    // The daemon says the same to those who send it themselves.
    let path = format!("/api/v1/sessions/{session}/transcript");
    let call = Call::new("POST", &path)
        .header("content-type", "application/json")
        .header("content-length", &(100 * 1024 * 1024).to_string());
    let error = home.call(&call).error(413);
    assert_eq!(error["kind"], "refused");
    assert!(
        error["hints"][0].as_str().unwrap().contains("16 MiB"),
        "{error}"
    );
    let text = "x".repeat(17 * 1024 * 1024);
    let body = json!({"messages": [{"id": "m1", "role": "user", "text": text}]});
    let error = home.call(&Call::post(&path, &body)).error(403);
    assert!(
        error["hints"][0].as_str().unwrap().contains("16 MiB"),
        "{error}"
    );
    assert_eq!(ids(&home, &session), Vec::<String>::new());
}

/// A body of 100 MiB in pieces, whose length nobody is told beforehand.
fn in_pieces() -> Vec<u8> {
    let piece = [&b"100000\r\n"[..], &[b'x'; 1 << 20], b"\r\n"].concat();
    [&piece.repeat(100)[..], b"0\r\n\r\n"].concat()
}

#[test]
fn l13_a_hundred_megabytes_are_refused_wherever_they_are_sent() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    let before = (home.ledger(), home.show(&session));
    let transcript = format!("/api/v1/sessions/{session}/transcript");
    for (method, path, limit) in [
        ("POST", "", "16 MiB"),
        ("POST", "/compact", "1048576 bytes"),
        ("POST", "/rewind", "1048576 bytes"),
        ("POST", "/deltas", "1048576 bytes"),
        ("POST", "/import", "67108864 bytes"),
        ("PUT", "/state", "bytes"),
    ] {
        let head = format!(
            "{method} {transcript}{path} HTTP/1.1\r\nhost: skein\r\nconnection: close\r\n\
             content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        let answer = home.raw(&[head.as_bytes(), &in_pieces()].concat());
        let answer = crate::harness::Response::parse(&answer).unwrap();
        let error = answer.error(413);
        let told = error.to_string();
        assert!(told.contains(limit), "{path}: {error}");
        assert_ne!(error["hints"], json!([]), "{path}: {error}");
    }
    let blob = home.user().join("blob");
    std::fs::write(&blob, vec![b'x'; 100 << 20]).unwrap();
    let file = blob.to_str().unwrap();
    let error = home.error(5, &["transcript", "import", &session, file]);
    assert!(error["hints"].to_string().contains("64 MiB"), "{error}");
    assert_eq!((home.ledger(), home.show(&session)), before);
    assert_eq!(ids(&home, &session), ["m1"]);
}

#[test]
fn l7_a_foreign_transcript_is_not_there() {
    let home = Home::with_project();
    let (ours, theirs) = (home.spawn(&["one"]), home.spawn(&["two"]));
    say(&home, &ours, "user", "m1", "x");
    say(&home, &theirs, "user", "t1", "secret");
    // A message of another transcript is none of this one.
    for args in [
        &["fork", &ours, "--at", "t1"][..],
        &["transcript", "rewind", &ours, "--to", "t1"],
    ] {
        home.error(3, args);
    }
    // A transcript of another tenant is none at all.
    let project = ["project", "add", "--no-folder", "--name", "other"];
    home.json_as("other", &project);
    let (s, before) = (theirs.as_str(), home.show(&theirs));
    for args in [
        &["transcript", "show", s][..],
        &["transcript", "append", s, "--role", "user", "--text", "x"],
        &["transcript", "export", s, "--out", "out"],
        &["transcript", "rewind", s, "--to", "t1"],
        &["transcript", "state", "show", s],
        &["transcript", "usage", s],
        &["transcript", "flush", s],
        &["transcript", "hydrate", s],
        &["transcript", "search", "secret", "--session", s],
        &["fork", s],
    ] {
        let ran = home.run(&[&["--json", "--tenant", "other"], args].concat());
        assert_eq!(ran.code, 3, "{args:?}: {ran:?}");
        assert_ne!(ran.error()["hints"], json!([]), "{args:?}");
        assert!(!ran.stderr.contains("secret"), "{args:?}: {ran:?}");
    }
    let found = home.json_as("other", &["transcript", "search", "secret"]);
    assert_eq!(found["data"], json!([]));
    assert_eq!(home.show(&theirs), before);
    assert_eq!(ids(&home, &theirs), ["t1"]);
}

#[test]
fn l13_an_id_says_one_thing() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    let args = append(&session, "user", "m1", "y");
    let error = home.error(4, &args);
    assert!(
        error["hints"][0].as_str().unwrap().contains("new id"),
        "{error}"
    );
    for bad in ["", "a b", "ä", &"x".repeat(256)] {
        let args = append(&session, "user", bad, "y");
        home.error(2, &args);
    }
    assert_eq!(ids(&home, &session), ["m1"]);
}

#[test]
fn l13_snapshots_that_are_none_are_refused() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let file = home.user().join("blob");
    for bad in [
        &b""[..],
        b"nonsense",
        b"\x1f\x8bnonsense",
        br#"{"v":2,"messages":[],"state":null,"dedupIds":[]}"#,
        br#"{"v":1,"messages":["{\"id\":\"m1\",\"text\":\"hi\"}"],"state":null,"dedupIds":[]}"#,
    ] {
        std::fs::write(&file, bad).unwrap();
        let file = file.to_str().unwrap();
        let ran = home.run(&["transcript", "import", &session, file]);
        assert_eq!(ran.code, 2, "{ran:?}");
        let told = format!("`{file}` is not a zeitlich snapshot");
        assert!(ran.stderr.contains(&told), "{ran:?}");
        assert!(ran.stderr.contains("skein transcript append"), "{ran:?}");
    }
    home.error(2, &["transcript", "import", &session, "/nowhere"]);
    assert_eq!(ids(&home, &session), Vec::<String>::new());
}

#[test]
fn l13_misuse_of_the_command_line_is_told() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let s = session.as_str();
    for args in [
        &["transcript", "append", s, "--role", "user"][..],
        &["transcript", "append", s, "--text", "x"],
        &[
            "transcript",
            "append",
            s,
            "--role",
            "user",
            "--text",
            "x",
            "--call",
            "c",
        ],
        &["transcript", "search", "--", "***"],
        &["transcript", "search", "x", "--since", "someday"],
        &["transcript", "search", "x", "--cursor", "nonsense"],
        &["transcript", "export", s],
        &["fork", s, "--agent", "claude-code"],
    ] {
        let ran = home.run(&[&["--json"], args].concat());
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
    }
}
