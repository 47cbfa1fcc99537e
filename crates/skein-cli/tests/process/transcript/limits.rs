//! Messages that are nested too deeply, and entries that cannot be decoded: one of them never makes the rest of
//! its transcript unreadable.

use std::fs;

use rusqlite::{Connection, OpenFlags, params};
use serde_json::{Value, json};

use crate::harness::{Call, Home};
use crate::harness::{Fleet, eventually};
use crate::transcript::{append_lines, ids, say};

/// An object in an object, `levels` of them.
fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

fn calling(id: &str, input: &str) -> Value {
    let call = format!(r#"{{"type":"tool_call","id":"c1","name":"bash","input":{input}}}"#);
    let call: Value = serde_json::from_str(&call).unwrap();
    json!({"id": id, "role": "assistant", "content": [call]})
}

/// Everything that reads or moves the transcript works.
fn assert_usable(home: &Home, session: &str, word: &str) {
    for args in [
        &["transcript", "show", session][..],
        &["transcript", "show", session, "--model"],
        &["transcript", "repair", session],
        &["transcript", "usage", session],
    ] {
        home.json(args);
    }
    for format in ["jsonl", "markdown", "html", "zeitlich"] {
        let out = home.user().join("out");
        let out = out.to_str().unwrap();
        let args = [
            "transcript",
            "export",
            session,
            "--format",
            format,
            "--out",
            out,
        ];
        let ran = home.run(&args);
        assert_eq!(ran.code, 0, "{format}: {ran:?}");
        fs::remove_file(out).unwrap();
    }
    let found = home.json(&["transcript", "search", word]);
    assert_eq!(found["data"][0]["session"], json!(session), "{found}");
    home.json(&["transcript", "flush", session]);
    home.json(&["transcript", "show", session]);
    home.json(&["transcript", "hydrate", session]);
    home.json(&["transcript", "show", session]);
}

#[test]
fn l13_a_deep_hook_message_is_cut_and_the_transcript_stays_readable() {
    let fleet = Fleet::new();
    let folder = fleet.home.user();
    for (name, levels) in [("deep", 124), ("deeper", 5_000)] {
        let payload = format!(
            r#"{{"id":"{name}","role":"assistant","blocks":[{{"type":"text","text":"word {name}"}},{{"type":"call","id":"c1","name":"bash","input":{}}}]}}"#,
            nested(levels)
        );
        fs::write(folder.join(name), payload).unwrap();
    }
    let script = folder.join("agent.sh");
    let text = format!(
        "cd {}\nfor f in deep deeper; do \"$SKEIN_BIN\" hook message < $f; done\nexec cat\n",
        folder.display()
    );
    fs::write(&script, text).unwrap();
    fleet.settings(&format!(
        "[agents.teller]\ncommand = 'sh {}'\nprompt = 'argv'\nhooks = true\n",
        script.display()
    ));
    let spawned = fleet.json(&["spawn", "--project", "api", "--agent", "teller", "go"]);
    let session = spawned["id"].as_str().unwrap().to_owned();
    let home = &fleet.home;
    eventually(
        || (ids(home, &session) == ["deep", "deeper"]).then_some(()),
        || format!("{:?}", home.run(&["transcript", "show", &session])),
    );
    let shown = home.json(&["transcript", "show", &session]);
    for message in shown["data"].as_array().unwrap() {
        let input = message["content"][1]["input"].to_string();
        assert!(input.contains("omitted"), "the cut is marked: {message}");
        assert!(message["damaged"].is_null(), "{message}");
    }
    home.json(&["kill", &session]);
    assert_usable(home, &session, "deeper");
}

#[test]
fn l13_a_deep_message_is_refused_where_its_caller_can_be_told() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "first");
    let path = format!("/api/v1/sessions/{session}/transcript");
    // As deep as is allowed.
    append_lines(&home, &session, &[calling("m2", &nested(64))]);
    let deep = calling("m3", &nested(65));
    let error = home
        .call(&Call::post(&path, &json!({"messages": [deep]})))
        .error(403);
    let told = error.to_string();
    assert!(told.contains("nested more than 64 levels"), "{told}");
    assert_ne!(error["hints"], json!([]));
    let args = ["--json", "transcript", "append", &session];
    let ran = home.run_with_input(&args, format!("{deep}\n").as_bytes());
    assert_eq!(ran.code, 5, "{ran:?}");
    let state = format!(r#"{{"expect": 0, "custom": {{"k": {}}}}}"#, nested(100));
    let state: Value = serde_json::from_str(&state).unwrap();
    let error = home
        .call(&Call::new("PUT", &format!("{path}/state")).json(&state))
        .error(403);
    assert!(error.to_string().contains("nested"), "{error}");
    let raw = json!({"id": "z", "message": {"role": "assistant", "content": [{"type": "tool_use", "id": "c",
        "name": "x", "input": deep["content"][0]["input"]}]}});
    let good = json!({"id": "g", "message": {"role": "user", "content": "hello"}});
    let blob = json!({"v": 1, "messages": [good.to_string(), raw.to_string()], "state": null, "dedupIds": []});
    let file = home.user().join("blob");
    fs::write(&file, blob.to_string()).unwrap();
    home.error(
        5,
        &["transcript", "import", &session, file.to_str().unwrap()],
    );
    assert_eq!(ids(&home, &session), ["m1", "m2"], "nothing was added");
    assert_usable(&home, &session, "first");
}

