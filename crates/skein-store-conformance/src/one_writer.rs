//! L1 and L8: compare-and-set, events with every change, and checks that hold until the commit.

use skein_domain::{
    Conflict, Error as DomainError, Kind, NotFound, Outcome, PhaseName, Refused, Session, Step,
    Timestamp,
};

use crate::Subject;
use crate::fixture::{at, note, phase, race, session, session_id, turn_began, world, write};
use skein_store::backend::RowFilter;
use skein_store::error::Error;

pub fn l1_fifty_writers_with_one_version_one_wins(subject: &mut Subject) {
    let world = world(&subject.store);
    let before = session(1, None);
    world.add(&before).unwrap();
    let results = race(50, |n| {
        let mut after = before.step(Step::BeginTurn, at(50)).unwrap();
        after.usage.input_tokens = n as u64;
        world.update(&after)
    });
    let winners: Vec<usize> = (0..50).filter(|n| results[*n].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    for result in results.iter().filter(|r| r.is_err()) {
        let lost = Conflict::Version {
            what: "session",
            id: "api-1".into(),
            expected: 1,
            actual: 2,
        };
        assert!(
            matches!(result, Err(Error::Domain(DomainError::Conflict(e))) if *e == lost),
            "{result:?}"
        );
    }
    assert_eq!(world.find(1).unwrap().usage.input_tokens, winners[0] as u64);
    // One event for the world, one for the session, one for the winner; the losers left none.
    assert_eq!(world.tenant.read_blocking(|r| r.head()).unwrap().seq, 3);
}

pub fn l1_a_change_without_an_event_is_refused(subject: &mut Subject) {
    let world = world(&subject.store);
    let kept = session(1, None);
    world.add(&kept).unwrap();
    type Change = fn(&mut skein_store::Writer<'_>) -> skein_store::backend::Result<()>;
    let changes: [Change; 3] = [
        |writer| writer.insert(&session(2, None)),
        |writer| writer.update(&session(1, None).step(Step::BeginTurn, at(50)).unwrap()),
        |writer| writer.delete(&session(1, None)),
    ];
    for change in changes {
        let result = write(&world.tenant, change);
        assert!(matches!(result, Err(Error::Bug(_))), "{result:?}");
    }
    assert_eq!((world.find(1), world.find(2)), (Some(kept), None));
}

pub fn l1_illegal_phase_changes_are_refused(subject: &mut Subject) {
    let world = world(&subject.store);
    let pairs = PhaseName::ALL
        .iter()
        .flat_map(|from| PhaseName::ALL.map(|to| (*from, to)));
    for (n, (from, to)) in (1..).zip(pairs) {
        let before = Session {
            phase: phase(from),
            ..session(n, None)
        };
        world.add(&before).unwrap();
        let after = Session {
            phase: phase(to),
            ..before.next(at(90))
        };
        let result = world.update(&after);
        assert_eq!(
            result.is_ok(),
            from.may_become(to),
            "{from} to {to}: {result:?}"
        );
        let expected = if from.may_become(to) { after } else { before };
        assert_eq!(world.find(n), Some(expected), "{from} to {to}");
    }
}

pub fn l1_what_never_changes_never_changes(subject: &mut Subject) {
    let world = world(&subject.store);
    let before = Session {
        run: 2,
        ..session(1, None)
    };
    world.add(&before).unwrap();
    let next = || before.next(at(50));
    let changes = [
        (
            "parent",
            Session {
                parent: Some(session_id(9)),
                ..next()
            },
        ),
        ("depth", Session { depth: 3, ..next() }),
        (
            "creation",
            Session {
                created_at: at(0),
                ..next()
            },
        ),
        ("run", Session { run: 1, ..next() }),
        (
            "owners",
            Session {
                owner_version: 0,
                ..next()
            },
        ),
    ];
    for (name, after) in changes {
        let result = world.update(&after);
        assert!(matches!(result, Err(Error::Bug(_))), "{name}: {result:?}");
    }
    assert_eq!(world.find(1), Some(before));
}

/// Jobs that fail half-way stand between jobs that do not, so that some share a transaction.
pub fn l1_a_failed_job_leaves_nothing(subject: &mut Subject) {
    let world = world(&subject.store);
    let results = race(24, |n| {
        let n = n as u64 + 1;
        let project = world.project.clone();
        let made = session(n, None);
        write(&world.tenant, move |writer| {
            writer.insert(&made)?;
            let _ = writer.claim(&format!("claim:{n}"), made.id.as_str())?;
            writer.next_session_id(&project)?;
            writer.append_event(&turn_began(&made))?;
            if n.is_multiple_of(2) {
                return Err(NotFound::new("thing", "x").into());
            }
            Ok(())
        })
    });
    for (n, result) in (1..).zip(&results) {
        let claim = world
            .tenant
            .read_blocking(|r| r.claimed_by(&format!("claim:{n}")))
            .unwrap();
        let stands = n % 2 == 1;
        assert_eq!(
            result.as_ref().map_err(Error::kind),
            if stands { Ok(&()) } else { Err(Kind::NotFound) }
        );
        assert_eq!(
            (world.find(n).is_some(), claim.is_some()),
            (stands, stands),
            "{n}"
        );
    }
    let project = world.project.clone();
    let id = write(&world.tenant, move |writer| {
        writer.next_session_id(&project)
    })
    .unwrap();
    assert_eq!(id, session_id(13), "failed jobs took numbers");
    assert_eq!(
        world.tenant.read_blocking(|r| r.verify()).unwrap().checked,
        13
    );
}

pub fn l1_a_panicking_job_leaves_nothing(subject: &mut Subject) {
    let world = world(&subject.store);
    let made = session(1, None);
    let result: Result<(), Error> = write(&world.tenant, move |writer| {
        writer.insert(&made)?;
        writer.append_event(&turn_began(&made))?;
        panic!("a job of the suite panics on purpose");
    });
    assert!(matches!(result, Err(Error::Bug(_))), "{result:?}");
    assert_eq!(world.find(1), None);
    // The writer lives on.
    world.add(&session(1, None)).unwrap();
    assert_eq!(world.tenant.read_blocking(|r| r.head()).unwrap().seq, 2);
}

pub fn l1_a_job_sees_its_own_writes(subject: &mut Subject) {
    let world = world(&subject.store);
    world.add(&session(1, None)).unwrap();
    write(&world.tenant, |writer| {
        writer.insert(&session(2, Some(1)))?;
        writer.delete(&session(1, None))?;
        writer.append_event(&note("both"))?;
        let reader = writer.reader();
        assert_eq!(reader.find::<Session>("api-1")?, None);
        assert_eq!(reader.get::<Session>("api-2")?, session(2, Some(1)));
        assert_eq!(
            reader.all::<Session>(&RowFilter::default())?,
            [session(2, Some(1))]
        );
        let children = RowFilter {
            parent: Some("api-1".into()),
            live: Some(true),
            ..RowFilter::default()
        };
        assert_eq!(reader.count::<Session>(&children)?, 1);
        assert_eq!(reader.resolve::<Session>("api-")?, session(2, Some(1)));
        assert_eq!(
            (reader.head()?.seq, reader.events(2, None, 9)?.len()),
            (3, 1)
        );
        Ok(())
    })
    .unwrap();
}

pub fn l1_missing_and_existing_records_are_told_apart(subject: &mut Subject) {
    let world = world(&subject.store);
    let made = session(1, None);
    assert_eq!(
        world.update(&made.next(at(2))).unwrap_err().kind(),
        Kind::NotFound
    );
    assert_eq!(world.delete(&made).unwrap_err().kind(), Kind::NotFound);
    world.add(&made).unwrap();
    let twice = world.add(&made).unwrap_err();
    let exists = Conflict::Exists {
        what: "session",
        id: "api-1".into(),
    };
    assert!(
        matches!(&twice, Error::Domain(DomainError::Conflict(e)) if *e == exists),
        "{twice:?}"
    );
    let after = made
        .step(Step::End(Outcome::Done, None), Timestamp::from_micros(60))
        .unwrap();
    world.update(&after).unwrap();
    let stale = world.delete(&made).unwrap_err();
    let lost = Conflict::Version {
        what: "session",
        id: "api-1".into(),
        expected: 1,
        actual: 2,
    };
    assert!(
        matches!(&stale, Error::Domain(DomainError::Conflict(e)) if *e == lost),
        "{stale:?}"
    );
    world.delete(&after).unwrap();
    assert_eq!(world.find(1), None);
}

pub fn l8_racers_for_the_last_slot_one_wins(subject: &mut Subject) {
    const LIMIT: u64 = 3;
    let world = world(&subject.store);
    world.add(&session(1, None)).unwrap();
    world.add(&session(2, Some(1))).unwrap();
    world.add(&session(3, Some(1))).unwrap();
    let children = RowFilter {
        parent: Some("api-1".into()),
        live: Some(true),
        ..RowFilter::default()
    };
    let results = race(16, |n| {
        let (children, made) = (children.clone(), session(n as u64 + 10, Some(1)));
        write(&world.tenant, move |writer| {
            let live = writer.reader().count::<Session>(&children)?;
            if live >= LIMIT {
                return Err(Refused::Width {
                    session: session_id(1),
                    live: 3,
                    asked: 1,
                    limit: 3,
                }
                .into());
            }
            writer.insert(&made)?;
            writer.append_event(&turn_began(&made))
        })
    });
    assert_eq!(
        results.iter().filter(|r| r.is_ok()).count(),
        1,
        "{results:?}"
    );
    assert!(
        results
            .iter()
            .flat_map(|r| r.as_ref().err())
            .all(|e| e.kind() == Kind::Refused)
    );
    assert_eq!(
        world
            .tenant
            .read_blocking(|r| r.count::<Session>(&children))
            .unwrap(),
        LIMIT
    );
}
