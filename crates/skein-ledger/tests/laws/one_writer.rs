//! L1: of many writers with the same version one wins.

use skein_domain::{Conflict, Kind, Phase, Session};
use skein_ledger::project::ProjectUpdate;

use crate::common::{World, actor, actors, conflict, fence, kind, race};

const RACERS: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_of_fifty_handoffs_with_one_version_one_commits() {
    for world in World::everywhere().await {
        let before = world.root().await;
        let racers = (0..RACERS)
            .map(|n| {
                let (requests, id) = (world.requests(), before.id.to_string());
                async move {
                    requests
                        .sessions()
                        .handoff(id, actor(&format!("agent:a{n}")), Some(1))
                        .await
                }
            })
            .collect();
        let results = race(racers).await;
        let winner = results.iter().position(Result::is_ok).unwrap();
        for (n, result) in results.into_iter().enumerate() {
            match result {
                Ok(answer) => assert_eq!((n, answer.session().is_some()), (winner, true)),
                lost => drop(conflict(lost)),
            }
        }
        let after = world.session(&before.id);
        let expected = Session {
            owner: actor(&format!("agent:a{winner}")),
            owner_version: 2,
            previous_owners: vec![before.owner.clone()],
            version: 3,
            updated_at: after.updated_at,
            last_activity_at: after.last_activity_at,
            ..before
        };
        assert_eq!(after, expected);
        assert_eq!(world.count("handoff.locked"), 1);
        assert_eq!(world.count("handoff.committed"), 1);
        world.audit();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_of_fifty_broadcasts_with_one_version_one_commits() {
    for world in World::everywhere().await {
        let before = world.root().await;
        let racers = (0..RACERS)
            .map(|n| {
                let (requests, id) = (world.requests(), before.id.to_string());
                let to = actors(&[&format!("agent:a{n}"), &format!("agent:b{n}")]);
                async move { requests.sessions().broadcast(id, to, Some(1)).await }
            })
            .collect();
        let results = race(racers).await;
        let winner = results.iter().position(Result::is_ok).unwrap();
        let lost = results.iter().filter(|r| kind(r) == Some(Kind::Conflict));
        assert_eq!(lost.count(), RACERS - 1);

        let owners: Vec<_> = world
            .children(&before.id)
            .into_iter()
            .map(|c| c.owner)
            .collect();
        assert_eq!(
            owners,
            actors(&[&format!("agent:a{winner}"), &format!("agent:b{winner}")])
        );
        let after = world.session(&before.id);
        assert!(matches!(after.phase, Phase::AwaitingMerge(_)));
        assert_eq!((after.owner, after.owner_version), (before.owner, 2));
        assert_eq!(after.previous_owners, vec![]);
        assert_eq!(world.count("session.spawned"), 3);
        world.audit();
    }
}

/// Without an expected version a second handoff may follow the first, but never interleaves with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_handoffs_without_a_version_follow_each_other() {
    for world in World::everywhere().await {
        let before = world.root().await;
        let racers = (0..RACERS)
            .map(|n| {
                let (requests, id) = (world.requests(), before.id.to_string());
                async move {
                    requests
                        .sessions()
                        .handoff(id, actor(&format!("agent:a{n}")), None)
                        .await
                }
            })
            .collect();
        let won = race(racers).await.iter().filter(|r| r.is_ok()).count();
        let after = world.session(&before.id);
        assert_eq!(after.owner_version, 1 + won as u64);
        assert_eq!(after.previous_owners.len(), won);
        assert_eq!(world.count("handoff.committed"), won);
        world.audit();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_of_fifty_turns_one_begins() {
    for world in World::everywhere().await {
        let session = world.root().await;
        let racers = (0..RACERS)
            .map(|_| {
                let (requests, id) = (world.requests(), session.id.to_string());
                async move { requests.turns().begin(id, fence()).await }
            })
            .collect();
        let results = race(racers).await;
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
        let lost = results.iter().filter(|r| kind(r) == Some(Kind::Conflict));
        assert_eq!(lost.count(), RACERS - 1);
        assert_eq!(world.session(&session.id).version, 2);
        assert_eq!(world.count("session.turn_began"), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_of_fifty_settings_with_one_version_one_is_kept() {
    for world in World::everywhere().await {
        let racers = (0..RACERS)
            .map(|n| {
                let requests = world.requests();
                let settings = ProjectUpdate {
                    width: Some(100 + u32::try_from(n).unwrap()),
                    ..ProjectUpdate::default()
                };
                async move {
                    requests
                        .projects()
                        .set("api".into(), Some(1), settings)
                        .await
                }
            })
            .collect();
        let results = race(racers).await;
        let winner = results.iter().position(Result::is_ok).unwrap();
        for result in results.into_iter().filter(Result::is_err) {
            match conflict(result) {
                Conflict::Version {
                    what: "project",
                    expected: 1,
                    actual: 2,
                    ..
                } => {}
                other => panic!("{other:?}"),
            }
        }
        let project = world.requests().projects().get("api".into()).await.unwrap();
        assert_eq!(
            (project.version, project.limits.width),
            (2, 100 + winner as u32)
        );
        assert_eq!(world.count("project.changed"), 1);
    }
}

/// A program that lost its run or its ownership can no longer write.
#[tokio::test]
async fn l1_stale_runs_and_owners_are_fenced_off() {
    let world = World::new().await;
    let session = world.root().await;
    let id = session.id.to_string();
    world.kill(&session.id).await;
    world
        .requests()
        .sessions()
        .restore(id.clone())
        .await
        .unwrap();
    let stale = skein_ledger::turn::Fence {
        run: Some(1),
        ..fence()
    };
    let lost = conflict(world.requests().turns().begin(id.clone(), stale).await);
    assert!(matches!(
        lost,
        Conflict::Run {
            expected: 1,
            actual: 2,
            ..
        }
    ));

    world
        .requests()
        .sessions()
        .handoff(id.clone(), actor("agent:b"), None)
        .await
        .unwrap();
    let stale = skein_ledger::turn::Fence {
        owner_version: Some(1),
        ..fence()
    };
    let lost = conflict(world.requests().turns().begin(id.clone(), stale).await);
    assert!(matches!(
        lost,
        Conflict::OwnerVersion {
            expected: 1,
            actual: 2,
            ..
        }
    ));
    assert_eq!(world.session(&session.id).phase, Phase::Idle);
}
