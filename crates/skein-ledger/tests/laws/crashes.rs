//! L4: every write of a handoff fails in every way, and nothing half-done survives.

use std::sync::Arc;

use skein_domain::{Phase, Saga, Session};
use skein_ledger::{Answer, Error, NoFaultPoints};
use skein_store::Store;
use skein_store::backend::Backend;
use skein_store_conformance::fault::{Fault, FaultyBackend};
use tempfile::TempDir;

use crate::common::{World, actor, actors, but_version, memory, sqlite, tokens};

#[derive(Clone, Copy, Debug)]
enum What {
    Single,
    Broadcast,
}

const BOTH: [What; 2] = [What::Single, What::Broadcast];

/// A world on a backend that fails on request, and what is needed to look at it afterwards.
struct Fragile {
    world: World,
    faults: Arc<FaultyBackend>,
    before: Session,
    _folder: TempDir,
}

async fn fragile(on_disk: bool) -> Fragile {
    let folder = tempfile::tempdir().unwrap();
    let inner = if on_disk {
        sqlite(folder.path())
    } else {
        memory()
    };
    let faults = Arc::new(FaultyBackend::new(inner));
    let backend: Arc<dyn Backend> = faults.clone();
    let world = World::on(backend, Arc::new(NoFaultPoints)).await;
    let before = world.root_with(tokens(90)).await;
    Fragile {
        world,
        faults,
        before,
        _folder: folder,
    }
}

async fn hand_over(world: &World, what: What, session: &Session) -> Result<Answer, Error> {
    let requests = world.keyed("k", &format!("{what:?}"));
    let id = session.id.to_string();
    match what {
        What::Single => {
            requests
                .sessions()
                .handoff(id, actor("agent:b"), Some(1))
                .await
        }
        What::Broadcast => {
            let to = actors(&["agent:b", "agent:c"]);
            requests.sessions().broadcast(id, to, Some(1)).await
        }
    }
}

/// Ownership moved in full or not at all; children are all there or none is.
fn moved(world: &World, what: What, before: &Session) -> bool {
    let after = world.session(&before.id);
    let children = world.children(&before.id);
    if after.owner_version == before.owner_version {
        assert_eq!(but_version(&after), but_version(before));
        assert_eq!(children, vec![]);
        return false;
    }
    assert_eq!(after.owner_version, 2);
    match what {
        What::Single => {
            assert_eq!(after.owner, actor("agent:b"));
            assert_eq!(after.previous_owners, vec![before.owner.clone()]);
            assert_eq!((after.phase, children), (Phase::Idle, vec![]));
        }
        What::Broadcast => {
            assert_eq!(after.owner, before.owner);
            assert!(matches!(after.phase, Phase::AwaitingMerge(_)));
            let owners: Vec<_> = children.iter().map(|c| c.owner.clone()).collect();
            assert_eq!(owners, actors(&["agent:b", "agent:c"]));
        }
    }
    true
}

/// After recovery: one of two outcomes, no leftovers, and the key answers accordingly.
async fn check(fragile: &Fragile, world: &World, what: What) {
    world.audit();
    let committed = moved(world, what, &fragile.before);
    let commits = world.count("handoff.committed") + world.count("broadcast.committed");
    assert_eq!(commits, usize::from(committed));
    let locks = world.count("handoff.locked");
    let reverts = world.count("handoff.reverted");
    assert_eq!(reverts + commits, locks, "a lock is followed by its end");

    let again = hand_over(world, what, &fragile.before).await.unwrap();
    assert_eq!(matches!(again, Answer::Replayed(_)), committed);
    assert!(moved(world, what, &fragile.before));
    world.audit();
}

/// Injects every fault into every write; with `undone`, into every write of a handoff whose commit fails.
async fn try_every_fault(on_disk: bool, undone: bool) {
    for what in BOTH {
        let arm = |fragile: &Fragile| {
            if undone {
                fragile.faults.arm(2, Fault::FailBefore);
            }
        };
        let probe = fragile(on_disk).await;
        let writes = probe.faults.writes();
        arm(&probe);
        let result = hand_over(&probe.world, what, &probe.before).await;
        assert_eq!(result.is_err(), undone);
        let writes = probe.faults.writes() - writes;
        assert!(writes >= 2, "a lock, and a commit or a revert");
        check(&probe, &probe.world, what).await;

        for nth in 1..=writes {
            for fault in Fault::ALL {
                let broken = fragile(on_disk).await;
                broken.faults.arm(nth, fault);
                arm(&broken);
                let result = hand_over(&broken.world, what, &broken.before).await;
                assert!(result.is_err(), "{what:?} {nth} {fault:?}");
                broken.faults.revive();
                broken.faults.disarm();
                let world = broken.world.restarted(Arc::new(NoFaultPoints));
                world.ledger.recover().await.unwrap();
                check(&broken, &world, what).await;
            }
        }
    }
}

#[tokio::test]
async fn l4_no_failing_write_leaves_half_a_handoff() {
    try_every_fault(false, false).await;
}

#[tokio::test]
async fn l4_no_failing_write_leaves_half_a_handoff_on_disk() {
    try_every_fault(true, false).await;
}

