//! Random histories against a list of lists.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use skein_domain::Kind;

use crate::fault::Fault;
use crate::fixture::{by, id, ids, mid, paged, reply, said};
use crate::{Pair, block_on};
use skein_transcript::message::Message;
use skein_transcript::service::{Direction, HistoryPoint, HotCopy, Transcripts};
use skein_transcript::state::StateSlice;

const TRANSCRIPTS: usize = 4;

/// Each names a transcript by number, and a message by where it is, counted from the end.
#[derive(Clone, Debug)]
enum Op {
    /// Says `count` new messages, the first of them `again` more times.
    Append {
        t: usize,
        count: usize,
        again: usize,
    },
    /// Says again what is there, inherited or not, and something new after it.
    Repeat {
        t: usize,
        back: usize,
    },
    /// Begins and writes a reply that may have been written before, here or in what is inherited.
    Retry {
        t: usize,
        reply: usize,
    },
    Fork {
        t: usize,
        back: usize,
        target: usize,
    },
    Rewind {
        t: usize,
        back: usize,
    },
    SetState {
        t: usize,
    },
    Flush {
        t: usize,
        keep: bool,
    },
    Hydrate {
        t: usize,
    },
    /// The next operation meets a fault at one of its writes, and is done again after a restart.
    Crash {
        nth: u64,
        fault: usize,
    },
    Reopen,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let t = || 0..TRANSCRIPTS;
    let op = prop_oneof![
        6 => (t(), 1..4_usize, 0..2_usize).prop_map(|(t, count, again)| Op::Append { t, count, again }),
        2 => (t(), 0..8_usize).prop_map(|(t, back)| Op::Repeat { t, back }),
        3 => (t(), 0..3_usize).prop_map(|(t, reply)| Op::Retry { t, reply }),
        3 => (t(), 0..8_usize, t()).prop_map(|(t, back, target)| Op::Fork { t, back, target }),
        3 => (t(), 0..8_usize).prop_map(|(t, back)| Op::Rewind { t, back }),
        1 => t().prop_map(|t| Op::SetState { t }),
        3 => (t(), any::<bool>()).prop_map(|(t, keep)| Op::Flush { t, keep }),
        2 => t().prop_map(|t| Op::Hydrate { t }),
        3 => (1..5_u64, 0..3_usize).prop_map(|(nth, fault)| Op::Crash { nth, fault }),
        1 => Just(Op::Reopen),
    ];
    prop::collection::vec(op, 1..40)
}

/// What a transcript shows: its messages as (id, text), each with the state that was in force when it was said.
#[derive(Clone, Debug, Default, PartialEq)]
struct List {
    said: Vec<(String, String, u64)>,
    state: u64,
}

impl List {
    fn cut(&mut self, length: usize) {
        self.said.truncate(length);
        self.state = self.said.last().map_or(0, |last| last.2);
    }

    fn say(&mut self, id: &str, text: &str) {
        self.said.push((id.to_owned(), text.to_owned(), self.state));
    }
}

#[derive(Default)]
struct World {
    lists: BTreeMap<String, List>,
    /// New names for each case, since one pair of tiers serves all cases.
    prefix: String,
    next: u64,
}

