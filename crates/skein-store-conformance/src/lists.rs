//! Lists, prefixes and the order of creation.

use skein_domain::{Kind, Outcome, Session, Step, Thread};

use crate::Subject;
use crate::fixture::{World, at, note, session, session_id, thread, world, write};
use skein_store::access::{RecordPage, RecordQuery};
use skein_store::backend::{RowFilter, SortOrder};

fn ids(sessions: &[Session]) -> Vec<&str> {
    sessions.iter().map(|s| s.id.as_str()).collect()
}

fn list(world: &World, query: &RecordQuery) -> RecordPage<Session> {
    world.tenant.read_blocking(|r| r.list(query)).unwrap()
}

fn expected(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers
        .into_iter()
        .map(|n| session_id(n).to_string())
        .collect()
}

fn ended(n: u64, when: i64) -> Session {
    session(n, None)
        .step(Step::End(Outcome::Done, None), at(when))
        .unwrap()
}

pub fn list_pages_are_stable_under_writes(subject: &mut Subject) {
    for order in [SortOrder::OldestFirst, SortOrder::NewestFirst] {
        let name = format!("{order:?}").to_lowercase();
        let tenant = crate::fixture::tenant(&subject.store, &name);
        let world = World {
            tenant,
            project: crate::fixture::project(),
            thread: thread(1),
        };
        for n in 1..=25 {
            world.add(&session(n, None)).unwrap();
        }
        let mut query = RecordQuery {
            filter: RowFilter::default(),
            order,
            after: None,
            limit: 10,
        };
        let mut seen: Vec<String> = vec![];
        for round in 0.. {
            let page = list(&world, &query);
            seen.extend(page.items.iter().map(|s| s.id.to_string()));
            let Some(next) = page.next else { break };
            query.after = Some(next);
            // Records appear, change and, behind the reader, go away while it turns the page.
            world.add(&session(100 + round, None)).unwrap();
            let touched = world.find(15).unwrap();
            world.update(&touched.next(at(500))).unwrap();
            let gone = if order == SortOrder::OldestFirst {
                1 + round
            } else {
                25 - round
            };
            world.delete(&world.find(gone).unwrap()).unwrap();
        }
        match order {
            SortOrder::OldestFirst => assert_eq!(seen, expected((1..=25).chain(100..102))),
            SortOrder::NewestFirst => assert_eq!(seen, expected((1..=25).rev())),
        }
    }
}

