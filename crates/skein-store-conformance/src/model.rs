//! Random transactions against a model that fits on a page.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use skein_domain::{Kind, NotFound, Outcome, Session, Step};

use crate::Subject;
use crate::fixture::{World, at, project, session, session_id, tenant, thread, turn_began, write};
use skein_store::access::{RecordQuery, Writer};
use skein_store::backend::{Result, RowFilter, SortOrder};

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert {
        n: u64,
        parent: Option<u64>,
    },
    /// Begins or ends a turn, or ends the session.
    Step {
        n: u64,
        end: bool,
    },
    /// A change on top of a version that is `behind` the current one.
    Stale {
        n: u64,
        behind: u64,
    },
    Delete {
        n: u64,
    },
}

#[derive(Clone, Debug)]
struct Transaction {
    ops: Vec<Op>,
    /// Fails after its last operation.
    fails: bool,
}

fn transactions() -> impl Strategy<Value = Vec<Transaction>> {
    let n = 1..12_u64;
    let op = prop_oneof![
        4 => (n.clone(), proptest::option::of(n.clone())).prop_map(|(n, parent)| Op::Insert { n, parent }),
        4 => (n.clone(), prop::bool::weighted(0.2)).prop_map(|(n, end)| Op::Step { n, end }),
        1 => (n.clone(), 1..3_u64).prop_map(|(n, behind)| Op::Stale { n, behind }),
        1 => n.prop_map(|n| Op::Delete { n }),
    ];
    let transaction = (prop::collection::vec(op, 1..5), prop::bool::weighted(0.15));
    let transaction = transaction.prop_map(|(ops, fails)| Transaction { ops, fails });
    prop::collection::vec(transaction, 1..25)
}

/// Sessions by number with their position in the order of creation, and the number of events.
#[derive(Clone, Debug, Default)]
struct Model {
    sessions: BTreeMap<u64, (u64, Session)>,
    made: u64,
    events: u64,
}

impl Model {
    fn apply(&mut self, op: Op) -> std::result::Result<(), Kind> {
        match op {
            Op::Insert { n, parent } => {
                if self.sessions.contains_key(&n) {
                    return Err(Kind::Conflict);
                }
                self.made += 1;
                self.sessions.insert(n, (self.made, session(n, parent)));
            }
            Op::Step { n, end } => {
                let (_, session) = self.sessions.get_mut(&n).ok_or(Kind::NotFound)?;
                *session = stepped(session, end).ok_or(Kind::Conflict)?;
            }
            Op::Stale { n, .. } => {
                return Err(self
                    .sessions
                    .get(&n)
                    .map_or(Kind::NotFound, |_| Kind::Conflict));
            }
            Op::Delete { n } => {
                self.sessions.remove(&n).ok_or(Kind::NotFound)?;
            }
        }
        self.events += 1;
        Ok(())
    }

    fn run(&mut self, transaction: &Transaction) -> std::result::Result<(), Kind> {
        let before = self.clone();
        let mut result = transaction.ops.iter().try_for_each(|op| self.apply(*op));
        if transaction.fails {
            result = result.and(Err(Kind::NotFound));
        }
        if result.is_err() {
            *self = before;
        }
        result
    }

    fn fitting(&self, keep: impl Fn(&Session) -> bool) -> Vec<Session> {
        let mut placed: Vec<_> = self.sessions.values().filter(|(_, s)| keep(s)).collect();
        placed.sort_by_key(|(ordinal, _)| *ordinal);
        placed
            .into_iter()
            .map(|(_, session)| session.clone())
            .collect()
    }
}

fn stepped(session: &Session, end: bool) -> Option<Session> {
    let steps = if end {
        [Step::End(Outcome::Done, None), Step::Archive]
    } else {
        [Step::BeginTurn, Step::EndTurn]
    };
    steps
        .into_iter()
        .find_map(|step| session.step(step, at(5_000)).ok())
}

fn apply(writer: &mut Writer<'_>, op: Op) -> Result<()> {
    let current =
        |writer: &Writer<'_>, n: u64| writer.reader().get::<Session>(session_id(n).as_str());
    let touched = match op {
        Op::Insert { n, parent } => {
            let made = session(n, parent);
            writer.insert(&made)?;
            made
        }
        Op::Step { n, end } => {
            let before = current(writer, n)?;
            let after = stepped(&before, end).ok_or_else(|| {
                before
                    .step(Step::Launched, at(1))
                    .expect_err("nothing here is spawning")
            })?;
            writer.update(&after)?;
            after
        }
        Op::Stale { n, behind } => {
            let mut stale = current(writer, n)?.next(at(1));
            stale.version = stale.version.saturating_sub(behind);
            writer.update(&stale)?;
            stale
        }
        Op::Delete { n } => {
            let before = current(writer, n)?;
            writer.delete(&before)?;
            before
        }
    };
    writer.append_event(&turn_began(&touched))
}

fn agree(world: &World, model: &Model) {
    let read = |filter: RowFilter| {
        world
            .tenant
            .read_blocking(|r| r.all::<Session>(&filter))
            .unwrap()
    };
    assert_eq!(read(RowFilter::default()), model.fitting(|_| true));
    for live in [true, false] {
        let filter = RowFilter {
            live: Some(live),
            ..RowFilter::default()
        };
        assert_eq!(read(filter), model.fitting(|s| s.phase.is_live() == live));
    }
    let children = RowFilter {
        parent: Some("api-1".into()),
        live: Some(true),
        ..RowFilter::default()
    };
    let of_first = model.fitting(|s| s.parent == Some(session_id(1)) && s.phase.is_live());
    let count = world
        .tenant
        .read_blocking(|r| r.count::<Session>(&children))
        .unwrap();
    assert_eq!(count, of_first.len() as u64);
    let newest = RecordQuery {
        filter: children,
        order: SortOrder::NewestFirst,
        after: None,
        limit: 2,
    };
    let page = world
        .tenant
        .read_blocking(|r| r.list::<Session>(&newest))
        .unwrap();
    assert_eq!(
        page.items,
        of_first.iter().rev().take(2).cloned().collect::<Vec<_>>()
    );
    let verdict = world.tenant.read_blocking(|r| r.verify()).unwrap();
    assert_eq!((verdict.checked, verdict.broken), (model.events, None));
}

pub fn random_transactions_agree_with_a_model(subject: &mut Subject) {
    let config = Config {
        cases: 48,
        failure_persistence: None,
        ..Config::default()
    };
    let mut case = 0;
    let case = std::cell::RefCell::new(&mut case);
    TestRunner::new(config)
        .run(&transactions(), |transactions| {
            // A tenant of its own, so that cases share the store and nothing else.
            **case.borrow_mut() += 1;
            let tenant = tenant(&subject.store, &format!("case-{}", case.borrow()));
            let world = World {
                tenant,
                project: project(),
                thread: thread(1),
            };
            let mut model = Model::default();
            for transaction in transactions {
                let expected = model.run(&transaction);
                let done = write(&world.tenant, move |writer| {
                    transaction
                        .ops
                        .iter()
                        .try_for_each(|op| apply(writer, *op))?;
                    if transaction.fails {
                        Err(NotFound::new("thing", "x").into())
                    } else {
                        Ok(())
                    }
                });
                prop_assert_eq!(done.map_err(|e| e.kind()), expected);
            }
            agree(&world, &model);
            Ok(())
        })
        .unwrap();
}
