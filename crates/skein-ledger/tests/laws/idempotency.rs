//! A request with a key has one effect, however often and however late it is sent.

use std::sync::Arc;

use skein_domain::{Conflict, Kind, Session};
use skein_ledger::NoFaultPoints;
use skein_ledger::project::ProjectUpdate;
use skein_ledger::token::NewToken;
use skein_ledger::{Answer, RequestOutcome};
use skein_store_conformance::fault::{Fault, FaultyBackend};

use crate::common::{
    HoldPoint, UNLIMITED, World, actor, actors, below, conflict, memory, race, refused, sqlite,
    task,
};

fn replayed(answer: Answer) -> String {
    match answer {
        Answer::Replayed(body) => body,
        fresh @ Answer::Fresh(_) => panic!("{fresh:?}"),
    }
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::on(sqlite(folder.path()), Arc::new(NoFaultPoints)).await;
    let first = world
        .keyed("s", "spawn")
        .sessions()
        .spawn(task("x"))
        .await
        .unwrap();
    let spawned = format!("{:?}", first.clone().fresh().unwrap());
    let session = first.session().unwrap();
    let handed = world
        .keyed("h", "handoff")
        .sessions()
        .handoff(session.id.to_string(), actor("agent:b"), None)
        .await
        .unwrap();
    let handed = format!("{:?}", handed.fresh().unwrap());
    let events = world.events().len();
    world.store.close();
    drop(world);

    let world = World::over(sqlite(folder.path()), Arc::new(NoFaultPoints));
    for _ in 0..2 {
        let again = world
            .keyed("s", "spawn")
            .sessions()
            .spawn(task("x"))
            .await
            .unwrap();
        assert_eq!(replayed(again), spawned);
        // It is the old owner's answer, though the session has moved on.
        let again = world
            .keyed("h", "handoff")
            .sessions()
            .handoff(session.id.to_string(), actor("agent:b"), None)
            .await
            .unwrap();
        assert_eq!(replayed(again), handed);
    }
    assert_eq!(world.all::<Session>().len(), 1);
    assert_eq!(world.events().len(), events);
}

#[tokio::test]
async fn a_key_serves_one_request() {
    let world = World::new().await;
    let session = world.root().await;
    world
        .keyed("k", "a")
        .sessions()
        .spawn(task("x"))
        .await
        .unwrap();
    let used = Conflict::KeyReused { key: "k".into() };
    assert_eq!(
        conflict(world.keyed("k", "b").sessions().spawn(task("y")).await),
        used
    );
    let handoff = world
        .keyed("k", "b")
        .sessions()
        .handoff(session.id.to_string(), actor("agent:b"), None)
        .await;
    assert_eq!(conflict(handoff), used);
    assert_eq!(world.all::<Session>().len(), 2);
    world.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_concurrent_requests_with_one_key_have_one_effect() {
    for world in World::everywhere().await {
        let racers = (0..20)
            .map(|_| {
                let requests = world.keyed("s", "spawn");
                async move { requests.sessions().spawn(task("x")).await.unwrap() }
            })
            .collect();
        let answers = race(racers).await;
        let fresh = answers.iter().filter(|a| matches!(a, Answer::Fresh(_)));
        assert_eq!(fresh.count(), 1);
        let session = world.all::<Session>().pop().unwrap();
        assert_eq!(world.all::<Session>().len(), 1);

        let racers = (0..20)
            .map(|_| {
                let (requests, id) = (world.keyed("b", "broadcast"), session.id.to_string());
                async move {
                    requests
                        .sessions()
                        .broadcast(id, actors(&["agent:a", "agent:b"]), None)
                        .await
                }
            })
            .collect();
        let results = race(racers).await;
        let fresh = results.iter().filter(|r| matches!(r, Ok(Answer::Fresh(_))));
        assert_eq!(fresh.count(), 1);
        for lost in results.into_iter().filter(Result::is_err) {
            assert_eq!(conflict(lost), Conflict::KeyInProgress { key: "b".into() });
        }
        assert_eq!(world.children(&session.id).len(), 2);
        world.audit();
    }
}

/// While a saga is being interpreted its key is refused as busy; afterwards it gives the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_under_way_is_neither_new_nor_answered() {
    let held = Arc::new(HoldPoint::default());
    let world = World::on(memory(), held.clone()).await;
    let session = world.root().await;
    let hand_over = || {
        let (requests, id) = (world.keyed("h", "handoff"), session.id.to_string());
        async move {
            requests
                .sessions()
                .handoff(id, actor("agent:b"), None)
                .await
        }
    };
    let mut caller = tokio::task::JoinSet::new();
    caller.spawn(hand_over());
    held.entered.notified().await;
    assert_eq!(
        conflict(hand_over().await),
        Conflict::KeyInProgress { key: "h".into() }
    );
    held.release();
    let first = caller.join_next().await.unwrap().unwrap().unwrap();
    let body = format!("{:?}", first.fresh().unwrap());
    assert_eq!(replayed(hand_over().await.unwrap()), body);
    world.audit();
}