/// Longer than one chunk of the reader, so that pages have to be put together.
pub fn filtered_pages_are_full_and_complete(subject: &mut Subject) {
    let world = world(&subject.store);
    write(&world.tenant, |writer| {
        for n in 1..=700 {
            writer.insert(&session(n, None))?;
        }
        writer.append_event(&note("many"))
    })
    .unwrap();
    let wanted = |s: &Session| s.created_at.as_micros() % 7 == 0;
    let mut query = RecordQuery::oldest_first(RowFilter::default(), 30);
    let (mut seen, mut sizes) = (vec![], vec![]);
    loop {
        let page = world
            .tenant
            .read_blocking(|r| r.list_where(&query, wanted))
            .unwrap();
        sizes.push(page.items.len());
        seen.extend(page.items.iter().map(|s| s.id.to_string()));
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!(sizes, [30, 30, 30, 10]);
    assert_eq!(seen, expected((7..=700).step_by(7)));
    let all = world
        .tenant
        .read_blocking(|r| r.all::<Session>(&RowFilter::default()))
        .unwrap();
    assert_eq!(all.len(), 700);
}

pub fn filters_find_by_place_life_and_age(subject: &mut Subject) {
    let world = world(&subject.store);
    let other = thread(2);
    write(&world.tenant, move |writer| {
        writer.insert(&other)?;
        writer.append_event(&note("another thread"))
    })
    .unwrap();
    for n in 1..=8 {
        let parent = (n > 4).then_some(1);
        let home = if n % 2 == 0 { thread(2) } else { thread(1) };
        let made = Session {
            thread: home.id,
            ..session(n, parent)
        };
        world.add(&made).unwrap();
        if n % 4 == 0 {
            world
                .update(
                    &made
                        .step(Step::End(Outcome::Done, None), at(1_000))
                        .unwrap(),
                )
                .unwrap();
        }
    }
    let none = RowFilter::default;
    let in_project = || RowFilter {
        project: Some(world.project.id.to_string()),
        ..none()
    };
    let in_thread = || RowFilter {
        thread: Some(thread(2).id.to_string()),
        ..none()
    };
    let below = || RowFilter {
        parent: Some("api-1".into()),
        ..none()
    };
    let (live, over) = (Some(true), Some(false));
    let cases = [
        (none(), vec![1, 2, 3, 4, 5, 6, 7, 8]),
        (RowFilter { live, ..none() }, vec![1, 2, 3, 5, 6, 7]),
        (
            RowFilter {
                live: over,
                ..none()
            },
            vec![4, 8],
        ),
        (in_project(), vec![1, 2, 3, 4, 5, 6, 7, 8]),
        (
            RowFilter {
                live,
                ..in_project()
            },
            vec![1, 2, 3, 5, 6, 7],
        ),
        (
            RowFilter {
                project: Some("prj_x".into()),
                ..none()
            },
            vec![],
        ),
        (in_thread(), vec![2, 4, 6, 8]),
        (
            RowFilter {
                live: over,
                ..in_thread()
            },
            vec![4, 8],
        ),
        (below(), vec![5, 6, 7, 8]),
        (RowFilter { live, ..below() }, vec![5, 6, 7]),
        (
            RowFilter {
                touched_before: Some(at(4)),
                ..none()
            },
            vec![1, 2, 3],
        ),
        (
            RowFilter {
                touched_before: Some(at(1_001)),
                live: over,
                ..none()
            },
            vec![4, 8],
        ),
        (
            RowFilter {
                touched_before: Some(at(1_000)),
                live: over,
                ..none()
            },
            vec![],
        ),
    ];
    for (filter, wanted) in cases {
        let oldest = RecordQuery {
            filter: filter.clone(),
            order: SortOrder::OldestFirst,
            after: None,
            limit: 50,
        };
        let newest = RecordQuery {
            order: SortOrder::NewestFirst,
            limit: 2,
            ..oldest.clone()
        };
        assert_eq!(
            ids(&list(&world, &oldest).items),
            expected(wanted.clone()),
            "{filter:?}"
        );
        let last_two = expected(wanted.iter().rev().take(2).copied());
        assert_eq!(ids(&list(&world, &newest).items), last_two, "{filter:?}");
        let count = world
            .tenant
            .read_blocking(|r| r.count::<Session>(&filter))
            .unwrap();
        assert_eq!(count, wanted.len() as u64, "{filter:?}");
    }
    let threads = world
        .tenant
        .read_blocking(|r| r.count::<Thread>(&in_project()))
        .unwrap();
    assert_eq!(threads, 2);
}

pub fn prefixes_resolve_or_are_ambiguous(subject: &mut Subject) {
    let world = world(&subject.store);
    for n in [1, 12, 13, 200] {
        world.add(&session(n, None)).unwrap();
    }
    let resolve = |reference: &str| {
        world
            .tenant
            .read_blocking(|r| r.resolve::<Session>(reference))
    };
    // A whole id is itself, however many begin with it.
    for (reference, n) in [
        ("api-1", 1),
        ("api-12", 12),
        ("api-2", 200),
        ("api-20", 200),
    ] {
        assert_eq!(resolve(reference).unwrap().id, session_id(n), "{reference}");
    }
    world.delete(&session(1, None)).unwrap();
    for several in ["api-1", "api-", "a"] {
        let error = resolve(several).unwrap_err();
        assert_eq!(error.kind(), Kind::Misuse, "{several}");
        assert!(error.to_string().contains("api-12, api-13"), "{error}");
    }
    for missing in [
        "",
        "b",
        "api-3",
        "api-2000",
        "%",
        "api_",
        "api-*",
        "API-12",
        "api-1\u{10ffff}",
    ] {
        assert_eq!(
            resolve(missing).unwrap_err().kind(),
            Kind::NotFound,
            "{missing}"
        );
    }
    assert_eq!(
        world
            .tenant
            .read_blocking(|r| r.resolve::<Thread>("thr_"))
            .unwrap()
            .id,
        world.thread.id
    );
}

pub fn ordinals_are_never_reused(subject: &mut Subject) {
    let mut world = world(&subject.store);
    for n in 1..=4 {
        world.add(&session(n, None)).unwrap();
    }
    let after_third = list(&world, &RecordQuery::oldest_first(RowFilter::default(), 3)).next;
    world.delete(&session(4, None)).unwrap();
    world.delete(&session(3, None)).unwrap();
    subject.reopen();
    world.tenant = crate::fixture::tenant(&subject.store, "default");
    world.add(&session(5, None)).unwrap();
    // If the store used the third's ordinal again, a reader with a cursor behind it would miss the fifth.
    let query = RecordQuery {
        after: after_third,
        ..RecordQuery::oldest_first(RowFilter::default(), 9)
    };
    assert_eq!(ids(&list(&world, &query).items), ["api-5"]);
    // A change does not move a record.
    world.add(&session(6, None)).unwrap();
    world.update(&ended(5, 70)).unwrap();
    assert_eq!(ids(&list(&world, &query).items), ["api-5", "api-6"]);
}
