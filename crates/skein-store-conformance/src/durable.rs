//! What stays: acknowledged writes, numbers, claims and answers; and what a fault leaves.

use std::collections::BTreeSet;
use std::sync::Arc;

use skein_domain::{Actor, Conflict, Error as DomainError, Key, Kind, Project, Session, SessionId};

use crate::Subject;
use crate::fault::{Fault, FaultyBackend};
use crate::fixture::{
    at, handoff_id, note, project, race, session, session_id, tenant, turn_began, world, write,
};
use skein_store::backend::RowFilter;
use skein_store::error::Error;
use skein_store::reply::PriorRequest;
use skein_store::tenant::Store;

pub fn acknowledged_writes_survive_reopen(subject: &mut Subject) {
    let mut world = world(&subject.store);
    let results = race(10, |racer| {
        (1..=5)
            .map(|n| world.add(&session(racer as u64 * 10 + n, None)))
            .collect::<Result<Vec<()>, _>>()
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let before = world
        .tenant
        .read_blocking(|r| r.events(0, None, 100))
        .unwrap();
    subject.reopen();
    world.tenant = tenant(&subject.store, "default");
    for n in (0..10).flat_map(|racer| (1..=5).map(move |n| racer * 10 + n)) {
        assert_eq!(world.find(n), Some(session(n, None)));
    }
    assert_eq!(
        world
            .tenant
            .read_blocking(|r| r.events(0, None, 100))
            .unwrap(),
        before
    );
    assert_eq!(
        world.tenant.read_blocking(|r| r.verify()).unwrap().broken,
        None
    );
    assert_eq!(
        world
            .tenant
            .read_blocking(|r| r.get::<Project>(project().id.as_str()))
            .unwrap(),
        world.project
    );
    assert!(subject.store.check().unwrap().is_empty());
}

pub fn a_closed_store_is_unavailable(subject: &mut Subject) {
    let world = world(&subject.store);
    subject.store.close();
    subject.store.close();
    assert_eq!(
        world.add(&session(1, None)).unwrap_err().kind(),
        Kind::Unavailable
    );
    assert_eq!(
        world.tenant.read_blocking(|r| r.head()).unwrap_err().kind(),
        Kind::Unavailable
    );
    assert_eq!(
        subject.store.tenants().unwrap_err().kind(),
        Kind::Unavailable
    );
    assert_eq!(subject.store.check().unwrap_err().kind(), Kind::Unavailable);
}

pub fn a_dropped_caller_does_not_stop_its_write(subject: &mut Subject) {
    let world = world(&subject.store);
    let (started, runs) = std::sync::mpsc::channel();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let tenant = &world.tenant;
        scope.spawn(move || {
            let made = session(1, None);
            let job = move |writer: &mut skein_store::Writer<'_>| {
                started.send(()).unwrap();
                gate.recv().unwrap();
                writer.insert(&made)?;
                writer.append_event(&turn_began(&made))
            };
            // Polled once, which hands the job over, then dropped.
            let mut write = std::pin::pin!(tenant.write(&Actor::System, at(1), job));
            let _ = write
                .as_mut()
                .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        });
        runs.recv().unwrap();
        go.send(()).unwrap();
    });
    // Jobs are serial, so this one runs after it.
    write(&world.tenant, |w| w.append_event(&note("after"))).unwrap();
    assert_eq!(world.find(1), Some(session(1, None)));
    assert_eq!(world.tenant.read_blocking(|r| r.head()).unwrap().seq, 3);
}

pub fn snapshots_do_not_move(subject: &mut Subject) {
    let world = world(&subject.store);
    world
        .tenant
        .read_blocking(|reader| {
            assert_eq!(reader.head()?.seq, 1);
            world.add(&session(1, None))?;
            assert_eq!(reader.head()?.seq, 1);
            assert_eq!(reader.find::<Session>("api-1")?, None);
            assert!(reader.events(1, None, 9)?.is_empty());
            Ok(())
        })
        .unwrap();
    assert_eq!(world.find(1), Some(session(1, None)));
}

pub fn session_numbers_are_never_reused(subject: &mut Subject) {
    let mut world = world(&subject.store);
    let next = |world: &crate::fixture::World| {
        let project = world.project.clone();
        write(&world.tenant, move |w| w.next_session_id(&project)).unwrap()
    };
    assert_eq!(next(&world), session_id(1));
    let made = Session {
        id: next(&world),
        ..session(2, None)
    };
    world.add(&made).unwrap();
    world.delete(&made).unwrap();
    assert_eq!(next(&world), session_id(3));
    subject.reopen();
    world.tenant = tenant(&subject.store, "default");
    assert_eq!(next(&world), session_id(4));
    let given: BTreeSet<SessionId> = race(20, |_| next(&world)).into_iter().collect();
    assert_eq!(given.len(), 20);
}