/// The bytes that are stored at each position, edited.
fn edit_entry(home: &Home, position: i64, payload: &[u8]) {
    let path = home.root().join("transcripts.db");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let file = Connection::open_with_flags(path, flags).unwrap();
    let changed = file
        .execute(
            "UPDATE entries SET size = 0, payload = ?2 WHERE key & 0xffffffff = ?1",
            params![position, payload],
        )
        .unwrap();
    assert_eq!(changed, 1);
}

#[test]
fn l13_an_entry_that_cannot_be_decoded_is_shown_as_such_and_blocks_nothing() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    for n in 0..5 {
        say(
            &home,
            &session,
            "user",
            &format!("m{n}"),
            &format!("word{n}"),
        );
    }
    home.stop();
    // As an earlier version stored it, and as a disk may leave it.
    let deep = format!(
        r#"{{"v":1,"n":2,"message":{{"id":"m1","role":"assistant","blocks":[{{"kind":"text","text":"word1"}},{{"kind":"tool_call","id":"c1","name":"bash","input":{}}}],"at":1790000000000000,"run":1}}}}"#,
        nested(3_000)
    );
    edit_entry(&home, 1, deep.as_bytes());
    edit_entry(&home, 3, b"\xff\x00 not an entry");
    let doctor = home.run(&["--json", "doctor"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(doctor.stdout.contains(&session), "{doctor:?}");
    assert_eq!(ids(&home, &session), ["m0", "m1", "m2", "damaged:3", "m4"]);
    let shown = home.json(&["transcript", "show", &session]);
    let (one, three) = (&shown["data"][1], &shown["data"][3]);
    assert_eq!(one["content"][0]["text"], "word1", "what can be read is");
    assert_eq!(one["content"][1]["name"], "bash");
    assert!(one["damaged"]["reason"].is_string(), "{one}");
    assert!(three["damaged"]["reason"].is_string(), "{three}");
    assert!(shown["data"][0]["damaged"].is_null());
    let exported = home.run(&["transcript", "export", &session]);
    let lines: Vec<Value> = exported
        .stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines[1]["damaged"]["stored"], json!(deep), "verbatim");
    assert_eq!(
        lines[3]["damaged"]["stored_hex"],
        "ff00206e6f7420616e20656e747279"
    );
    say(&home, &session, "user", "m5", "word5");
    assert_usable(&home, &session, "word1");
    // Verbatim in the cold tier too: back from there, it is what it was.
    let again = home.run(&["transcript", "export", &session]);
    let again: Vec<Value> = again
        .stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(again[..5], lines[..]);
    home.json(&["transcript", "rewind", &session, "--to", "m4"]);
    home.json(&["fork", &session]);
    home.json(&["transcript", "reply", &session, "--id", "m1"]);
    assert_eq!(ids(&home, &session), ["m0"]);
}
