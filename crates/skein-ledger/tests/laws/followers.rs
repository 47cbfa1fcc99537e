//! L9: followers change nothing, and late ones miss nothing.

use std::sync::Arc;

use skein_domain::Session;
use skein_ledger::NoFaultPoints;
use skein_ledger::events::EventFollower;
use skein_store::Event;

use crate::common::{UNLIMITED, World, race, refused};

/// Reads up to event `last`.
async fn read_to(follower: &mut EventFollower, last: u64) -> Vec<Arc<Event>> {
    let mut seen: Vec<Arc<Event>> = vec![];
    while seen.last().is_none_or(|e| e.seq < last) {
        let events = follower.next().await.unwrap();
        assert!(!events.is_empty(), "the store was closed");
        seen.extend(events);
    }
    seen
}

async fn work(world: &World) -> Vec<Session> {
    let source = world.root().await;
    let children = world.broadcast(&source.id, &["agent:a", "agent:b"]).await;
    for child in &children {
        world.spend(&child.id, 3).await;
        world.end(&child.id).await;
    }
    world.all()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l9_stalled_and_dropped_followers_change_no_outcome() {
    for world in World::everywhere().await {
        let stalled = world
            .requests()
            .events()
            .follow(Some(0), None)
            .await
            .unwrap();
        let mut cancelled = world.requests().events().follow(None, None).await.unwrap();
        drop(
            world
                .requests()
                .events()
                .follow(Some(0), None)
                .await
                .unwrap(),
        );
        // Dropped while it waits.
        let waits = tokio::select! {
            biased;
            events = cancelled.next() => Some(events),
            () = std::future::ready(()) => None,
        };
        assert!(waits.is_none());
        let sessions = work(&world).await;
        assert_eq!(sessions.len(), 3);
        assert!(sessions[1..].iter().all(|s| !s.phase.is_live()));

        // The cancelled follower gets the event it waited for, and the stalled one all that it missed.
        let head = world.events().len() as u64;
        let first = cancelled.next().await.unwrap()[0].seq;
        assert_eq!(first, 2, "the event after the project's");
        let mut stalled = stalled;
        assert_eq!(read_to(&mut stalled, head).await.len() as u64, head);
        world.audit();
    }
}

/// More than the ring of recent events holds, from several writers at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l9_a_late_follower_sees_everything_in_order() {
    for world in World::everywhere().await {
        let mut live = world
            .requests()
            .events()
            .follow(Some(0), None)
            .await
            .unwrap();
        let sessions: Vec<_> = {
            let mut all = vec![];
            for _ in 0..8 {
                all.push(world.root().await);
            }
            all
        };
        let racers = sessions
            .iter()
            .map(|session| {
                let (world, id) = (world.clone(), session.id.clone());
                async move {
                    for _ in 0..80 {
                        world.spend(&id, 1).await;
                    }
                }
            })
            .collect();
        race(racers).await;
        let written = world.events();
        let head = written.len() as u64;
        assert!(head > 1200, "{head}");

        let mut late = world
            .requests()
            .events()
            .follow(Some(0), None)
            .await
            .unwrap();
        for follower in [&mut live, &mut late] {
            let seen = read_to(follower, head).await;
            let seen: Vec<Event> = seen.iter().map(|e| Event::clone(e)).collect();
            assert!(seen == written, "not as written");
        }
        let numbers: Vec<u64> = written.iter().map(|e| e.seq).collect();
        assert_eq!(numbers, (1..=head).collect::<Vec<_>>());

        // From a cursor in the middle, and of one session only.
        let mut middle = world
            .requests()
            .events()
            .follow(Some(700), None)
            .await
            .unwrap();
        assert_eq!(read_to(&mut middle, head).await[0].seq, 701);
        let id = sessions[3].id.to_string();
        let of_one: Vec<_> = written
            .iter()
            .filter(|e| e.session.as_deref() == Some(&id))
            .collect();
        let mut one = world
            .requests()
            .events()
            .follow(Some(0), Some(id))
            .await
            .unwrap();
        let seen = read_to(&mut one, of_one.last().unwrap().seq).await;
        assert_eq!(seen.len(), of_one.len());
        world.audit();
    }
}

/// Sealing moves events, and no follower notices.
#[tokio::test]
async fn l9_a_follower_reads_through_seals() {
    let world = World::new().await;
    let parent = world.root().await;
    for _ in 0..5 {
        world.child(&parent.id, UNLIMITED).await;
    }
    let written = world.events();
    world.requests().events().seal(2, false).await.unwrap();
    let mut late = world
        .requests()
        .events()
        .follow(Some(0), None)
        .await
        .unwrap();
    let seen = read_to(&mut late, written.len() as u64).await;
    for (seen, written) in seen.iter().zip(&written) {
        assert_eq!(seen.as_ref(), written);
    }
    world.audit();

    // Once their bodies are dropped, a reader without them in memory gets an error.
    world.requests().events().seal(0, true).await.unwrap();
    world.audit_events();
    let again = World::over(world.backend.clone(), Arc::new(NoFaultPoints));
    let mut lost = again
        .requests()
        .events()
        .follow(Some(1), None)
        .await
        .unwrap();
    assert_eq!(refused(lost.next().await).rule(), "events_dropped");
    // A reader from the beginning gets what is kept, also where memory still had more.
    for world in [again, world] {
        let mut all = world
            .requests()
            .events()
            .follow(Some(0), None)
            .await
            .unwrap();
        assert_eq!(all.next().await.unwrap()[0].kind, "events.sealed");
    }
}

#[tokio::test]
async fn l9_closing_the_store_ends_a_follower() {
    let world = World::new().await;
    let mut follower = world.requests().events().follow(None, None).await.unwrap();
    let (world, followed) = (world.clone(), &mut follower);
    let (events, ()) = tokio::join!(async { followed.next().await }, async {
        world.store.close()
    });
    assert!(events.is_err() || events.unwrap().is_empty());
}

/// The same history has the same events with and without followers: kinds, order and sessions.
#[tokio::test]
async fn l9_followers_leave_no_trace() {
    let events_of = |world: &World| -> Vec<(u64, String, Option<String>)> {
        let events = world.events().into_iter();
        events.map(|e| (e.seq, e.kind, e.session)).collect()
    };
    let (quiet, watched) = (World::new().await, World::new().await);
    let mut followers = vec![];
    for _ in 0..20 {
        followers.push(
            watched
                .requests()
                .events()
                .follow(Some(0), None)
                .await
                .unwrap(),
        );
    }
    work(&quiet).await;
    work(&watched).await;
    assert_eq!(events_of(&quiet), events_of(&watched));
    let racers = followers
        .into_iter()
        .map(|mut f| async move { f.next().await.unwrap().len() })
        .collect();
    assert!(race(racers).await.into_iter().all(|n| n > 0));
}