#[tokio::test]
async fn the_key_of_a_handoff_that_was_undone_can_be_used_again() {
    let faults = Arc::new(FaultyBackend::new(memory()));
    let world = World::on(faults.clone(), Arc::new(NoFaultPoints)).await;
    let session = world.root().await;
    let hand_over = |to: &str| {
        let (requests, id) = (world.keyed("h", to), session.id.to_string());
        let to = actor(to);
        async move { requests.sessions().handoff(id, to, None).await }
    };
    // The commit, and then the commit and its undo.
    for writes in [&[2][..], &[2, 3]] {
        for nth in writes {
            faults.arm(*nth, Fault::FailBefore);
        }
        hand_over("agent:b").await.unwrap_err();
        faults.disarm();
        world.ledger.recover().await.unwrap();
    }
    // Also for another request, because the first was undone.
    let moved = hand_over("agent:c").await.unwrap().session().unwrap();
    assert_eq!(moved.owner, actor("agent:c"));
    assert_eq!(
        conflict(hand_over("agent:b").await),
        Conflict::KeyReused { key: "h".into() }
    );
    world.audit();
}

#[tokio::test]
async fn refusals_are_not_remembered() {
    let world = World::new().await;
    let parent = world.root().await;
    let width = |n| ProjectUpdate {
        width: Some(n),
        ..ProjectUpdate::default()
    };
    world.set(width(0)).await;
    refused(
        world
            .keyed("k", "r")
            .sessions()
            .spawn(below(&parent.id))
            .await,
    );
    world.set(width(1)).await;
    let made = world
        .keyed("k", "r")
        .sessions()
        .spawn(below(&parent.id))
        .await;
    assert!(made.unwrap().session().is_some());
    // Now it is: there is no room any more, and the answer is the first one.
    let again = world
        .keyed("k", "r")
        .sessions()
        .spawn(below(&parent.id))
        .await;
    assert!(matches!(again.unwrap(), Answer::Replayed(_)));
    assert_eq!(world.children(&parent.id).len(), 1);
    refused(world.try_child(&parent.id, UNLIMITED).await);
}

/// Each tenant has its own keys: a key reveals nothing of another tenant's requests.
#[tokio::test]
async fn l7_keys_do_not_cross_the_wall() {
    let world = World::new().await;
    let other = world.tenant("other");
    other.add_project("api").await;
    world
        .keyed("k", "a")
        .sessions()
        .spawn(task("x"))
        .await
        .unwrap();
    let fresh = other
        .keyed("k", "b")
        .sessions()
        .spawn(task("y"))
        .await
        .unwrap();
    assert!(fresh.session().is_some());
}

#[tokio::test]
async fn old_answers_are_forgotten_and_young_ones_kept() {
    let world = World::new().await;
    world
        .keyed("old", "a")
        .sessions()
        .spawn(task("x"))
        .await
        .unwrap();
    world.clock.forward(20 * 3600);
    world
        .keyed("young", "b")
        .sessions()
        .spawn(task("y"))
        .await
        .unwrap();
    world.clock.forward(5 * 3600);
    world.ledger.sweep().await.unwrap();
    let young = world
        .keyed("young", "b")
        .sessions()
        .spawn(task("y"))
        .await
        .unwrap();
    assert!(matches!(young, Answer::Replayed(_)));
    let old = world
        .keyed("old", "a")
        .sessions()
        .spawn(task("x"))
        .await
        .unwrap();
    assert!(matches!(old, Answer::Fresh(_)));
}

/// The caller decides what is kept of an answer; the ledger never keeps the secret by itself.
#[tokio::test]
async fn l14_events_hold_no_secret() {
    let world = World::new().await;
    let new = NewToken {
        name: "ci".parse().unwrap(),
        role: skein_domain::Role::Read,
        actor: None,
        expires_in_seconds: None,
        rights: skein_domain::Rights::default(),
    };
    let RequestOutcome::NewToken { secret, .. } = world
        .requests()
        .tokens()
        .create(new)
        .await
        .unwrap()
        .fresh()
        .unwrap()
    else {
        panic!("no token");
    };
    let word = secret.rsplit('.').next().unwrap();
    assert!(world.events().iter().all(|e| !e.data.contains(word)));
    let wrong = world.ledger.authenticate(&format!("{secret}0")).await;
    assert_eq!(wrong.unwrap_err().kind(), Kind::Refused);
}
