//! What a fleet needs: gear, sagas (L4) and receipts (L6).

use skein_domain::saga::{Failure, ForkRequest};
use skein_domain::{
    Conflict, Delivery, Error as DomainError, Invalid, Kind, Outcome, PhaseName, PromptVia,
    Purpose, Question, Receipt, Saga, SagaRequest, SagaState, SagaStep, Session, WrittenInput,
};

use crate::Subject;
use crate::fixture::{
    World, at, geared, note, phase, project, receipt, saga, session, session_id, tenant, world,
    write,
};
use crate::raw::{row, submit};
use skein_store::access::SideRowFault;
use skein_store::backend::{Result, RowFilter, Table};
use skein_store::entity::Entity;
use skein_store::error::Error;

fn insert<E: Entity + Clone + Send + 'static>(world: &World, entity: &E) -> Result<()> {
    let entity = entity.clone();
    write(&world.tenant, move |writer| {
        writer.insert(&entity)?;
        writer.append_event(&note("made"))
    })
}

fn update<E: Entity + Clone + Send + 'static>(world: &World, entity: &E) -> Result<()> {
    let entity = entity.clone();
    write(&world.tenant, move |writer| {
        writer.update(&entity)?;
        writer.append_event(&note("changed"))
    })
}

fn delete<E: Entity + Clone + Send + 'static>(world: &World, entity: &E) -> Result<()> {
    let entity = entity.clone();
    write(&world.tenant, move |writer| {
        writer.delete(&entity)?;
        writer.append_event(&note("removed"))
    })
}

fn all<E: Entity>(world: &World, filter: &RowFilter) -> Vec<E> {
    world.tenant.read_blocking(|r| r.all(filter)).unwrap()
}

fn get<E: Entity>(world: &World, id: &str) -> E {
    world.tenant.read_blocking(|r| r.get(id)).unwrap()
}

fn is_bug(name: &str, result: &Result<()>) {
    assert!(matches!(result, Err(Error::Bug(_))), "{name}: {result:?}");
}

fn open_of(session: u64) -> RowFilter {
    RowFilter {
        parent: Some(session_id(session).to_string()),
        live: Some(true),
        ..RowFilter::default()
    }
}

fn any_open() -> RowFilter {
    RowFilter {
        live: Some(true),
        ..RowFilter::default()
    }
}

fn failure() -> Failure {
    Failure {
        step: SagaStep::Launch,
        kind: Kind::Unavailable,
        text: "no such program".parse().unwrap(),
        outcome: Outcome::Failed,
    }
}

/// A receipt in each state, reached step by step.
fn receipts() -> Vec<Receipt> {
    let mut made = vec![];
    for (n, last) in (1..).zip(Delivery::ALL) {
        let mut receipt = receipt(n, 1);
        let ladder = Delivery::ALL.into_iter().filter(|d| *d <= last);
        for (rung, state) in (21..).zip(ladder.filter(|d| *d != Delivery::TurnStarted)) {
            receipt = receipt.moved(state, at(rung));
        }
        if last == Delivery::TurnStarted {
            receipt = receipt.moved(last, at(30));
        }
        if last > Delivery::Accepted {
            receipt.written = Some(WrittenInput { run: 2, input: n });
            receipt.attempts = 2;
        }
        receipt.note = Some("the agent is busy".parse().unwrap());
        assert_eq!(receipt.state, last);
        made.push(receipt);
    }
    made
}

