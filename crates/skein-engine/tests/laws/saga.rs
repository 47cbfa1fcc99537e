//! L4: a handoff is done or it is not; what prepares it may fail, hang or panic.

use std::sync::Arc;

use skein_domain::{Handoff, Kind, Phase, Session};
use skein_engine::{Error, Provisioner};
use tokio::task::JoinSet;

use crate::common::{
    Fails, Held, Prepared, UNLIMITED, World, actor, actors, but_version, conflict, memory, tokens,
    told,
};

async fn with(provisioner: Arc<dyn Provisioner>) -> World {
    World::on(memory(), provisioner).await
}

#[tokio::test]
async fn l4_a_handoff_that_cannot_be_prepared_leaves_the_session_as_it_was() {
    let prepared = Arc::new(Prepared::default());
    let world = with(prepared.clone()).await;
    prepared.plan(Fails::Prepare);
    let before = world.root_with(tokens(90)).await;
    let id = before.id.to_string();

    let error = world
        .desk()
        .handoff(id.clone(), actor("agent:b"), Some(1))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::HandoffUndone { session, why } if *session == before.id && why == "prepare failed"),
        "{error:?}"
    );
    assert_eq!(
        but_version(&world.session(&before.id)),
        but_version(&before)
    );

    let to = actors(&["agent:b", "agent:c"]);
    let error = world.desk().broadcast(id.clone(), to, Some(1)).await;
    assert_eq!(error.unwrap_err().kind(), Kind::Failed);
    assert_eq!(
        but_version(&world.session(&before.id)),
        but_version(&before)
    );
    assert_eq!(world.children(&before.id), vec![]);
    assert_eq!(world.count("handoff.reverted"), 2);
    assert_eq!((prepared.times("prepare"), prepared.times("undo")), (2, 2));
    world.audit();

    // The same expected version still holds: nothing moved.
    prepared.plan(Fails::Nothing);
    let moved = world.desk().handoff(id, actor("agent:b"), Some(1)).await;
    assert_eq!(moved.unwrap().session().unwrap().owner_version, 2);
    world.audit();
}

/// The first error is what the caller hears, the session is free at once, and the undo is tried again
/// until it succeeds.
#[tokio::test]
async fn l4_an_undo_that_fails_is_recorded_retried_and_hides_nothing() {
    let prepared = Arc::new(Prepared::default());
    let world = with(prepared.clone()).await;
    prepared.plan(Fails::PrepareAndUndo);
    let before = world.root().await;
    let error = world
        .desk()
        .handoff(before.id.to_string(), actor("agent:b"), None)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::HandoffUndone { why, .. } if why == "prepare failed"),
        "{error:?}"
    );
    assert_eq!(
        but_version(&world.session(&before.id)),
        but_version(&before)
    );
    let told = world.events().pop().unwrap();
    assert_eq!(told.kind, "handoff.reverted");
    assert!(told.data.contains("undo failed"), "{}", told.data);

    // The session is free meanwhile, and another handoff is not held up.
    prepared.plan(Fails::Undo);
    let moved = world
        .desk()
        .handoff(before.id.to_string(), actor("agent:c"), None)
        .await;
    assert_eq!(moved.unwrap().session().unwrap().owner, actor("agent:c"));

    assert_eq!(world.all::<Handoff>().len(), 1);
    assert_eq!(world.engine.recover().await.unwrap(), 0);
    prepared.plan(Fails::Nothing);
    assert_eq!(world.engine.recover().await.unwrap(), 1);
    assert_eq!(prepared.times("undo"), 3);
    assert_eq!(world.session(&before.id).owner, actor("agent:c"));
    world.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l4_a_caller_that_hangs_up_does_not_stop_the_handoff() {
    let held = Arc::new(Held::default());
    let world = with(held.clone()).await;
    let before = world.root().await;
    let (desk, id) = (world.desk(), before.id.to_string());
    let mut caller = JoinSet::new();
    caller.spawn(async move { desk.handoff(id, actor("agent:b"), None).await });
    held.entered.notified().await;
    assert!(matches!(world.session(&before.id).phase, Phase::Locked(_)));
    caller.shutdown().await;

    // Recovery leaves it alone: it is at work in this process.
    assert_eq!(world.engine.recover().await.unwrap(), 0);
    held.go.add_permits(1);
    told(&world, "handoff.committed").await;
    let after = world.session(&before.id);
    assert_eq!((after.owner, after.owner_version), (actor("agent:b"), 2));
    world.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l4_a_locked_session_does_nothing_else() {
    let held = Arc::new(Held::default());
    let world = with(held.clone()).await;
    let session = world.root().await;
    let id = || session.id.to_string();
    let mut caller = JoinSet::new();
    let desk = world.desk();
    let handed = id();
    caller.spawn(async move { desk.handoff(handed, actor("agent:b"), None).await });
    held.entered.notified().await;

    let (desk, fence) = (world.desk(), crate::common::fence);
    let locked = world.session(&session.id);
    conflict(desk.begin_turn(id(), fence()).await);
    conflict(
        desk.end(id(), fence(), skein_domain::Outcome::Done, None)
            .await,
    );
    conflict(desk.kill(id(), crate::common::kill(false)).await);
    conflict(desk.kill(id(), crate::common::kill(true)).await);
    conflict(desk.restore(id()).await);
    conflict(desk.handoff(id(), actor("agent:c"), None).await);
    conflict(
        desk.broadcast(id(), actors(&["agent:c", "agent:d"]), None)
            .await,
    );
    conflict(world.try_child(&session.id, UNLIMITED).await);
    let refused = crate::common::refused(desk.archive_thread(locked.thread.to_string()).await);
    assert_eq!(refused.rule(), "thread_not_empty");
    assert_eq!(world.session(&session.id), locked);

    held.go.add_permits(1);
    caller.join_next().await.unwrap().unwrap().unwrap();
    world.audit();
}

/// The lock changes the phase and nothing else, so what children settle meanwhile is kept by a revert.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l4_a_child_that_ends_under_a_locked_parent_keeps_its_settlement() {
    let held = Arc::new(Held::default());
    let world = with(held.clone()).await;
    let parent = world.root_with(tokens(100)).await;
    let child = world.child(&parent.id, tokens(60)).await;
    world.spend(&child.id, 25).await;
    let before = world.session(&parent.id);

    let mut caller = JoinSet::new();
    let (desk, id) = (world.desk(), parent.id.to_string());
    caller.spawn(async move {
        desk.broadcast(id, actors(&["agent:b", "agent:c"]), None)
            .await
    });
    held.entered.notified().await;
    world.end(&child.id).await;
    held.go.close();
    let error = caller.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, Error::HandoffUndone { .. }), "{error:?}");

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

