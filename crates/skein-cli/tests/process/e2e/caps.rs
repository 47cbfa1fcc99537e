//! L8: caps and budgets are consumed in the transaction that checks them, and gates hold against races.

use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Call, Home, Ran};

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(ToString::to_string).collect()
}

fn below(parent: &str, more: &[&str]) -> Vec<String> {
    words(&[&["--json", "spawn", "part", "--parent", parent], more].concat())
}

/// One racer won; the others were refused with the rule that stopped them.
fn assert_one_won(ran: &[Ran], rule: &str) {
    let won = ran.iter().filter(|r| r.code == 0).count();
    assert_eq!(won, 1, "{ran:?}");
    for lost in ran.iter().filter(|r| r.code != 0) {
        assert_eq!(lost.code, 5, "{lost:?}");
        let error = lost.error();
        assert_eq!(error["kind"], "refused");
        assert_eq!(error["details"]["rule"], rule, "{error}");
        assert_ne!(error["hints"], json!([]));
    }
}

/// Sessions and threads, all of them.
fn population(home: &Home) -> (usize, usize) {
    let count = |list: &Value| list["data"].as_array().unwrap().len();
    (
        count(&home.json(&["ls", "--all", "--limit", "1000"])),
        count(&home.json(&["thread", "ls", "--all", "--limit", "1000"])),
    )
}

#[test]
fn l8_racers_for_the_last_slot_one_wins_and_refusals_cost_nothing() {
    let home = Home::with_project();
    home.json(&["project", "set", "api", "--width", "1"]);
    let parent = home.spawn(&["lead", "--budget", "1000"]);

    let ran = home.race(&vec![below(&parent, &["--budget", "10"]); 20]);

    assert_one_won(&ran, "width");
    assert_eq!(
        population(&home),
        (2, 1),
        "refused ones left nothing behind"
    );
    let tokens = &home.show(&parent)["budget"]["tokens"];
    assert_eq!(tokens["reserved"], 10.0, "refused ones cost nothing");
    assert_eq!(tokens["available"], 990.0);
    let refusals = home
        .events()
        .iter()
        .filter(|e| e["kind"] == "audit.refused")
        .count();
    assert_eq!(refusals, 19, "every refusal left its trace");
    home.assert_verified();

    // The ids of refused sessions were not used up either: the next one is the third.
    home.json(&["project", "set", "api", "--width", "2"]);
    let next = home.json(&["spawn", "next", "--parent", &parent, "--budget", "10"]);
    assert_eq!(next["id"], "api-3");
}

#[test]
fn l8_racers_for_the_last_budget_one_wins() {
    let home = Home::with_project();
    let parent = home.spawn(&["lead", "--budget", "100,2usd"]);

    let ran = home.race(&vec![below(&parent, &["--budget", "60,1usd"]); 16]);

    // Width would allow eight; the budget allows one.
    assert_one_won(&ran, "budget");
    assert_eq!(population(&home), (2, 1));
    let budget = &home.show(&parent)["budget"];
    assert_eq!(budget["tokens"]["available"], 40.0);
    assert_eq!(budget["cost"]["available"], 1.0);

    // A child that ends gives back what it did not spend.
    let child = home.json(&["tree", &parent])["root"]["children"][0]["session"]["id"].clone();
    let child = child.as_str().unwrap();
    home.json(&["session", "begin-turn", child]);
    home.json(&[
        "session",
        "end-turn",
        child,
        "--input-tokens",
        "15",
        "--cost-usd",
        "0.25",
    ]);
    home.json(&["session", "end", child]);
    let budget = &home.show(&parent)["budget"];
    assert_eq!(budget["tokens"]["available"], 85.0);
    assert_eq!(budget["cost"]["available"], 1.75);
    home.assert_verified();
}

#[test]
fn l8_eight_finished_children_do_not_block_a_ninth() {
    let home = Home::with_project();
    let parent = home.spawn(&["lead"]);
    for _ in 0..8 {
        let child = home.json(&["spawn", "part", "--parent", &parent]);
        home.json(&["session", "end", child["id"].as_str().unwrap()]);
    }
    for _ in 0..8 {
        home.json(&["spawn", "part", "--parent", &parent]);
    }
    let error = home.error(5, &["spawn", "part", "--parent", &parent]);
    assert_eq!(error["details"]["rule"], "width");
    assert_eq!(population(&home), (17, 1));
}

#[test]
fn l8_depth_is_counted_from_the_root() {
    let home = Home::with_project();
    let mut parent = home.spawn(&["root"]);
    for depth in 1..=4 {
        let child = home.json(&["spawn", "part", "--parent", &parent]);
        assert_eq!(child["depth"], depth);
        parent = child["id"].as_str().unwrap().to_owned();
    }
    let error = home.error(5, &["spawn", "part", "--parent", &parent]);
    assert_eq!(error["details"]["rule"], "depth");
    assert_eq!(population(&home), (5, 1));
}

/// Of every outcome of the race none leaves a working session on an archived thread.
fn race_archive(home: &Home, round: usize) {
    let new = json!({"project": "api", "title": format!("round {round}")});
    let thread = home.call(&Call::post("/api/v1/threads", &new)).ok()["id"].clone();
    let id = thread.as_str().unwrap();
    let archive = Call::post(&format!("/api/v1/threads/{id}/archive"), &json!({}));
    let spawn = Call::post("/api/v1/sessions", &json!({"task": "work", "thread": id}));
    let start = Barrier::new(5);
    let (archived, spawned) = thread::scope(|scope| {
        let begin = |call: &Call| {
            let (call, start) = (call.clone(), &start);
            scope.spawn(move || {
                start.wait();
                let made = home.call(&call);
                // Begins to work at once, so that the gate has something to stop at.
                if made.status == 201 {
                    let session = made.json()["id"].clone();
                    let path = format!("/api/v1/sessions/{}/begin-turn", session.as_str().unwrap());
                    home.call(&Call::post(&path, &json!({})));
                }
                made
            })
        };
        let racers: Vec<_> = (0..4).map(|_| begin(&spawn)).collect();
        let archived = begin(&archive).join().unwrap();
        (
            archived,
            racers
                .into_iter()
                .map(|r| r.join().unwrap())
                .collect::<Vec<_>>(),
        )
    });
    for answer in &spawned {
        assert!(
            answer.status == 201 || (answer.status == 403 && answer.kind() == "refused"),
            "{answer:?}"
        );
    }
    assert!(
        archived.status == 200 || archived.status == 403,
        "{archived:?}"
    );
    let state = home.call(&Call::get(&format!("/api/v1/threads/{id}"))).ok()["state"].clone();
    let sessions = home
        .call(&Call::get(&format!(
            "/api/v1/sessions?all=true&thread={id}"
        )))
        .ok();
    for session in sessions["data"].as_array().unwrap() {
        let phase = session["phase"].as_str().unwrap();
        if state == "archived" {
            assert!(["ended", "archived", "idle"].contains(&phase), "{session}");
        }
    }
    assert_eq!(state == "archived", archived.status == 200);
}

fn archive_races(rounds: usize) {
    let home = Home::with_project();
    for round in 0..rounds {
        race_archive(&home, round);
    }
    home.assert_verified();
}

#[test]
fn l8_an_archive_racing_spawns_never_leaves_work_on_an_archived_thread() {
    archive_races(25);
}

#[test]
fn heavy_l8_an_archive_racing_spawns_over_many_rounds() {
    archive_races(400);
}