pub fn fleets_survive_reopen(subject: &mut Subject) {
    let mut world = world(&subject.store);
    let queued = saga(1, 1);
    let turned = Saga {
        request: SagaRequest::Restore {
            receipt: receipt(9, 1).id,
            outcome: Outcome::Lost,
            reason: Some("gone".parse().unwrap()),
        },
        prompt: Some(PromptVia::Typed),
        state: SagaState::Undoing {
            step: SagaStep::Launch,
            why: failure(),
            failed: vec![SagaStep::Prompt],
        },
        ..saga(2, 1)
    };
    let fork = Saga {
        request: SagaRequest::Fork(ForkRequest {
            target: session_id(9),
            after: Some("msg-1".parse().unwrap()),
            thread: session(1, None).thread,
            owner: "user:ann".parse().unwrap(),
            task: "go on".parse().unwrap(),
        }),
        shared: Some("msg-1".parse().unwrap()),
        reply: Some("key".into()),
        state: SagaState::Doing {
            step: SagaStep::Commit,
        },
        ..saga(4, 1)
    };
    let left = Saga {
        state: SagaState::Leftover {
            steps: vec![SagaStep::Workspace, SagaStep::Setup],
            why: failure(),
        },
        ..saga(3, 1)
    };
    let sagas = [queued, turned, left, fork];
    insert(&world, &geared(1)).unwrap();
    sagas.iter().for_each(|s| insert(&world, s).unwrap());
    receipts().iter().for_each(|r| insert(&world, r).unwrap());
    subject.reopen();
    world.tenant = tenant(&subject.store, "default");
    assert_eq!(world.find(1), Some(geared(1)));
    assert_eq!(all::<Saga>(&world, &RowFilter::default()), sagas);
    assert_eq!(all::<Receipt>(&world, &RowFilter::default()), receipts());
    assert_eq!(all::<Receipt>(&world, &any_open()), receipts()[..3]);
}

pub fn l1_gear_never_disappears(subject: &mut Subject) {
    let world = world(&subject.store);
    let before = geared(1);
    world.add(&before).unwrap();
    let with_input = |input: u64, run: u64| {
        let mut gear = before.gear.as_deref().unwrap().clone();
        gear.input = input;
        Session {
            run,
            ..before.with_gear(gear, at(50))
        }
    };
    let bare = Session {
        gear: None,
        ..before.next(at(50))
    };
    is_bug("gear", &world.update(&bare));
    is_bug("input", &world.update(&with_input(3, before.run)));
    assert_eq!(world.find(1).as_ref(), Some(&before));
    // Another run counts its inputs from the beginning.
    let again = with_input(0, before.run + 1);
    world.update(&again).unwrap();
    assert_eq!(world.find(1), Some(again));

    // A session that people drove may be given an agent.
    world.add(&session(2, None)).unwrap();
    let gear = before.gear.as_deref().unwrap().clone();
    let taken_over = session(2, None).with_gear(gear, at(60));
    world.update(&taken_over).unwrap();
    assert_eq!(world.find(2), Some(taken_over));
}

pub fn sessions_with_a_process_are_listed(subject: &mut Subject) {
    let mut world = world(&subject.store);
    let running = |world: &World| {
        let page = world
            .tenant
            .read_blocking(|r| r.sessions_with_run())
            .unwrap();
        assert!(page.damaged.is_empty(), "{:?}", page.damaged);
        page.items
    };
    let [one, two] = [geared(1), geared(2)];
    let stopped = |session: &Session| {
        let mut gear = session.gear.as_deref().unwrap().clone();
        gear.handle = None;
        session.with_gear(gear, at(50))
    };
    for session in [&one, &two, &session(3, None), &stopped(&geared(4))] {
        world.add(session).unwrap();
    }
    assert_eq!(running(&world), [one.clone(), two.clone()]);
    let two = Session {
        phase: phase(PhaseName::Ended),
        ..two.next(at(50))
    };
    world.update(&stopped(&one)).unwrap();
    world.update(&two).unwrap();
    assert_eq!(running(&world), []);
    let again = one.with_gear(one.gear.as_deref().unwrap().clone(), at(60));
    let again = Session {
        version: 3,
        ..again
    };
    world.update(&again).unwrap();
    subject.reopen();
    world.tenant = tenant(&subject.store, "default");
    assert_eq!(running(&world), [again]);
}

fn side_row_faults(world: &World) -> Vec<SideRowFault> {
    world.tenant.read_blocking(|r| r.side_row_faults()).unwrap()
}

fn ended(n: u64) -> Session {
    Session {
        phase: phase(PhaseName::Ended),
        ..session(n, None)
    }
}

pub fn a_deleted_session_leaves_no_side_rows(subject: &mut Subject) {
    let world = world(&subject.store);
    for session in [geared(1), ended(2)] {
        world.add(&session).unwrap();
        assert_eq!(side_row_faults(&world), []);
        world.delete(&session).unwrap();
    }
    assert_eq!(side_row_faults(&world), []);
    let project = world.project.id;
    let count = world.tenant.read_blocking(|r| r.count_ended_of(&project));
    assert_eq!(count.unwrap(), 0);
}