/// What the children of a locked parent overspend is not given out a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l8_a_broadcast_whose_budget_goes_meanwhile_is_refused_and_undone() {
    let held = Arc::new(Held::default());
    let world = with(held.clone()).await;
    let parent = world.root_with(tokens(100)).await;
    let child = world.child(&parent.id, tokens(60)).await;
    let mut caller = JoinSet::new();
    let (desk, id) = (world.desk(), parent.id.to_string());
    caller.spawn(async move {
        desk.broadcast(id, actors(&["agent:b", "agent:c"]), None)
            .await
    });
    held.entered.notified().await;
    // It takes more than its share, and so what the recipients were to have.
    world.spend(&child.id, 99).await;
    held.go.add_permits(1);
    let result = caller.join_next().await.unwrap().unwrap();
    assert_eq!(crate::common::refused(result).rule(), "budget");
    assert_eq!(world.children(&parent.id).len(), 1);
    assert_eq!(world.session(&parent.id).owner_version, 1);
    assert_eq!(world.count("handoff.reverted"), 1);
    world.audit();
}

/// Does what no provisioner may do.
#[derive(Debug)]
struct Panics;

impl Provisioner for Panics {
    fn prepare<'a>(
        &'a self,
        _: &'a Handoff,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async { panic!("on purpose") })
    }
    fn undo<'a>(
        &'a self,
        _: &'a Handoff,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The lock of a handoff that fell over does not wait for a restart.
#[tokio::test]
async fn l4_a_handoff_that_panics_is_undone_by_the_next_sweep() {
    let world = with(Arc::new(Panics)).await;
    let before = world.root().await;
    let error = world
        .desk()
        .handoff(before.id.to_string(), actor("agent:b"), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(world.engine.recover().await.unwrap(), 1);
    assert_eq!(
        but_version(&world.session(&before.id)),
        but_version(&before)
    );
    world.audit();
}

#[tokio::test]
async fn l4_a_handoff_checks_before_it_touches() {
    let prepared = Arc::new(Prepared::default());
    let world = with(prepared.clone()).await;
    let session = world.root().await;
    let id = session.id.to_string();
    let same = crate::common::refused(
        world
            .desk()
            .handoff(id.clone(), actor("user:ann"), None)
            .await,
    );
    assert_eq!(same.rule(), "same_owner");
    for to in [&[][..], &["agent:a"], &["agent:a", "agent:b", "agent:a"]] {
        let result = world.desk().broadcast(id.clone(), actors(to), None).await;
        assert_eq!(result.unwrap_err().kind(), Kind::Misuse, "{to:?}");
    }
    world
        .desk()
        .begin_turn(id.clone(), crate::common::fence())
        .await
        .unwrap();
    conflict(world.desk().handoff(id, actor("agent:b"), None).await);
    assert_eq!(prepared.times("prepare"), 0);
    assert_eq!(world.count("handoff.locked"), 0);
}
