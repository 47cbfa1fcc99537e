//! A thread is archived only when no session works on it, whichever request is faster.

use std::sync::Arc;

use skein_domain::fact::SessionChange;
use skein_domain::{
    Kind, Outcome as End, Phase, PhaseName, Question, Refused, Session, Thread, ThreadState,
};
use skein_ledger::NoFaultPoints;
use skein_ledger::{Answer, Error, RequestOutcome};
use tokio::task::JoinSet;

use crate::common::{
    HoldPoint, UNLIMITED, World, actor, actors, below, fence, memory, race, refused, sqlite, task,
};

fn thread(answer: Answer) -> Thread {
    match answer.fresh() {
        Some(RequestOutcome::Thread(thread)) => thread,
        other => panic!("{other:?}"),
    }
}

fn question() -> Question {
    Question {
        text: "which?".parse().unwrap(),
        options: vec![],
        kinds: vec![],
        id: None,
    }
}

async fn archive(world: &World, session: &Session) -> Result<Thread, Error> {
    let thread_id = session.thread.to_string();
    world
        .requests()
        .threads()
        .archive(thread_id)
        .await
        .map(thread)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_waits_for_all_sessions_at_work() {
    let held = Arc::new(HoldPoint::default());
    let world = World::on(memory(), held.clone()).await;
    let expected = |session: &Session, phase| Refused::ThreadNotEmpty {
        thread: session.thread.clone(),
        op: "archive",
        offenders: vec![(session.id.clone(), phase)],
        total: 1,
    };

    let session = world.root().await;
    let id = || session.id.to_string();
    world.requests().turns().begin(id(), fence()).await.unwrap();
    assert_eq!(
        refused(archive(&world, &session).await),
        expected(&session, PhaseName::Active)
    );
    world
        .requests()
        .turns()
        .ask(id(), fence(), question())
        .await
        .unwrap();
    assert_eq!(
        refused(archive(&world, &session).await),
        expected(&session, PhaseName::AwaitingInput)
    );
    world
        .requests()
        .turns()
        .withdraw(id(), fence())
        .await
        .unwrap();

    let mut caller = JoinSet::new();
    let (requests, to) = (world.requests(), actors(&["agent:a", "agent:b"]));
    let source = id();
    caller.spawn(async move { requests.sessions().broadcast(source, to, None).await });
    held.entered.notified().await;
    assert_eq!(
        refused(archive(&world, &session).await),
        expected(&session, PhaseName::Locked)
    );
    held.release();
    caller.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(
        refused(archive(&world, &session).await),
        expected(&session, PhaseName::AwaitingMerge)
    );
    for child in world.children(&session.id) {
        world.end(&child.id).await;
    }
    let archived = archive(&world, &session).await.unwrap();
    assert!(matches!(archived.state, ThreadState::Archived { .. }));
    assert_eq!(world.refusals("thread_not_empty"), 4);
    world.audit();
}

/// No operation leaves a session spawning yet; the gate counts such a session anyway.
#[tokio::test]
async fn an_archive_waits_for_a_session_that_is_being_set_up() {
    let world = World::new().await;
    let beside = world.root().await;
    let spawning = Session {
        id: "api-7".parse().unwrap(),
        phase: Phase::Spawning,
        ..beside.clone()
    };
    let made = spawning.clone();
    let tenant = world.store.tenant(world.tenant.clone());
    tenant
        .write_blocking(&actor("system"), beside.created_at, move |writer| {
            writer.insert(&made)?;
            writer.append_event(&SessionChange::Withdrawn.of(&made))
        })
        .unwrap();
    assert_eq!(
        refused(archive(&world, &beside).await),
        Refused::ThreadNotEmpty {
            thread: beside.thread.clone(),
            op: "archive",
            offenders: vec![(spawning.id.clone(), PhaseName::Spawning)],
            total: 1,
        }
    );
    world.kill(&spawning.id).await;
    archive(&world, &beside).await.unwrap();
}

#[tokio::test]
async fn a_refusal_names_fifty_and_counts_all() {
    let world = World::new().await;
    let first = world.root().await;
    for _ in 0..59 {
        let mut spawn = task("x");
        spawn.thread = Some(first.thread.to_string());
        world.requests().sessions().spawn(spawn).await.unwrap();
    }
    for session in world.all::<Session>() {
        let id = session.id.to_string();
        world.requests().turns().begin(id, fence()).await.unwrap();
    }
    let gates = [
        world
            .requests()
            .threads()
            .archive(first.thread.to_string())
            .await,
        world
            .requests()
            .threads()
            .delete(first.thread.to_string())
            .await,
    ];
    for gate in gates {
        match refused(gate) {
            Refused::ThreadNotEmpty {
                offenders, total, ..
            } => assert_eq!((offenders.len(), total), (50, 60)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn archiving_reopening_and_deleting_again_writes_nothing() {
    let world = World::new().await;
    let session = world.root().await;
    let id = || session.thread.to_string();
    let archived = archive(&world, &session).await.unwrap();
    let events = world.events().len();
    assert_eq!(archive(&world, &session).await.unwrap(), archived);
    assert_eq!(world.events().len(), events);

    let reopened = thread(world.requests().threads().reopen(id()).await.unwrap());
    assert_eq!((reopened.state, reopened.version), (ThreadState::Open, 3));
    let again = thread(world.requests().threads().reopen(id()).await.unwrap());
    assert_eq!((again, world.events().len()), (reopened, events + 1));
    world
        .requests()
        .turns()
        .begin(session.id.to_string(), fence())
        .await
        .unwrap();

    let requests = world.requests();
    let empty = requests
        .threads()
        .open("api".into(), "x".parse().unwrap())
        .await;
    let empty = thread(empty.unwrap());
    let gone = world
        .requests()
        .threads()
        .delete(empty.id.to_string())
        .await;
    assert_eq!(thread(gone.unwrap()), empty);
    let events = world.events().len();
    let again = world
        .requests()
        .threads()
        .delete(empty.id.to_string())
        .await;
    assert_eq!(thread(again.unwrap()), empty);
    assert_eq!(world.events().len(), events);
    let missing = world.requests().threads().get(empty.id.to_string()).await;
    assert_eq!(missing.unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test]
async fn nothing_begins_on_an_archived_thread() {
    let world = World::new().await;
    let parent = world.root().await;
    let child = world.child(&parent.id, UNLIMITED).await;
    let ended = world.child(&parent.id, UNLIMITED).await;
    world.end(&ended.id).await;
    archive(&world, &parent).await.unwrap();
    let before = (world.all::<Session>(), world.all::<Thread>());

    let (requests, id) = (world.requests(), || parent.id.to_string());
    let mut beside = task("x");
    beside.thread = Some(parent.thread.to_string());
    let results = [
        requests.sessions().spawn(below(&parent.id)).await,
        requests.sessions().spawn(beside).await,
        requests
            .sessions()
            .handoff(id(), actor("agent:b"), None)
            .await,
        requests
            .sessions()
            .broadcast(id(), actors(&["agent:b", "agent:c"]), None)
            .await,
        requests.sessions().restore(ended.id.to_string()).await,
        requests.turns().begin(id(), fence()).await,
        requests.sessions().merge(id(), child.id.to_string()).await,
    ];
    for result in results {
        assert_eq!(
            refused(result),
            Refused::ThreadArchived {
                thread: parent.thread.clone()
            }
        );
    }
    assert_eq!((world.all::<Session>(), world.all::<Thread>()), before);
    assert_eq!(world.refusals("thread_archived"), 7);
    world.audit();

    world
        .requests()
        .threads()
        .reopen(parent.thread.to_string())
        .await
        .unwrap();
    world
        .requests()
        .sessions()
        .restore(ended.id.to_string())
        .await
        .unwrap();
    world.child(&parent.id, UNLIMITED).await;
    world.audit();
}

/// Idle sessions stay on an archived thread; they can still end.
#[tokio::test]
async fn sessions_on_an_archived_thread_can_still_end() {
    let world = World::new().await;
    let session = world.root().await;
    archive(&world, &session).await.unwrap();
    world.end(&session.id).await;
    world.audit();
}

/// Whichever request wins, no session ever works on an archived thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_an_archive_races_everything_that_begins() {
    let folder = tempfile::tempdir().unwrap();
    let on_disk = World::on(sqlite(folder.path()), Arc::new(NoFaultPoints)).await;
    let mut refusals = 0;
    for (world, rounds) in [(on_disk, 30), (World::new().await, 60)] {
        for _ in 0..rounds {
            let parent = world.root().await;
            let turn = world.child(&parent.id, UNLIMITED).await;
            let ended = world.child(&parent.id, UNLIMITED).await;
            let handed = world.child(&parent.id, UNLIMITED).await;
            world.end(&ended.id).await;
            let thread = parent.thread.to_string();
            let at = |n: u8| {
                let (requests, thread) = (world.requests(), thread.clone());
                let (parent, turn) = (parent.id.clone(), turn.id.to_string());
                let (ended, handed) = (ended.id.to_string(), handed.id.to_string());
                async move {
                    match n {
                        0 => requests.threads().archive(thread).await,
                        1 => requests.sessions().spawn(below(&parent)).await,
                        2 => requests.turns().begin(turn, fence()).await,
                        3 => requests.sessions().restore(ended).await,
                        4 => {
                            requests
                                .sessions()
                                .handoff(handed, actor("agent:b"), None)
                                .await
                        }
                        _ => {
                            requests
                                .sessions()
                                .broadcast(
                                    parent.to_string(),
                                    actors(&["agent:b", "agent:c"]),
                                    None,
                                )
                                .await
                        }
                    }
                }
            };
            let results = race((0..6).map(at).collect()).await;
            for result in &results {
                let kind = crate::common::kind(result);
                assert!(
                    matches!(kind, None | Some(Kind::Refused | Kind::Conflict)),
                    "{result:?}"
                );
                refusals += usize::from(kind.is_some());
            }
            world.audit();
        }
    }
    assert!(refusals > 0, "no request ever lost: this was no race");
}

#[tokio::test]
async fn a_project_is_removed_when_its_threads_are_archived_and_its_prefix_is_never_reused() {
    let world = World::new().await;
    let session = world.root().await;
    let blocked = refused(world.requests().projects().remove("api".into()).await);
    assert!(matches!(blocked, Refused::ProjectNotEmpty { total: 1, .. }));
    archive(&world, &session).await.unwrap();
    // Its thread is archived, but the session could continue after a reopening.
    let blocked = refused(world.requests().projects().remove("api".into()).await);
    assert!(matches!(blocked, Refused::ProjectNotEmpty { total: 1, .. }));
    world.end(&session.id).await;
    world
        .requests()
        .projects()
        .remove("api".into())
        .await
        .unwrap();
    let gone = world
        .requests()
        .threads()
        .reopen(session.thread.to_string())
        .await;
    assert_eq!(refused(gone).rule(), "project_removed");
    let again = world.add_project("api").await;
    assert_eq!(again.prefix.as_str(), "api2");
    assert_eq!(world.root().await.id.as_str(), "api2-1");
    assert!(!world.session(&session.id).phase.is_live());
}

#[tokio::test]
async fn a_session_ends_itself_as_done_or_failed_only() {
    let world = World::new().await;
    let session = world.root().await;
    for outcome in [End::Killed, End::Lost] {
        let id = session.id.to_string();
        let result = world
            .requests()
            .sessions()
            .end(id, fence(), outcome, None)
            .await;
        assert_eq!(result.unwrap_err().kind(), Kind::Misuse);
    }
    assert_eq!(world.session(&session.id), session);
}