pub fn missing_and_left_over_side_rows_are_found(subject: &mut Subject) {
    let world = world(&subject.store);
    for session in [geared(1), ended(2), geared(3), ended(4)] {
        world.add(&session).unwrap();
    }
    assert_eq!(side_row_faults(&world), []);
    submit(subject, |raw| {
        for (table, missing, left_over) in [
            (Table::Running, session_id(1), session_id(2)),
            (Table::Ended, session_id(2), session_id(9)),
        ] {
            raw.delete(table, missing.as_str(), 1)?;
            raw.insert(table, &row(left_over.as_str(), 1, "0"))?;
        }
        // A session that cannot be decoded may belong into any table.
        for damaged in [session_id(3), session_id(4)] {
            raw.replace(Table::Session, &row(damaged.as_str(), 2, "{"), 1)?;
        }
        Ok(())
    })
    .recv()
    .unwrap()
    .unwrap();
    let mut found: Vec<String> = side_row_faults(&world)
        .iter()
        .map(ToString::to_string)
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            "session `api-1` is missing from the list of running sessions",
            "session `api-2` is left over in the list of running sessions",
            "session `api-2` is missing from the list of ended sessions",
            "session `api-9` is left over in the list of ended sessions",
        ]
    );
}

fn in_step(saga: &Saga, step: SagaStep) -> Saga {
    Saga {
        state: SagaState::Doing { step },
        version: saga.version + 1,
        ..saga.clone()
    }
}

pub fn l4_sagas_are_journalled_and_listed_in_order(subject: &mut Subject) {
    let world = world(&subject.store);
    for n in 1..=6 {
        insert(&world, &saga(n, 2 - n % 2)).unwrap();
    }
    // A row keeps its place however far its saga gets.
    let moved = in_step(&saga(2, 2), SagaStep::Workspace);
    update(&world, &moved).unwrap();
    assert_eq!(get::<Saga>(&world, moved.id.as_str()), moved);
    let listed = all::<Saga>(&world, &any_open());
    let expected: Vec<Saga> = (1..=6)
        .map(|n| {
            if n == 2 {
                moved.clone()
            } else {
                saga(n, 2 - n % 2)
            }
        })
        .collect();
    assert_eq!(listed, expected);
    assert_eq!(
        all::<Saga>(&world, &open_of(1)),
        [saga(1, 1), saga(3, 1), saga(5, 1)]
    );
    delete(&world, &saga(3, 1)).unwrap();
    assert_eq!(all::<Saga>(&world, &open_of(1)), [saga(1, 1), saga(5, 1)]);
}

pub fn l4_a_saga_row_of_another_version_is_a_conflict(subject: &mut Subject) {
    let world = world(&subject.store);
    let first = saga(1, 1);
    insert(&world, &first).unwrap();
    let second = in_step(&first, SagaStep::Workspace);
    update(&world, &second).unwrap();
    let lost = Conflict::Version {
        what: "saga",
        id: first.id.to_string(),
        expected: 1,
        actual: 2,
    };
    let other = in_step(&first, SagaStep::Setup);
    for result in [update(&world, &other), delete(&world, &first)] {
        assert!(
            matches!(&result, Err(Error::Domain(DomainError::Conflict(e))) if *e == lost),
            "{result:?}"
        );
    }
    assert_eq!(get::<Saga>(&world, first.id.as_str()), second);
    delete(&world, &second).unwrap();
    assert!(all::<Saga>(&world, &RowFilter::default()).is_empty());
}

pub fn l4_what_a_saga_was_begun_with_never_changes(subject: &mut Subject) {
    let world = world(&subject.store);
    let before = saga(1, 1);
    insert(&world, &before).unwrap();
    let next = || in_step(&before, SagaStep::Workspace);
    let changes = [
        (
            "session",
            Saga {
                session: session_id(2),
                ..next()
            },
        ),
        (
            "request",
            Saga {
                request: SagaRequest::Gc,
                ..next()
            },
        ),
        (
            "actor",
            Saga {
                actor: "user:eve".parse().unwrap(),
                ..next()
            },
        ),
        (
            "beginning",
            Saga {
                at: at(99),
                ..next()
            },
        ),
    ];
    for (name, after) in changes {
        is_bug(name, &update(&world, &after));
    }
    assert_eq!(get::<Saga>(&world, before.id.as_str()), before);
}

