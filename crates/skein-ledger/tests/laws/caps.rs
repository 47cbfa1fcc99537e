//! L8: children of a session are counted in the transaction that adds one.

use skein_domain::{Refused, Session, Thread};
use skein_ledger::project::ProjectUpdate;

use crate::common::{UNLIMITED, World, actors, below, conflict, race, refused, task};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l8_of_many_racers_for_the_last_place_one_wins() {
    for world in World::everywhere().await {
        let parent = world.root().await;
        for _ in 0..7 {
            world.child(&parent.id, UNLIMITED).await;
        }
        let threads = world.all::<Thread>().len();
        let racers = (0..20)
            .map(|_| {
                let (world, parent) = (world.clone(), parent.id.clone());
                async move { world.try_child(&parent, UNLIMITED).await }
            })
            .collect();
        let results = race(racers).await;
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
        for result in results.into_iter().filter(Result::is_err) {
            assert_eq!(
                refused(result),
                Refused::Width {
                    session: parent.id.clone(),
                    live: 8,
                    asked: 1,
                    limit: 8
                }
            );
        }
        assert_eq!(world.children(&parent.id).len(), 8);
        assert_eq!(world.count("session.spawned"), 9);
        assert_eq!(world.refusals("width"), 19);
        assert_eq!(world.all::<Thread>().len(), threads);
        world.audit();
    }
}

/// The next id follows the last one given: refused spawns used none.
#[tokio::test]
async fn l8_a_refused_spawn_costs_nothing_but_its_audit_event() {
    let world = World::new().await;
    world
        .set(ProjectUpdate {
            width: Some(0),
            ..ProjectUpdate::default()
        })
        .await;
    let parent = world.root().await;
    let before = (
        world.all::<Session>(),
        world.all::<Thread>(),
        world.events().len(),
    );
    for n in 1..=3 {
        refused(world.try_child(&parent.id, UNLIMITED).await);
        assert_eq!(world.events().len(), before.2 + n);
        let last = world.events().pop().unwrap();
        assert_eq!(last.kind, "audit.refused");
        assert_eq!(last.session.as_deref(), Some(parent.id.as_str()));
        assert_eq!(last.actor, "user:ann");
    }
    assert_eq!(
        (world.all::<Session>(), world.all::<Thread>()),
        (before.0, before.1)
    );
    assert_eq!(world.root().await.id.as_str(), "api-2");
}

/// A root session that is refused leaves no thread of its own behind either.
#[tokio::test]
async fn l8_a_refused_root_leaves_no_thread() {
    let world = World::new().await;
    let mut spawn = task("x");
    spawn.allowance.tokens = Some(0);
    assert!(world.requests().sessions().spawn(spawn).await.is_err());
    assert_eq!(world.all::<Thread>(), vec![]);
    assert_eq!(world.all::<Session>(), vec![]);
}

#[tokio::test]
async fn l8_eight_finished_children_do_not_block_a_ninth() {
    let world = World::new().await;
    let parent = world.root().await;
    for n in 0..8 {
        let child = world.child(&parent.id, UNLIMITED).await;
        if n % 2 == 0 {
            world.end(&child.id).await;
        } else {
            world.kill(&child.id).await;
        }
    }
    for _ in 0..8 {
        world.child(&parent.id, UNLIMITED).await;
    }
    refused(world.try_child(&parent.id, UNLIMITED).await);
    world.audit();
}

#[tokio::test]
async fn l8_the_fourth_level_is_the_last() {
    let world = World::new().await;
    let mut line = vec![world.root().await];
    for depth in 1..=4 {
        let child = world.child(&line.last().unwrap().id, UNLIMITED).await;
        assert_eq!(child.depth, depth);
        line.push(child);
    }
    let last = line.last().unwrap().id.clone();
    let too_deep = Refused::Depth {
        session: last.clone(),
        depth: 5,
        limit: 4,
    };
    assert_eq!(refused(world.try_child(&last, UNLIMITED).await), too_deep);
    let to = actors(&["agent:a", "agent:b"]);
    let result = world
        .requests()
        .sessions()
        .broadcast(last.to_string(), to, None)
        .await;
    assert_eq!(refused(result), too_deep);
    assert_eq!(world.refusals("depth"), 2);
    world.audit();
}

#[tokio::test]
async fn l8_recipients_of_a_broadcast_take_places() {
    let world = World::new().await;
    world
        .set(ProjectUpdate {
            width: Some(3),
            ..ProjectUpdate::default()
        })
        .await;
    let parent = world.root().await;
    let id = parent.id.to_string();
    world.child(&parent.id, UNLIMITED).await;
    let three = actors(&["agent:a", "agent:b", "agent:c"]);
    let result = world
        .requests()
        .sessions()
        .broadcast(id.clone(), three, None)
        .await;
    assert_eq!(
        refused(result),
        Refused::Width {
            session: parent.id.clone(),
            live: 1,
            asked: 3,
            limit: 3
        }
    );
    let children = world.broadcast(&parent.id, &["agent:a", "agent:b"]).await;
    refused(world.try_child(&parent.id, UNLIMITED).await);
    world.end(&children[0].id).await;
    world.child(&parent.id, UNLIMITED).await;
    // A restore needs a free place, too.
    let full = refused(
        world
            .requests()
            .sessions()
            .restore(children[0].id.to_string())
            .await,
    );
    assert!(matches!(full, Refused::Width { live: 3, .. }));
    world.audit();
}

/// A session that was handed over keeps its children, and they keep their places.
#[tokio::test]
async fn l8_places_move_with_a_session_that_is_handed_over() {
    let world = World::new().await;
    world
        .set(ProjectUpdate {
            width: Some(1),
            ..ProjectUpdate::default()
        })
        .await;
    let parent = world.root().await;
    world.child(&parent.id, UNLIMITED).await;
    world
        .requests()
        .sessions()
        .handoff(parent.id.to_string(), actors(&["agent:b"]).remove(0), None)
        .await
        .unwrap();
    refused(world.try_child(&parent.id, UNLIMITED).await);
}

#[tokio::test]
async fn l8_only_live_sessions_delegate() {
    let world = World::new().await;
    let parent = world.root().await;
    world.end(&parent.id).await;
    conflict(world.requests().sessions().spawn(below(&parent.id)).await);
    assert_eq!(world.all::<Session>().len(), 1);
}