impl World {
    fn name(&self, t: usize) -> String {
        format!("{}t{t}", self.prefix)
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Does the operation on the list, and gives what is to be done to the transcript.
    fn plan(&mut self, op: &Op) -> Option<Call> {
        match *op {
            Op::Append { t, count, again } => {
                let name = self.name(t);
                let mut batch = vec![];
                for _ in 0..count {
                    let message = format!("m{}", self.fresh());
                    self.lists.get_mut(&name)?.say(&message, &message);
                    batch.push(said(&message, &message));
                }
                batch.extend(std::iter::repeat_n(batch[0].clone(), again));
                Some(Call::Append(name, batch))
            }
            Op::Repeat { t, back } => {
                let (name, message) = (self.name(t), format!("m{}", self.fresh()));
                let list = self.lists.get_mut(&name)?;
                let at = list.said.len().checked_sub(back + 1)?;
                let (id, text, _) = list.said[at].clone();
                list.say(&message, &message);
                let batch = vec![spoken(&id, &text), said(&message, &message)];
                Some(Call::Append(name, batch))
            }
            Op::Retry { t, reply } => {
                let (name, reply, text) = (self.name(t), format!("r{reply}"), self.fresh());
                let text = format!("attempt {text}");
                let list = self.lists.get_mut(&name)?;
                if let Some(at) = list.said.iter().position(|(id, ..)| *id == reply) {
                    // To just before the reply, with the state it was said in.
                    list.state = list.said[at].2;
                    list.said.truncate(at);
                }
                list.say(&reply, &text);
                Some(Call::Retry(name, spoken(&reply, &text)))
            }
            Op::Fork { t, back, target } => {
                let (source, target) = (self.name(t), self.name(target));
                let mut list = self.lists.get(&source)?.clone();
                if self.lists.contains_key(&target) {
                    return None;
                }
                let length = list
                    .said
                    .len()
                    .checked_sub(back)
                    .filter(|length| *length > 0)?;
                let message = list.said[length - 1].0.clone();
                list.cut(length);
                self.lists.insert(target.clone(), list);
                Some(Call::Fork(
                    source,
                    HistoryPoint::After(mid(&message)),
                    target,
                ))
            }
            Op::Rewind { t, back } => {
                let name = self.name(t);
                let list = self.lists.get_mut(&name)?;
                let length = list
                    .said
                    .len()
                    .checked_sub(back)
                    .filter(|length| *length > 0)?;
                let message = list.said[length - 1].0.clone();
                list.cut(length);
                Some(Call::Rewind(name, message))
            }
            Op::SetState { t } => {
                let (name, value) = (self.name(t), self.fresh());
                self.lists.get_mut(&name)?.state = value;
                Some(Call::SetState(name, value))
            }
            Op::Flush { t, keep } => {
                let keep = if keep {
                    HotCopy::Hot
                } else {
                    HotCopy::ColdOnly
                };
                let name = self.name(t);
                self.lists
                    .contains_key(&name)
                    .then_some(Call::Flush(name, keep))
            }
            Op::Hydrate { t } => {
                let name = self.name(t);
                self.lists
                    .contains_key(&name)
                    .then_some(Call::Hydrate(name))
            }
            Op::Crash { .. } | Op::Reopen => None,
        }
    }
}

/// One operation on the real thing; doing it again after a failure must come to the same.
#[derive(Clone, Debug)]
enum Call {
    Append(String, Vec<Message>),
    Retry(String, Message),
    Fork(String, HistoryPoint, String),
    Rewind(String, String),
    SetState(String, u64),
    Flush(String, HotCopy),
    Hydrate(String),
}

/// Replies begin with an `r`.
fn spoken(id: &str, text: &str) -> Message {
    if id.starts_with('r') {
        reply(id, text)
    } else {
        said(id, text)
    }
}

async fn perform(all: &Transcripts, call: &Call) -> skein_transcript::Result<()> {
    match call {
        Call::Append(name, batch) => all.open(&id(name)).append(by(1), batch).await.map(|_| ()),
        Call::Retry(name, said) => {
            let t = all.open(&id(name));
            t.begin_reply(by(1), &said.id).await?;
            t.append(by(1), std::slice::from_ref(said))
                .await
                .map(|_| ())
        }
        Call::Fork(source, point, target) => all
            .fork(&id(source), point, &id(target), by(1))
            .await
            .map(|_| ()),
        Call::Rewind(name, message) => all
            .open(&id(name))
            .rewind(by(1), &mid(message))
            .await
            .map(|_| ()),
        Call::SetState(name, value) => {
            let t = all.open(&id(name));
            let current = t.state().await?;
            if current.state == state(*value) {
                return Ok(());
            }
            t.set_state(by(1), current.version, state(*value))
                .await
                .map(|_| ())
        }
        Call::Flush(name, keep) => all.open(&id(name)).flush(*keep).await.map(|_| ()),
        Call::Hydrate(name) => all.open(&id(name)).hydrate().await.map(|_| ()),
    }
}

fn state(value: u64) -> StateSlice {
    let mut state = StateSlice::default();
    if value > 0 {
        state.custom.insert("value".into(), value.into());
    }
    state
}

fn compare(all: &Transcripts, world: &World) {
    for (name, list) in &world.lists {
        let t = all.open(&id(name));
        let forward = paged(&t, Direction::OldestFirst, 5);
        let real: Vec<Message> = list
            .said
            .iter()
            .map(|(id, text, _)| said(id, text))
            .collect();
        assert_eq!(ids(&forward), ids(&real), "{name}");
        assert!(
            forward.iter().zip(&real).all(|(a, b)| a.blocks == b.blocks),
            "{name}"
        );
        let mut backward = paged(&t, Direction::NewestFirst, 3);
        backward.reverse();
        assert_eq!(backward, forward, "{name}");
        assert_eq!(
            block_on(t.state()).unwrap().state,
            state(list.state),
            "{name}"
        );
        let head = block_on(t.head()).unwrap();
        assert_eq!(head.marks.messages, list.said.len() as u64, "{name}");
    }
}

pub fn random_histories_agree_with_a_list(pair: &mut Pair) {
    let mut runner = TestRunner::new(Config {
        cases: 48,
        failure_persistence: None,
        ..Config::default()
    });
    // The runner wants a function it may call again; the tiers are one and the same throughout.
    let pair = std::cell::RefCell::new(pair);
    let case = std::cell::Cell::new(0_u32);
    runner
        .run(&ops(), |ops| {
            case.set(case.get() + 1);
            let mut pair = pair.borrow_mut();
            let mut world = World {
                prefix: format!("c{}-", case.get()),
                ..World::default()
            };
            let first = world.name(0);
            block_on(pair.all().create(&id(&first), by(1))).unwrap();
            world.lists.insert(first, List::default());
            let mut trouble = None;
            for op in &ops {
                if let Op::Crash { nth, fault } = op {
                    trouble = Some((*nth, Fault::ALL[*fault]));
                } else if matches!(op, Op::Reopen) {
                    pair.reopen();
                } else if let Some(call) = world.plan(op) {
                    if let Some((nth, fault)) = trouble.take() {
                        let (all, faults) = pair.faulty();
                        faults.arm(nth, fault);
                        if let Err(e) = block_on(perform(&all, &call)) {
                            assert_eq!(e.kind(), Kind::Unavailable, "{call:?}: {e}");
                        }
                        pair.reopen();
                    }
                    block_on(perform(&pair.all(), &call)).unwrap();
                }
                compare(&pair.all(), &world);
            }
            Ok(())
        })
        .unwrap();
}