pub fn l6_receipts_only_climb(subject: &mut Subject) {
    let world = world(&subject.store);
    let pairs = Delivery::ALL
        .into_iter()
        .flat_map(|from| Delivery::ALL.map(|to| (from, to)));
    for (n, (from, to)) in (1..).zip(pairs) {
        let before = Receipt {
            state: from,
            history: vec![(from, at(20))],
            ..receipt(n, 1)
        };
        insert(&world, &before).unwrap();
        let mut after = Receipt {
            state: to,
            version: 2,
            ..before.clone()
        };
        if to != from {
            after.history.push((to, at(21)));
        }
        let result = update(&world, &after);
        let allowed = from == to || from.may_become(to);
        assert_eq!(result.is_ok(), allowed, "{from:?} to {to:?}: {result:?}");
        let expected = if allowed { after } else { before };
        assert_eq!(get::<Receipt>(&world, expected.id.as_str()), expected);
    }
    // A state that history does not tell of, and a past that is edited.
    let made = Receipt {
        id: receipt(100, 1).id,
        ..receipts().swap_remove(2)
    };
    insert(&world, &made).unwrap();
    let untold = Receipt {
        state: Delivery::Submitted,
        version: made.version + 1,
        ..made.clone()
    };
    is_bug("untold", &update(&world, &untold));
    let untold = Receipt {
        id: receipt(101, 1).id,
        ..untold
    };
    is_bug("untold from the start", &insert(&world, &untold));
    let mut edited = made.moved(Delivery::Submitted, at(90));
    edited.history.remove(0);
    is_bug("edited", &update(&world, &edited));
    assert_eq!(get::<Receipt>(&world, made.id.as_str()), made);
}

pub fn l6_what_a_message_is_never_changes(subject: &mut Subject) {
    let world = world(&subject.store);
    let before = Receipt {
        written: Some(WrittenInput { run: 1, input: 3 }),
        ..receipt(1, 1)
    };
    insert(&world, &before).unwrap();
    let next = || before.moved(Delivery::Written, at(30));
    let other_input = |written| Receipt { written, ..next() };
    let changes = [
        (
            "session",
            Receipt {
                session: session_id(2),
                ..next()
            },
        ),
        (
            "key",
            Receipt {
                key: None,
                ..next()
            },
        ),
        (
            "purpose",
            Receipt {
                purpose: Purpose::Task,
                ..next()
            },
        ),
        (
            "sender",
            Receipt {
                from: None,
                ..next()
            },
        ),
        (
            "text",
            Receipt {
                text: "another".parse().unwrap(),
                ..next()
            },
        ),
        (
            "question",
            Receipt {
                question: Some(Question {
                    text: "which?".parse().unwrap(),
                    options: vec![],
                    kinds: vec![],
                    id: None,
                }),
                ..next()
            },
        ),
        ("input taken back", other_input(None)),
        (
            "other input",
            other_input(Some(WrittenInput { run: 1, input: 5 })),
        ),
        (
            "other run",
            other_input(Some(WrittenInput { run: 2, input: 3 })),
        ),
    ];
    for (name, after) in changes {
        is_bug(name, &update(&world, &after));
    }
    assert_eq!(get::<Receipt>(&world, before.id.as_str()), before);
    update(&world, &next()).unwrap();
}

