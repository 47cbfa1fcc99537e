//! L1: of many who change the same thing at once, exactly one wins.

use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Call, Home};

const RACERS: usize = 50;

fn kinds(events: &[Value], session: &str, kind: &str) -> usize {
    events
        .iter()
        .filter(|e| e["session"] == session && e["kind"] == kind)
        .count()
}

/// What the journal of handoffs holds; read from the file, for no call shows it.
fn journal(home: &Home) -> u32 {
    let database = rusqlite::Connection::open_with_flags(
        home.database(),
        rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
    )
    .unwrap();
    database
        .query_row(
            "SELECT count(*) FROM records WHERE kind = 'handoff'",
            [],
            |row| row.get(0),
        )
        .unwrap()
}

#[test]
fn l1_fifty_concurrent_handoffs_one_wins() {
    let home = Home::with_project();
    let session = home.spawn(&["fix the login"]);
    let before = home.show(&session);
    let version = before["owner_version"].as_u64().unwrap();
    let commands: Vec<Vec<String>> = (0..RACERS)
        .map(|n| {
            [
                "--json",
                "handoff",
                &session,
                "--to",
                &format!("user:racer{n}"),
                "--expect-version",
            ]
            .iter()
            .map(ToString::to_string)
            .chain([version.to_string()])
            .collect()
        })
        .collect();

    let ran = home.race(&commands);

    let winners: Vec<usize> = (0..RACERS).filter(|n| ran[*n].code == 0).collect();
    assert_eq!(winners.len(), 1, "{ran:?}");
    for loser in ran.iter().filter(|r| r.code != 0) {
        assert_eq!(loser.code, 4, "{loser:?}");
        assert_eq!(loser.stdout, "");
        assert_eq!(loser.error()["kind"], "conflict");
    }
    let after = home.show(&session);
    let winner = format!("user:racer{}", winners[0]);
    assert_eq!(ran[winners[0]].document(), after);
    assert_eq!(after["owner"], json!(winner));
    assert_eq!(after["owner_version"], json!(version + 1));
    assert_eq!(after["previous_owners"], json!([before["owner"]]));
    assert_eq!(after["phase"], "idle");
    assert_eq!(after["id"], before["id"]);
    let events = home.events();
    assert_eq!(kinds(&events, &session, "handoff.locked"), 1);
    assert_eq!(kinds(&events, &session, "handoff.committed"), 1);
    assert_eq!(kinds(&events, &session, "handoff.reverted"), 0);
    home.assert_verified();
    assert_eq!(journal(&home), 0, "no handoff is left behind");
}

#[test]
fn l1_fifty_concurrent_broadcasts_one_wins() {
    let home = Home::with_project();
    let session = home.spawn(&["compare three ways"]);
    let version = home.show(&session)["owner_version"].as_u64().unwrap();
    let path = format!("/api/v1/sessions/{session}/broadcast");
    let start = Barrier::new(RACERS);
    let answers: Vec<_> = thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|n| {
                let (home, start, path) = (&home, &start, &path);
                scope.spawn(move || {
                    let to = [format!("agent:left{n}"), format!("agent:right{n}")];
                    let body = json!({"to": to, "expect_version": version});
                    let call = Call::post(path, &body).key(&format!("racer-{n}"));
                    start.wait();
                    home.call(&call)
                })
            })
            .collect();
        racers.into_iter().map(|r| r.join().unwrap()).collect()
    });

    let won: Vec<_> = answers.iter().filter(|a| a.status == 200).collect();
    assert_eq!(won.len(), 1);
    for lost in answers.iter().filter(|a| a.status != 200) {
        assert_eq!(lost.error(409)["kind"], "conflict");
    }
    let children = won[0].json()["data"].as_array().unwrap().clone();
    assert_eq!(children.len(), 2);
    let source = home.show(&session);
    assert_eq!(source["phase"], "awaiting_merge");
    assert_eq!(source["owner"], "user:tester");
    assert_eq!(source["owner_version"], json!(version + 1));
    assert_eq!(source["previous_owners"], json!([]));
    let all = home.json(&["ls", "--all"]);
    assert_eq!(
        all["data"].as_array().unwrap().len(),
        3,
        "losers left nothing"
    );
    let events = home.events();
    assert_eq!(kinds(&events, &session, "broadcast.committed"), 1);
    home.assert_verified();
    assert_eq!(journal(&home), 0, "no handoff is left behind");

    for child in &children {
        home.json(&["session", "end", child["id"].as_str().unwrap()]);
    }
    assert_eq!(home.show(&session)["phase"], "idle");
    assert_eq!(kinds(&home.events(), &session, "broadcast.finished"), 1);
}
