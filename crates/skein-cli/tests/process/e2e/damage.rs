//! Records of the ledger that cannot be read: each is isolated, told of, and left as it is.

use std::fs;

use rusqlite::{Connection, OpenFlags, params};
use serde_json::{Value, json};

use crate::harness::{Fleet, Home};

fn ledger(home: &Home) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    Connection::open_with_flags(home.database(), flags).unwrap()
}

/// Puts bytes in the place of a record.
fn damage(home: &Home, kind: &str, id: &str, body: &[u8]) {
    let sql = "UPDATE records SET body = CAST(?3 AS TEXT) WHERE kind = ?1 AND id = ?2";
    let changed = ledger(home).execute(sql, params![kind, id, body]).unwrap();
    assert_eq!(changed, 1, "{kind} {id}");
}

fn stored(home: &Home, kind: &str, id: &str) -> Vec<u8> {
    let sql = "SELECT CAST(body AS BLOB) FROM records WHERE kind = ?1 AND id = ?2";
    let found = ledger(home).query_row(sql, [kind, id], |row| row.get(0));
    found.unwrap()
}

fn problems(home: &Home) -> String {
    let doctor = home.run(&["--json", "doctor"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    let findings = doctor.document()["findings"].as_array().unwrap().clone();
    let problems = findings.into_iter().filter(|f| f["state"] == "problem");
    problems.map(|f| f["message"].to_string()).collect()
}

const GARBAGE: [&[u8]; 5] = [
    b"",
    b"{\"v\":1",
    b"{}",
    b"{\"v\":99}",
    b"\xff\xfe\x00not text",
];

#[test]
fn l13_a_damaged_session_is_listed_as_such_and_blocks_no_other() {
    for garbage in GARBAGE {
        let home = Home::with_project();
        let sessions = [
            home.spawn(&["one"]),
            home.spawn(&["two"]),
            home.spawn(&["three"]),
        ];
        let [one, two, three] = sessions.each_ref().map(String::as_str);
        home.stop();
        damage(&home, "session", two, garbage);
        assert!(problems(&home).contains(two), "without a daemon");
        let list = home.json(&["ls"]);
        let list: Vec<&Value> = list["data"].as_array().unwrap().iter().collect();
        assert_eq!(list.len(), 3);
        let found = list.iter().find(|s| s["id"] == json!(two)).unwrap();
        assert_eq!(found["status"], "damaged", "{found}");
        assert!(
            found["status_reason"]
                .to_string()
                .contains("cannot be read")
        );
        assert_ne!(
            found["thread"],
            json!(""),
            "the list shows what is known of it"
        );
        let people = home.run(&["ls"]);
        assert!(people.stdout.contains("damaged"), "{people:?}");
        for args in [
            &["show", two][..],
            &["session", "end", two],
            &["session", "begin-turn", two],
            &["handoff", two, "--to", "user:bob"],
            &["transcript", "show", two],
        ] {
            let error = home.error(6, args);
            let told = error["message"].as_str().unwrap();
            assert!(
                told.contains(two) && told.contains("damaged"),
                "{args:?}: {error}"
            );
            assert!(
                error["hints"].to_string().contains("doctor"),
                "{args:?}: {error}"
            );
        }
        for id in [one, three] {
            assert_eq!(home.show(id)["status"], "idle");
            home.json(&["session", "begin-turn", id]);
            home.json(&["session", "end-turn", id]);
            home.json(&["session", "end", id]);
        }
        let four = home.spawn(&["four"]);
        home.json(&["handoff", &four, "--to", "user:bob"]);
        assert!(problems(&home).contains(two), "beside a daemon");
        home.assert_verified();
        home.kill();
        assert_eq!(home.json(&["ls"])["data"].as_array().unwrap().len(), 2);
        assert_eq!(
            stored(&home, "session", two),
            garbage,
            "it is left as it is"
        );
    }
}

/// Records of every kind, those of journals among them, which are read at the start.
#[test]
fn l13_a_damaged_record_of_any_kind_keeps_no_daemon_from_starting() {
    let home = Home::with_project();
    let session = home.spawn(&["one"]);
    let parent = home.spawn(&["two"]);
    let child = home.spawn(&["three", "--parent", &parent]);
    home.json(&["token", "new", "bot", "--role", "read"]);
    let thread = home.json(&["thread", "new", "spare", "--project", "api"]);
    home.stop();
    damage(&home, "thread", thread["id"].as_str().unwrap(), b"{");
    damage(&home, "session", &child, b"{");
    let database = ledger(&home);
    let tokens = "UPDATE records SET body = '{' WHERE kind = 'token'";
    assert_eq!(database.execute(tokens, []).unwrap(), 1);
    for (n, kind) in ["saga", "receipt", "summary"].iter().enumerate() {
        let sql = "INSERT INTO records (tenant, kind, id, ordinal, version, project, thread, parent, live, touched_at, body)
                   SELECT tenant, ?1, ?2, last_ordinal + ?3, 1, NULL, NULL, NULL, 1, 0, '{' FROM heads";
        let id = format!("damaged-{kind}");
        database
            .execute(sql, params![kind, id, n as i64 + 1])
            .unwrap();
    }
    database
        .execute("UPDATE heads SET last_ordinal = last_ordinal + 5", [])
        .unwrap();
    drop(database);
    assert_eq!(home.show(&session)["status"], "idle");
    for args in [&["thread", "ls"][..], &["token", "ls"], &["project", "ls"]] {
        home.json(args);
    }
    home.json(&["session", "end", &session]);
    // Who is above a damaged one can be ended.
    home.json(&["session", "end", &parent]);
    home.json(&["token", "new", "bot2", "--role", "read"]);
    let told = problems(&home);
    for kind in ["thread", "session", "token", "saga"] {
        assert!(told.contains(kind), "{kind}: {told}");
    }
    home.assert_verified();
}

#[test]
fn doctor_names_sessions_that_the_side_tables_miss_or_keep() {
    let fleet = Fleet::new();
    let running = fleet.spawn("say one", &[]);
    let ended = fleet.spawn("say two", &[]);
    for session in [&running, &ended] {
        fleet.until_status(session, "idle");
    }
    fleet.json(&["kill", &ended]);
    let side_rows = || {
        let doctor = fleet.run(&["--json", "doctor"]).document();
        let findings = doctor["findings"].as_array().unwrap().clone();
        let messages = findings.iter().filter(|f| f["check"] == "database");
        let messages: String = messages.map(|f| f["message"].to_string()).collect();
        messages
    };
    assert!(side_rows().contains("no faults"), "{}", side_rows());
    fleet.json(&["daemon", "stop"]);
    let database = ledger(&fleet.home);
    let removed = "DELETE FROM records WHERE kind IN ('running', 'ended')";
    assert_eq!(database.execute(removed, []).unwrap(), 2);
    let stale = "INSERT INTO records (tenant, kind, id, ordinal, version, live, touched_at, body)
                 SELECT tenant, 'running', ?1, last_ordinal + 1, 1, 1, 0, '0' FROM heads";
    assert_eq!(database.execute(stale, [&ended]).unwrap(), 1);
    let heads = "UPDATE heads SET last_ordinal = last_ordinal + 1";
    assert_eq!(database.execute(heads, []).unwrap(), 1);
    drop(database);
    let found = side_rows();
    for line in [
        format!("session `{running}` is missing from the list of running sessions"),
        format!("session `{ended}` is missing from the list of ended sessions"),
        format!("session `{ended}` is left over in the list of running sessions"),
    ] {
        assert!(found.contains(&line), "{line}: {found}");
    }
    // As the fix says: killing and restoring a session writes its rows again.
    fleet.json(&["kill", &running]);
    for session in [&running, &ended] {
        fleet.json(&["restore", session]);
        fleet.until_status(session, "idle");
    }
    assert!(side_rows().contains("no faults"), "{}", side_rows());
}

#[test]
fn garbage_in_the_search_index_is_set_aside_and_the_index_made_anew() {
    let home = Home::with_project();
    let session = home.spawn(&["one"]);
    let said = [
        "transcript",
        "append",
        &session,
        "--role",
        "user",
        "--id",
        "m1",
        "--text",
        "needle",
    ];
    home.json(&said);
    for garbage in ["garbage", &"long ".repeat(10_000)] {
        home.stop();
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(home.root().join(format!("search.db{suffix}")));
        }
        fs::write(home.root().join("search.db"), garbage).unwrap();
        let found = home.json(&["transcript", "search", "needle"]);
        assert_eq!(found["data"][0]["message"], "m1", "{found}");
    }
    let aside = |n| fs::read_to_string(home.root().join(format!("search.db.aside-{n}")));
    assert_eq!(aside(1).unwrap(), "garbage");
    assert!(aside(2).unwrap().starts_with("long long"));
    let logs = fs::read_dir(home.root().join("logs")).unwrap();
    let logs = logs.map(|log| fs::read_to_string(log.unwrap().path()).unwrap_or_default());
    assert!(
        logs.collect::<String>()
            .contains("rebuilding the search index")
    );
}