pub fn claims_belong_to_one_holder(subject: &mut Subject) {
    let world = world(&subject.store);
    let results = race(20, |n| {
        write(&world.tenant, move |w| {
            w.claim("path:/src", &format!("holder {n}"))
        })
        .unwrap()
    });
    let holder = world
        .tenant
        .read_blocking(|r| r.claimed_by("path:/src"))
        .unwrap()
        .unwrap();
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    assert!(
        results
            .iter()
            .flat_map(|r| r.as_ref().err())
            .all(|other| *other == holder)
    );
    write(&world.tenant, |w| {
        w.release("path:/src").and_then(|()| w.release("path:/src"))
    })
    .unwrap();
    assert_eq!(
        world
            .tenant
            .read_blocking(|r| r.claimed_by("path:/src"))
            .unwrap(),
        None
    );
    assert_eq!(
        write(&world.tenant, |w| w.claim("path:/src", "next")).unwrap(),
        Ok(())
    );
}

pub fn replies_are_kept_and_forgotten(subject: &mut Subject) {
    let mut world = world(&subject.store);
    let key = |n: u64| format!("key-{n}").parse::<Key>().unwrap();
    let keep = |world: &crate::fixture::World, n: u64, now: i64| {
        let job = move |w: &mut skein_store::Writer<'_>| {
            w.keep_reply(&key(n), &[1; 32], format!("answer {n}"))
        };
        world
            .tenant
            .write_blocking(&Actor::System, at(now), job)
            .unwrap();
    };
    let earlier = |world: &crate::fixture::World, n: u64, print: u8| {
        world
            .tenant
            .read_blocking(|r| r.earlier(&key(n), &[print; 32]))
    };
    assert_eq!(earlier(&world, 1, 1).unwrap(), PriorRequest::Never);
    (1..=5).for_each(|n| keep(&world, n, 100 * i64::try_from(n).unwrap()));
    write(&world.tenant, move |w| {
        w.reply_pending(&key(6), &[1; 32], &handoff_id())
    })
    .unwrap();
    subject.reopen();
    world.tenant = tenant(&subject.store, "default");
    assert_eq!(
        earlier(&world, 1, 1).unwrap(),
        PriorRequest::Answered("answer 1".into())
    );
    let reused = earlier(&world, 1, 2).unwrap_err();
    assert!(
        matches!(
            reused,
            Error::Domain(DomainError::Conflict(Conflict::KeyReused { .. }))
        ),
        "{reused:?}"
    );
    let pending = earlier(&world, 6, 1).unwrap_err();
    assert!(
        matches!(
            pending,
            Error::Domain(DomainError::Conflict(Conflict::KeyInProgress { .. }))
        ),
        "{pending:?}"
    );
    write(&world.tenant, move |w| {
        w.keep_reply(&key(6), &[1; 32], "done".into())
    })
    .unwrap();
    assert_eq!(
        earlier(&world, 6, 1).unwrap(),
        PriorRequest::Answered("done".into())
    );

    write(&world.tenant, move |w| w.forget_reply(key(2).as_str())).unwrap();
    // The oldest first, and no more than asked for; 300 itself is not before 300.
    assert_eq!(
        write(&world.tenant, |w| w.forget_replies(at(400), 1)).unwrap(),
        1
    );
    assert_eq!(
        earlier(&world, 3, 1).unwrap(),
        PriorRequest::Answered("answer 3".into())
    );
    assert_eq!(
        write(&world.tenant, |w| w.forget_replies(at(400), 9)).unwrap(),
        1
    );
    assert_eq!(
        write(&world.tenant, |w| w.forget_replies(at(400), 9)).unwrap(),
        0
    );
    let left: Vec<u64> = (1..=6)
        .filter(|n| earlier(&world, *n, 1).unwrap() != PriorRequest::Never)
        .collect();
    assert_eq!(left, [4, 5, 6]);
}

pub fn faults_lose_the_reply_or_the_write_but_never_half(subject: &mut Subject) {
    let faulty = Arc::new(FaultyBackend::new(subject.backend.clone()));
    let store = Store::new(faulty.clone());
    let world = world(&store);
    for (n, fault) in (1..).zip(Fault::ALL) {
        let (first, second) = (session(n * 10, None), session(n * 10 + 1, None));
        let writes = faulty.writes();
        faulty.arm(2, fault);
        world.add(&first).unwrap();
        assert_eq!(
            world.add(&second).unwrap_err().kind(),
            Kind::Unavailable,
            "{fault:?}"
        );
        let stopped = world.tenant.read_blocking(|r| r.head()).is_err();
        assert_eq!(stopped, fault == Fault::StopAfter);
        assert_eq!(world.add(&session(n * 10 + 2, None)).is_err(), stopped);
        faulty.revive();
        assert_eq!(faulty.writes() - writes, if stopped { 2 } else { 3 });
        assert_eq!(
            world.find(n * 10 + 1).is_some(),
            fault != Fault::FailBefore,
            "{fault:?}"
        );
    }
    let verdict = world.tenant.read_blocking(|r| r.verify()).unwrap();
    let sessions = world
        .tenant
        .read_blocking(|r| r.count::<Session>(&RowFilter::default()))
        .unwrap();
    assert_eq!((verdict.checked, verdict.broken), (sessions + 1, None));
}
