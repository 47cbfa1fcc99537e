//! L4: a handoff happens in full or not at all, also when it is interrupted between its lock and its commit.

use std::sync::Arc;

use skein_domain::{Kind, Phase, Session};
use skein_ledger::{FaultPoints, NoFaultPoints};
use skein_store_conformance::fault::{Fault, FaultyBackend};
use tokio::task::JoinSet;

use crate::common::{
    HoldPoint, UNLIMITED, World, actor, actors, but_version, conflict, memory, tokens,
    wait_for_event,
};

async fn with(points: Arc<dyn FaultPoints>) -> World {
    World::on(memory(), points).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l4_a_caller_that_hangs_up_does_not_stop_the_handoff() {
    let held = Arc::new(HoldPoint::default());
    let world = with(held.clone()).await;
    let before = world.root().await;
    let (requests, id) = (world.requests(), before.id.to_string());
    let mut caller = JoinSet::new();
    caller.spawn(async move {
        requests
            .sessions()
            .handoff(id, actor("agent:b"), None)
            .await
    });
    held.entered.notified().await;
    assert!(matches!(world.session(&before.id).phase, Phase::Locked(_)));
    caller.shutdown().await;

    // Recovery skips it: this process interprets it.
    assert_eq!(world.ledger.recover().await.unwrap(), 0);
    held.release();
    wait_for_event(&world, "handoff.committed").await;
    let after = world.session(&before.id);
    assert_eq!((after.owner, after.owner_version), (actor("agent:b"), 2));
    world.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l4_a_locked_session_does_nothing_else() {
    let held = Arc::new(HoldPoint::default());
    let world = with(held.clone()).await;
    let session = world.root().await;
    let id = || session.id.to_string();
    let mut caller = JoinSet::new();
    let requests = world.requests();
    let handed = id();
    caller.spawn(async move {
        requests
            .sessions()
            .handoff(handed, actor("agent:b"), None)
            .await
    });
    held.entered.notified().await;

    let (requests, fence) = (world.requests(), crate::common::fence);
    let locked = world.session(&session.id);
    conflict(requests.turns().begin(id(), fence()).await);
    conflict(
        requests
            .sessions()
            .end(id(), fence(), skein_domain::Outcome::Done, None)
            .await,
    );
    conflict(
        requests
            .sessions()
            .kill(id(), crate::common::kill(false))
            .await,
    );
    conflict(
        requests
            .sessions()
            .kill(id(), crate::common::kill(true))
            .await,
    );
    conflict(requests.sessions().restore(id()).await);
    conflict(
        requests
            .sessions()
            .handoff(id(), actor("agent:c"), None)
            .await,
    );
    conflict(
        requests
            .sessions()
            .broadcast(id(), actors(&["agent:c", "agent:d"]), None)
            .await,
    );
    conflict(world.try_child(&session.id, UNLIMITED).await);
    let refused =
        crate::common::refused(requests.threads().archive(locked.thread.to_string()).await);
    assert_eq!(refused.rule(), "thread_not_empty");
    assert_eq!(world.session(&session.id), locked);

    held.release();
    caller.join_next().await.unwrap().unwrap().unwrap();
    world.audit();
}

/// The lock changes only the phase, so a revert keeps what children gave back meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l4_a_child_that_ends_under_a_locked_parent_gives_its_budget_back() {
    let held = Arc::new(HoldPoint::default());
    let faults = Arc::new(FaultyBackend::new(memory()));
    let world = World::on(faults.clone(), held.clone()).await;
    let parent = world.root_with(tokens(100)).await;
    let child = world.child(&parent.id, tokens(60)).await;
    world.spend(&child.id, 25).await;
    let before = world.session(&parent.id);

    let mut caller = JoinSet::new();
    let (requests, id) = (world.requests(), parent.id.to_string());
    caller.spawn(async move {
        requests
            .sessions()
            .broadcast(id, actors(&["agent:b", "agent:c"]), None)
            .await
    });
    held.entered.notified().await;
    world.end(&child.id).await;
    faults.arm(1, Fault::FailBefore);
    held.release();
    let error = caller.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);

    let after = world.session(&parent.id);
    assert_eq!(after.phase, Phase::Idle);
    assert_eq!(after.budget.tokens.reserved, 0);
    assert_eq!(after.budget.tokens.children, 25);
    let expected = Session {
        budget: after.budget,
        ..but_version(&before)
    };
    assert_eq!(but_version(&after), expected);
    world.audit();
}

/// A broadcast does not give out budget that the children of the locked parent overspent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l8_a_broadcast_whose_budget_goes_meanwhile_is_refused_and_undone() {
    let held = Arc::new(HoldPoint::default());
    let world = with(held.clone()).await;
    let parent = world.root_with(tokens(100)).await;
    let child = world.child(&parent.id, tokens(60)).await;
    let mut caller = JoinSet::new();
    let (requests, id) = (world.requests(), parent.id.to_string());
    caller.spawn(async move {
        requests
            .sessions()
            .broadcast(id, actors(&["agent:b", "agent:c"]), None)
            .await
    });
    held.entered.notified().await;
    // It uses more than its share, and so the budget that was meant for the recipients.
    world.spend(&child.id, 99).await;
    held.release();
    let result = caller.join_next().await.unwrap().unwrap();
    assert_eq!(crate::common::refused(result).rule(), "budget");
    assert_eq!(world.children(&parent.id).len(), 1);
    assert_eq!(world.session(&parent.id).owner_version, 1);
    assert_eq!(world.count("handoff.reverted"), 1);
    world.audit();
}

/// Panics between lock and commit.
#[derive(Debug)]
struct Panics;

impl FaultPoints for Panics {
    fn reach(&self, point: &str) {
        assert_ne!(point, "handoff.commit.begin", "on purpose");
    }
}

/// The lock of a handoff that panicked does not stay until a restart.
#[tokio::test]
async fn l4_a_handoff_that_panics_is_undone_by_the_next_sweep() {
    let world = with(Arc::new(Panics)).await;
    let before = world.root().await;
    let error = world
        .requests()
        .sessions()
        .handoff(before.id.to_string(), actor("agent:b"), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(world.ledger.recover().await.unwrap(), 1);
    assert_eq!(
        but_version(&world.session(&before.id)),
        but_version(&before)
    );
    world.audit();
}

#[tokio::test]
async fn l4_a_handoff_checks_before_it_touches() {
    let world = with(Arc::new(NoFaultPoints)).await;
    let session = world.root().await;
    let id = session.id.to_string();
    let same = crate::common::refused(
        world
            .requests()
            .sessions()
            .handoff(id.clone(), actor("user:ann"), None)
            .await,
    );
    assert_eq!(same.rule(), "same_owner");
    for to in [&[][..], &["agent:a"], &["agent:a", "agent:b", "agent:a"]] {
        let result = world
            .requests()
            .sessions()
            .broadcast(id.clone(), actors(to), None)
            .await;
        assert_eq!(result.unwrap_err().kind(), Kind::Misuse, "{to:?}");
    }
    world
        .requests()
        .turns()
        .begin(id.clone(), crate::common::fence())
        .await
        .unwrap();
    conflict(
        world
            .requests()
            .sessions()
            .handoff(id, actor("agent:b"), None)
            .await,
    );
    assert_eq!(world.count("handoff.locked"), 0);
}
