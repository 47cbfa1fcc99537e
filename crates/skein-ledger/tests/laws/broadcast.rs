//! A broadcast makes one child for each recipient and waits for them.

use skein_domain::{Conflict, Outcome as End, Phase, PhaseName, Refused, SagaId, Session};
use skein_ledger::project::ProjectUpdate;

use crate::common::{UNLIMITED, World, actor, actors, conflict, fence, refused};

const TWO: [&str; 2] = ["agent:a", "agent:b"];

fn broadcast_of(session: &Session) -> SagaId {
    match &session.phase {
        Phase::AwaitingMerge(broadcast) => broadcast.clone(),
        other => panic!("{other:?}"),
    }
}

fn report(world: &World) -> String {
    let events = world.events();
    let finished = events.iter().rfind(|e| e.kind == "broadcast.finished");
    finished.unwrap().data.clone()
}

#[tokio::test]
async fn the_source_keeps_its_owner_and_waits() {
    let world = World::new().await;
    let before = world.root().await;
    let children = world.broadcast(&before.id, &TWO).await;
    let after = world.session(&before.id);
    let broadcast = broadcast_of(&after);
    let expected = Session {
        owner_version: 2,
        version: after.version,
        phase: after.phase.clone(),
        updated_at: after.updated_at,
        last_activity_at: after.last_activity_at,
        ..before.clone()
    };
    assert_eq!(after, expected);
    assert_eq!(children, world.children(&before.id));
    for (child, owner) in children.iter().zip(actors(&TWO)) {
        assert_eq!(child.owner, owner);
        assert_eq!(child.owner_version, 1);
        assert_eq!((child.depth, &child.phase), (1, &Phase::Idle));
        assert_eq!(child.broadcast.as_ref(), Some(&broadcast));
        assert_eq!((&child.task, &child.thread), (&before.task, &before.thread));
    }
    world.audit();
}

/// It returns to idle with a report when the last recipient has ended, in any way.
#[tokio::test]
async fn the_source_returns_when_the_last_recipient_ends() {
    let world = World::new().await;
    let names = ["agent:a", "agent:b", "agent:c", "agent:d"];
    let source = world.root().await;
    let children = world.broadcast(&source.id, &names).await;
    // The broadcast does not wait for an ordinary child.
    let bystander = world.child(&source.id, UNLIMITED).await;
    world.end(&bystander.id).await;
    let busy = world.child(&source.id, UNLIMITED).await;

    world.end(&children[0].id).await;
    world.kill(&children[1].id).await;
    let failed = children[2].id.to_string();
    world
        .requests()
        .sessions()
        .end(failed, fence(), End::Failed, None)
        .await
        .unwrap();
    broadcast_of(&world.session(&source.id));
    assert_eq!(world.count("broadcast.finished"), 0);

    world
        .requests()
        .turns()
        .begin(busy.id.to_string(), fence())
        .await
        .unwrap();
    let settings = ProjectUpdate {
        idle_ttl_seconds: Some(60),
        ..ProjectUpdate::default()
    };
    world.set(settings).await;
    world.clock.forward(61);
    world.run_retention().await;

    assert!(matches!(
        world.session(&children[3].id).phase,
        Phase::Archived { outcome: None }
    ));
    let after = world.session(&source.id);
    assert_eq!(after.phase, Phase::Idle);
    assert_eq!((after.owner_version, after.owner), (2, source.owner));
    let report = report(&world);
    for (child, outcome) in children.iter().zip(["done", "killed", "failed", "done"]) {
        let expected = format!("\"outcome\":\"{outcome}\",\"owner\":\"{}\"", child.owner);
        assert!(report.contains(&expected), "{expected} in {report}");
    }
    assert_eq!(world.count("broadcast.finished"), 1);

    // The return counts as activity, so that the sweep does not archive the session before its report is read.
    world.run_retention().await;
    assert_eq!(world.session(&source.id).phase, Phase::Idle);
    world.audit();
}

#[tokio::test]
async fn a_recipient_that_is_restored_keeps_the_source_waiting() {
    let world = World::new().await;
    let source = world.root().await;
    let children = world.broadcast(&source.id, &TWO).await;
    world.end(&children[0].id).await;
    world
        .requests()
        .sessions()
        .restore(children[0].id.to_string())
        .await
        .unwrap();
    world.end(&children[1].id).await;
    broadcast_of(&world.session(&source.id));
    world.end(&children[0].id).await;
    assert_eq!(world.session(&source.id).phase, Phase::Idle);
    world.audit();
}