#[tokio::test]
async fn l4_no_failing_write_leaves_half_an_undo() {
    try_every_fault(false, true).await;
}

/// Without a crash no session stays locked until a restart: the ledger undoes what it can by itself.
#[tokio::test]
async fn l4_a_lost_reply_leaves_no_lock_behind() {
    for what in BOTH {
        for nth in 1..=2 {
            for fault in [Fault::FailBefore, Fault::LoseReply] {
                let broken = fragile(false).await;
                broken.faults.arm(nth, fault);
                let result = hand_over(&broken.world, what, &broken.before).await;
                assert_eq!(
                    result.unwrap_err().kind(),
                    skein_domain::Kind::Unavailable,
                    "{what:?} {nth} {fault:?}"
                );
                check(&broken, &broken.world, what).await;
            }
        }
    }
}

/// A saga that cannot be undone does not stop the recovery of others, in any tenant.
#[tokio::test]
async fn l4_recovery_goes_on_after_a_failure() {
    let faults = Arc::new(FaultyBackend::new(memory()));
    let backend: Arc<dyn Backend> = faults.clone();
    let first = World::on(backend, Arc::new(NoFaultPoints)).await;
    let second = first.tenant("other");
    second.add_project("api").await;
    let mut sessions = vec![];
    for world in [&first, &second] {
        let session = world.root().await;
        faults.arm(1, Fault::StopAfter);
        let lost = world
            .requests()
            .sessions()
            .handoff(session.id.to_string(), actor("agent:b"), None)
            .await;
        assert!(lost.is_err());
        faults.revive();
        assert!(matches!(world.session(&session.id).phase, Phase::Locked(_)));
        sessions.push(session);
    }
    let again = first.restarted(Arc::new(NoFaultPoints));
    faults.arm(1, Fault::FailBefore);
    again.ledger.recover().await.unwrap_err();
    assert_eq!(first.all::<Saga>().len(), 1);
    second.audit();
    assert_eq!(again.ledger.recover().await.unwrap(), 1);
    first.audit();
    assert_eq!(again.ledger.recover().await.unwrap(), 0);
}

/// The file is closed between lock and commit, and opened by another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l4_a_handoff_cut_short_is_undone_at_the_next_start() {
    for what in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let held = Arc::new(crate::common::HoldPoint::default());
        let world = World::on(sqlite(folder.path()), held.clone()).await;
        let before = world.root_with(tokens(90)).await;
        let mut caller = tokio::task::JoinSet::new();
        let (busy, session) = (world.clone(), before.clone());
        caller.spawn(async move { hand_over(&busy, what, &session).await });
        held.entered.notified().await;
        world.store.close();
        held.release();
        caller.join_next().await.unwrap().unwrap().unwrap_err();
        drop((world, caller));

        let prepared = Arc::new(NoFaultPoints);
        let world = World::over(sqlite(folder.path()), prepared.clone());
        assert!(matches!(world.session(&before.id).phase, Phase::Locked(_)));
        assert_eq!(world.ledger.recover().await.unwrap(), 1);
        assert!(!moved(&world, what, &before));
        world.audit();
        hand_over(&world, what, &before).await.unwrap();
        assert!(moved(&world, what, &before));
        world.audit();
    }
}

/// Each single write of the everyday operations fails once: all of it happened, or nothing.
#[tokio::test]
async fn l4_everyday_changes_are_whole_or_absent() {
    for fault in Fault::ALL {
        let broken = fragile(false).await;
        let (world, faults) = (&broken.world, &broken.faults);
        let parent = &broken.before.id;
        let rows = |world: &World| (world.all::<Session>(), world.events().len());

        let before = rows(world);
        faults.arm(1, fault);
        world.try_child(parent, tokens(10)).await.unwrap_err();
        faults.revive();
        world.audit();
        let lost = fault == Fault::FailBefore;
        assert_eq!(rows(world) == before, lost, "{fault:?}");

        let child = match world.children(parent).pop() {
            Some(child) => child,
            None => world.child(parent, tokens(10)).await,
        };
        faults.arm(1, fault);
        let killed = world
            .requests()
            .sessions()
            .kill(child.id.to_string(), crate::common::kill(false))
            .await;
        assert!(killed.is_err());
        faults.revive();
        world.audit();
        assert_eq!(world.session(&child.id).phase.is_live(), lost, "{fault:?}");
    }
}

/// A closed store refuses every request without a panic.
#[tokio::test]
async fn l13_a_closed_store_is_unavailable() {
    let world = World::new().await;
    let session = world.root().await;
    let store: Store = world.store.clone();
    store.close();
    let results = [
        world
            .requests()
            .sessions()
            .kill(session.id.to_string(), crate::common::kill(true))
            .await,
        world
            .requests()
            .sessions()
            .handoff(session.id.to_string(), actor("agent:b"), None)
            .await,
        world
            .requests()
            .sessions()
            .spawn(crate::common::task("x"))
            .await,
    ];
    for result in results {
        assert_eq!(result.unwrap_err().kind(), skein_domain::Kind::Unavailable);
    }
    assert!(world.ledger.recover().await.is_err());
    assert!(world.ledger.sweep().await.is_err());
}