pub fn l6_a_call_goes_back_only_while_nobody_accepted_it(subject: &mut Subject) {
    let world = world(&subject.store);
    let called = Receipt {
        call: Some(1),
        ..receipt(1, 1)
    };
    insert(&world, &called).unwrap();
    let written = called.moved(Delivery::Written, at(30));
    update(&world, &written).unwrap();
    let kept = Receipt {
        call: Some(1),
        ..written.returned(at(31))
    };
    is_bug("back, and still a call", &update(&world, &kept));
    let other = Receipt {
        call: Some(2),
        ..written.moved(Delivery::Submitted, at(31))
    };
    is_bug("another run's", &update(&world, &other));
    let back = written.returned(at(31));
    assert_eq!(back.state, Delivery::Accepted);
    update(&world, &back).unwrap();
    let again = Receipt {
        call: Some(2),
        ..back.moved(Delivery::Written, at(32))
    };
    update(&world, &again).unwrap();
    let submitted = again.moved(Delivery::Submitted, at(33));
    update(&world, &submitted).unwrap();
    let mut forced = submitted.moved(Delivery::Submitted, at(34));
    forced.history.push((Delivery::Accepted, at(34)));
    (forced.state, forced.call) = (Delivery::Accepted, None);
    is_bug("accepted, and back", &update(&world, &forced));
}

pub fn l6_a_right_to_write_is_given_back_only_unused(subject: &mut Subject) {
    let world = world(&subject.store);
    let claimed = Receipt {
        written: Some(WrittenInput { run: 1, input: 3 }),
        ..receipt(1, 1)
    };
    insert(&world, &claimed).unwrap();
    let free = Receipt {
        written: None,
        ..claimed.moved(Delivery::Accepted, at(30))
    };
    update(&world, &free).unwrap();
    let again = Receipt {
        written: Some(WrittenInput { run: 1, input: 35 }),
        ..free.moved(Delivery::Accepted, at(31))
    };
    update(&world, &again).unwrap();
    let written = again.moved(Delivery::Written, at(32));
    update(&world, &written).unwrap();
    let back = Receipt {
        written: None,
        ..written.moved(Delivery::Written, at(33))
    };
    is_bug("given back after use", &update(&world, &back));
    assert_eq!(get::<Receipt>(&world, claimed.id.as_str()), written);
}

pub fn l6_open_receipts_of_a_session_come_in_order(subject: &mut Subject) {
    let world = world(&subject.store);
    for n in 1..=8 {
        insert(&world, &receipt(n, 2 - n % 2)).unwrap();
    }
    let further = receipt(3, 1).moved(Delivery::Echoed, at(40));
    let done = receipt(5, 1).moved(Delivery::Submitted, at(41));
    update(&world, &further).unwrap();
    update(&world, &done).unwrap();
    assert_eq!(
        all::<Receipt>(&world, &open_of(1)),
        [receipt(1, 1), further.clone(), receipt(7, 1)]
    );
    let open = all::<Receipt>(&world, &any_open());
    let keys: Vec<String> = open
        .iter()
        .flat_map(|r| r.key.as_ref().map(ToString::to_string))
        .collect();
    assert_eq!(
        keys,
        [
            "key-1", "key-2", "key-3", "key-4", "key-6", "key-7", "key-8"
        ]
    );
    let untouched = RowFilter {
        touched_before: Some(at(40)),
        ..any_open()
    };
    let count = world
        .tenant
        .read_blocking(|r| r.count::<Receipt>(&untouched));
    assert_eq!(count.unwrap(), 6);
    let later = further.moved(Delivery::Unknown, at(42));
    update(&world, &later).unwrap();
    assert_eq!(
        all::<Receipt>(&world, &open_of(1)),
        [receipt(1, 1), receipt(7, 1)]
    );
}

pub fn session_numbers_stay_above_those_of_others(subject: &mut Subject) {
    let world = world(&subject.store);
    let next = |floor: Option<u64>| {
        write(&world.tenant, move |writer| match floor {
            Some(floor) => writer.next_session_id_above(&project(), floor),
            None => writer.next_session_id(&project()),
        })
    };
    let steps = [
        (Some(0), 1),
        (Some(40), 41),
        (Some(40), 42),
        (Some(7), 43),
        (None, 44),
    ];
    for (floor, expected) in steps {
        assert_eq!(next(floor).unwrap(), session_id(expected), "{floor:?}");
    }
    let refused = next(Some(u64::MAX)).unwrap_err();
    assert!(
        matches!(refused, Error::Domain(DomainError::Invalid(Invalid { .. }))),
        "{refused:?}"
    );
    assert_eq!(next(None).unwrap(), session_id(45));
}