#[tokio::test]
async fn merging_a_chosen_child_ends_the_wait() {
    let world = World::new().await;
    let source = world.root().await;
    let children = world.broadcast(&source.id, &TWO).await;
    let merge = |child: &Session| {
        let (requests, from) = (world.requests(), child.id.to_string());
        let into = source.id.to_string();
        async move { requests.sessions().merge(into, from).await }
    };
    // A child at work cannot be merged.
    let first = children[0].id.to_string();
    let requests = world.requests();
    requests
        .turns()
        .begin(first.clone(), fence())
        .await
        .unwrap();
    assert!(matches!(
        conflict(merge(&children[0]).await),
        Conflict::WrongPhase { session, .. } if session == children[0].id
    ));
    requests
        .turns()
        .end(first, fence(), crate::common::used(1))
        .await
        .unwrap();

    let after = merge(&children[0]).await.unwrap().session().unwrap();
    assert_eq!(after.phase, Phase::Idle);
    assert_eq!(after.merges.len(), 1);
    assert_eq!(world.count("broadcast.finished"), 1);
    assert!(report(&world).contains("\"outcome\":null"));

    // A second merge needs new turns.
    let again = Conflict::AlreadyMerged {
        session: source.id.clone(),
        child: children[0].id.clone(),
    };
    assert_eq!(conflict(merge(&children[0]).await), again);
    world.spend(&children[0].id, 1).await;
    merge(&children[0]).await.unwrap();
    assert_eq!(conflict(merge(&children[0]).await), again);

    // The other recipients continue, and their end changes nothing.
    world.end(&children[1].id).await;
    merge(&children[1]).await.unwrap();
    assert_eq!(world.count("broadcast.finished"), 1);
    world.audit();
}

#[tokio::test]
async fn only_a_child_can_be_merged() {
    let world = World::new().await;
    let source = world.root().await;
    let unrelated = world.root().await;
    let child = world.child(&source.id, UNLIMITED).await;
    let grandchild = world.child(&child.id, UNLIMITED).await;
    let before = world.all::<Session>();
    for from in [&unrelated, &grandchild, &source] {
        let result = world
            .requests()
            .sessions()
            .merge(source.id.to_string(), from.id.to_string())
            .await;
        assert_eq!(
            refused(result),
            Refused::NotAChild {
                session: source.id.clone(),
                child: from.id.clone()
            }
        );
    }
    assert_eq!(world.all::<Session>(), before);
}

#[tokio::test]
async fn killing_the_tree_takes_a_waiting_source_and_its_recipients() {
    let world = World::new().await;
    let source = world.root().await;
    let children = world.broadcast(&source.id, &TWO).await;
    let below = world.broadcast(&children[0].id, &TWO).await;
    world
        .requests()
        .sessions()
        .kill(source.id.to_string(), crate::common::kill(true))
        .await
        .unwrap();
    let killed = Phase::Ended {
        outcome: End::Killed,
        reason: None,
    };
    for session in world.all::<Session>() {
        assert_eq!(session.phase, killed, "{}", session.id);
    }
    // Deepest first.
    let events = world.events();
    let ended: Vec<_> = events
        .iter()
        .filter(|e| e.kind == "session.ended")
        .filter_map(|e| e.session.clone())
        .collect();
    let position = |id: &str| ended.iter().position(|e| e == id).unwrap();
    for lower in &below {
        assert!(position(lower.id.as_str()) < position(children[0].id.as_str()));
    }
    assert_eq!(ended.last().unwrap(), source.id.as_str());
    world.audit();
}

/// Killed alone, the source leaves its recipients at work; their end does not wake it.
#[tokio::test]
async fn recipients_outlive_a_source_that_is_killed() {
    let world = World::new().await;
    let source = world.root().await;
    let children = world.broadcast(&source.id, &TWO).await;
    world.kill(&source.id).await;
    for child in &children {
        assert_eq!(world.session(&child.id).phase, Phase::Idle);
        world.end(&child.id).await;
    }
    assert!(matches!(
        world.session(&source.id).phase,
        Phase::Ended { .. }
    ));
    assert_eq!(world.count("broadcast.finished"), 0);
    world
        .requests()
        .sessions()
        .restore(source.id.to_string())
        .await
        .unwrap();
    world
        .requests()
        .sessions()
        .handoff(source.id.to_string(), actor("agent:z"), Some(2))
        .await
        .unwrap();
    world.audit();
}

/// A broadcast waits only for its recipients.
#[tokio::test]
async fn merging_another_child_leaves_the_broadcast_waiting() {
    let world = World::new().await;
    let source = world.root().await;
    let other = world.child(&source.id, UNLIMITED).await;
    let recipients = world.broadcast(&source.id, &TWO).await;
    let merge = async |from: &Session| {
        let (requests, source) = (world.requests(), source.id.to_string());
        requests
            .sessions()
            .merge(source, from.id.to_string())
            .await
            .unwrap();
    };
    merge(&other).await;
    assert_eq!(
        world.session(&source.id).phase.name(),
        PhaseName::AwaitingMerge
    );
    assert_eq!(world.count("broadcast.finished"), 0);
    merge(&recipients[0]).await;
    assert_eq!(world.session(&source.id).phase.name(), PhaseName::Idle);
    assert_eq!(world.count("broadcast.finished"), 1);
}

/// A tree whose root has ended can still be killed.
#[tokio::test]
async fn killing_the_tree_of_an_ended_session_ends_its_live_descendants() {
    let world = World::new().await;
    let root = world.root().await;
    let child = world.child(&root.id, UNLIMITED).await;
    world.end(&root.id).await;
    let killed = world
        .requests()
        .sessions()
        .kill(root.id.to_string(), crate::common::kill(true))
        .await
        .unwrap();
    assert_eq!(killed.session().unwrap().id, root.id);
    assert!(!world.session(&child.id).phase.is_live());
    assert!(
        world
            .requests()
            .sessions()
            .kill(root.id.to_string(), crate::common::kill(true))
            .await
            .is_err()
    );
}
