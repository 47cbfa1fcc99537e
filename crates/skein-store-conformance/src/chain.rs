//! L9: events without gaps, sealed or not, even with slow or absent subscribers.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use skein_domain::{Actor, Error as DomainError, NotFound, Refused};

use crate::Subject;
use crate::fixture::{World, at, note, race, session, session_id, turn_began, world, write};
use skein_store::error::Error;
use skein_store::event::Event;

fn events(world: &World, after: u64, limit: usize) -> Vec<Event> {
    world
        .tenant
        .read_blocking(|r| r.events(after, None, limit))
        .unwrap()
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|e| e.seq).collect()
}

/// Appends `count` more events in one transaction.
fn append_events(world: &World, count: u64) {
    write(&world.tenant, move |writer| {
        (0..count).try_for_each(|n| writer.append_event(&note(n)))
    })
    .unwrap();
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

pub fn l9_events_are_gapless_under_concurrency(subject: &mut Subject) {
    let world = world(&subject.store);
    race(8, |racer| {
        for n in 0..25 {
            let result = write(&world.tenant, move |writer| {
                writer.append_event(&note(format!("{racer}.{n}")))?;
                writer.append_event(&note("and one more"))?;
                if n % 5 == 4 {
                    Err(NotFound::new("thing", "x").into())
                } else {
                    Ok(())
                }
            });
            assert_eq!(result.is_ok(), n % 5 != 4);
        }
    });
    let events = events(&world, 0, 1_000);
    assert_eq!(numbers(&events), (1..=1 + 8 * 20 * 2).collect::<Vec<_>>());
    let verdict = world.tenant.read_blocking(|r| r.verify()).unwrap();
    assert_eq!((verdict.checked, verdict.broken), (321, None));
}

pub fn l9_sealing_keeps_the_chain_and_reads(subject: &mut Subject) {
    let mut world = world(&subject.store);
    for n in 1..=9 {
        world.add(&session(n, None)).unwrap();
    }
    append_events(&world, 10);
    let before = events(&world, 0, 100);
    assert_eq!(before.len(), 20);
    let of_third = |world: &World| {
        world
            .tenant
            .read_blocking(|r| r.events(0, Some(&session_id(3)), 9))
            .unwrap()
    };
    let third = of_third(&world);
    assert_eq!(numbers(&third), [4]);

    assert_eq!(write(&world.tenant, |w| w.seal_events(6)).unwrap(), 6);
    assert_eq!(write(&world.tenant, |w| w.seal_events(12)).unwrap(), 6);
    // No unsealed event is left up to there, so the writer packs nothing and appends no event.
    assert_eq!(write(&world.tenant, |w| w.seal_events(12)).unwrap(), 0);
    subject.reopen();
    world.tenant = subject.store.tenant(world.tenant.tenant().clone());
    assert_eq!(events(&world, 0, 20), before);
    assert_eq!(events(&world, 4, 4), before[4..8]);
    assert_eq!(events(&world, 10, 5), before[10..15]);
    assert_eq!(events(&world, 12, 100)[..8], before[12..]);
    assert_eq!(of_third(&world), third);
    let verdict = world.tenant.read_blocking(|r| r.verify()).unwrap();
    assert_eq!(
        (verdict.checked, verdict.dropped, verdict.broken),
        (22, 0, None)
    );

    // Only seals that end there are dropped.
    assert_eq!(
        write(&world.tenant, |w| w.drop_sealed_events(11)).unwrap(),
        6
    );
    // A cursor among them is refused; from the beginning is from the first that is kept.
    let refused = world
        .tenant
        .read_blocking(|r| r.events(1, None, 5))
        .unwrap_err();
    assert_eq!(events(&world, 0, 14), before[6..]);
    let dropped = Refused::EventsDropped { through: 6 };
    assert!(
        matches!(&refused, Error::Domain(DomainError::Refused(e)) if *e == dropped),
        "{refused:?}"
    );
    assert_eq!(events(&world, 6, 14), before[6..]);
    assert_eq!(
        write(&world.tenant, |w| w.drop_sealed_events(u64::MAX)).unwrap(),
        6
    );
    assert_eq!(
        write(&world.tenant, |w| w.drop_sealed_events(u64::MAX)).unwrap(),
        0
    );
    subject.reopen();
    world.tenant = subject.store.tenant(world.tenant.tenant().clone());
    let verdict = world.tenant.read_blocking(|r| r.verify()).unwrap();
    assert_eq!(
        (verdict.checked, verdict.dropped, verdict.broken),
        (12, 12, None)
    );
    append_events(&world, 1);
    assert_eq!(numbers(&events(&world, 24, 9)), [25]);
}

pub fn l9_sealing_everything_ends(subject: &mut Subject) {
    let world = world(&subject.store);
    append_events(&world, 5_000);
    assert_eq!(
        write(&world.tenant, |w| w.seal_events(u64::MAX)).unwrap(),
        5_001
    );
    let verdict = world.tenant.read_blocking(|r| r.verify()).unwrap();
    assert_eq!((verdict.checked, verdict.broken), (5_003, None));
    assert_eq!(
        numbers(&events(&world, 4_094, 5)),
        [4_095, 4_096, 4_097, 4_098, 4_099]
    );
    assert_eq!(numbers(&events(&world, 5_000, 9)), [5_001, 5_002, 5_003]);
}

pub fn l9_a_stalled_subscriber_changes_nothing(subject: &mut Subject) {
    let world = world(&subject.store);
    let mut stalled = world.tenant.subscribe();
    // Far more than the feed keeps in memory.
    (0..4).for_each(|_| append_events(&world, 1_000));
    assert_eq!(world.tenant.read_blocking(|r| r.head()).unwrap().seq, 4_001);
    // When it wakes up at last, it misses nothing.
    assert!(run(stalled.beyond(1)));
    let (mut seen, mut cursor) = (vec![], 0);
    loop {
        let page = run(world.tenant.events_after(cursor, 300)).unwrap();
        let Some(last) = page.last() else { break };
        cursor = last.seq;
        seen.extend(page.iter().map(|e| e.seq));
    }
    assert_eq!(seen, (1..=4_001).collect::<Vec<_>>());
}

pub fn l9_a_reader_resumes_from_its_cursor(subject: &mut Subject) {
    let world = world(&subject.store);
    append_events(&world, 10);
    let all = events(&world, 0, 100);
    for cursor in 0..=12 {
        let fed = run(world.tenant.events_after(cursor, 4)).unwrap();
        let fed: Vec<Event> = fed.iter().map(|e| Event::clone(e)).collect();
        assert_eq!(fed, events(&world, cursor, 4), "after {cursor}");
        assert_eq!(
            fed,
            all.iter()
                .filter(|e| e.seq > cursor)
                .take(4)
                .cloned()
                .collect::<Vec<_>>()
        );
    }
    assert!(
        run(world.tenant.events_after(u64::MAX - 1, 4))
            .unwrap()
            .is_empty()
    );
}

pub fn l9_subscribers_are_woken_and_told_of_the_end(subject: &mut Subject) {
    let world = world(&subject.store);
    let mut subscription = world.tenant.subscribe();
    {
        let mut waiting = pin!(subscription.beyond(1));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
        append_events(&world, 1);
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(true));
    }
    // Another tenant's events wake no subscriber of this one.
    let other = subject.store.tenant("other".parse().unwrap());
    write(&other, |w| {
        (0..9).try_for_each(|n| w.append_event(&note(n)))
    })
    .unwrap();
    let mut waiting = pin!(subscription.beyond(2));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    subject.store.close();
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(false));
    assert!(!run(world.tenant.subscribe().beyond(0)));
}

pub fn event_time_never_goes_back(subject: &mut Subject) {
    let world = world(&subject.store);
    for now in [2_000, 1_500, 2_500, -7] {
        let append =
            |w: &mut skein_store::Writer<'_>| w.append_event(&turn_began(&session(1, None)));
        world
            .tenant
            .write_blocking(&Actor::System, at(now), append)
            .unwrap();
    }
    let times: Vec<i64> = events(&world, 1, 9)
        .iter()
        .map(|e| e.at.as_micros())
        .collect();
    assert_eq!(times, [2_000, 2_000, 2_500, 2_500]);
}
