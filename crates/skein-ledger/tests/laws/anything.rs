//! Random histories of all requests by several callers: no bug, no panic, and no counter goes back.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use skein_domain::{
    Deliverable, Kind, Outcome as End, Question, Role, Session, SummaryOutcome, Thread, Usage,
};
use skein_ledger::project::{AddProject, ProjectUpdate};
use skein_ledger::session::SessionFilter;
use skein_ledger::spawn::Spawn;
use skein_ledger::summary::NewSummary;
use skein_ledger::turn::Fence;
use skein_ledger::{Caller, Error, LedgerRequests};

use crate::common::{World, actor, idempotency, race, sqlite, task};

const WHO: [&str; 4] = ["user:ann", "user:bob", "agent:a", "agent:b"];

/// The caller, the operation and the session, and numbers for the rest.
#[derive(Clone, Debug)]
struct Asked {
    who: usize,
    role: u8,
    bound: bool,
    key: Option<u8>,
    op: u8,
    session: usize,
    other: usize,
    number: u64,
}

prop_compose! {
    fn asked()(
        who in 0usize..4, role in 0u8..12, bound in prop::bool::weighted(0.2),
        key in prop::option::weighted(0.2, 0u8..6), op in 0u8..40,
        session in 0usize..30, other in 0usize..30, number in 0u64..100,
    ) -> Asked {
        Asked { who, role, bound, key, op, session, other, number }
    }
}

fn requests(world: &World, asked: &Asked) -> LedgerRequests {
    world.ledger.requests(Caller {
        role: match asked.role {
            0 => Role::Read,
            1..=3 => Role::Operate,
            _ => Role::Admin,
        },
        bound: asked.bound,
        idempotency: asked.key.map(|key| {
            let request = format!("{} {}", asked.op, asked.session % 3);
            idempotency(&format!("key-{key}"), &request)
        }),
        ..world.caller(WHO[asked.who])
    })
}

/// The id of a record, or sometimes one that does not exist.
fn name_of<T>(all: &[T], n: usize, id: impl Fn(&T) -> String) -> String {
    match all.len() {
        0 => "api-1".into(),
        len if n == 29 => format!("api-{}", len + 1000),
        len => id(&all[n % len]),
    }
}

fn fence(asked: &Asked) -> Fence {
    let maybe = |on: bool, n: u64| on.then_some(n);
    Fence {
        run: maybe(asked.number.is_multiple_of(7), 1 + asked.number % 2),
        owner_version: maybe(asked.number.is_multiple_of(11), 1),
        owner: (asked.number.is_multiple_of(13)).then(|| actor(WHO[asked.other % 4])),
    }
}

async fn ask(world: &World, asked: Asked) -> Result<(), Error> {
    let requests = requests(world, &asked);
    let sessions = world.all::<Session>();
    let threads = world.all::<Thread>();
    let id = name_of(&sessions, asked.session, |s| s.id.to_string());
    let other = name_of(&sessions, asked.other, |s| s.id.to_string());
    let thread = name_of(&threads, asked.session, |t| t.id.to_string());
    let to = |n: usize| -> Vec<_> { (0..n).map(|i| actor(WHO[(asked.other + i) % 4])).collect() };
    let reason = || Some("because".parse().unwrap());
    let n = asked.number;
    let small = u32::try_from(n % 6).unwrap();
    match asked.op {
        0..=2 => requests
            .sessions()
            .spawn(spawn(&asked, None))
            .await
            .map(drop),
        3..=7 => requests
            .sessions()
            .spawn(spawn(&asked, Some(id)))
            .await
            .map(drop),
        8..=11 => requests.turns().begin(id, fence(&asked)).await.map(drop),
        12..=15 => {
            let usage = Usage {
                input_tokens: n,
                output_tokens: n / 2,
                cost_micros: n * 3,
            };
            requests
                .turns()
                .end(id, fence(&asked), usage)
                .await
                .map(drop)
        }
        16 => {
            let question = Question {
                text: "which?".parse().unwrap(),
                options: (0..n % 3)
                    .map(|i| format!("o{i}").parse().unwrap())
                    .collect(),
                kinds: vec![],
                id: None,
            };
            requests
                .turns()
                .ask(id, fence(&asked), question)
                .await
                .map(drop)
        }
        17 => requests
            .turns()
            .answer(id, format!("{}", n % 4).parse().unwrap())
            .await
            .map(drop),
        18 => requests.turns().withdraw(id, fence(&asked)).await.map(drop),
        19..=20 => {
            let outcome = [End::Done, End::Failed, End::Killed, End::Lost][asked.other % 4];
            requests
                .sessions()
                .end(id, fence(&asked), outcome, reason())
                .await
                .map(drop)
        }
        21 => requests
            .sessions()
            .kill(
                id,
                skein_ledger::KillOptions {
                    reason: reason(),
                    tree: n.is_multiple_of(2),
                    discard: false,
                },
            )
            .await
            .map(drop),
        22..=24 => requests.sessions().restore(id).await.map(drop),
        25..=27 => {
            let version = (n.is_multiple_of(3)).then_some(1 + n % 4);
            requests
                .sessions()
                .handoff(id, actor(WHO[asked.other % 4]), version)
                .await
                .map(drop)
        }
        28..=29 => {
            let version = (n.is_multiple_of(3)).then_some(1);
            let parts = usize::try_from(n % 5).unwrap();
            requests
                .sessions()
                .broadcast(id, to(parts), version)
                .await
                .map(drop)
        }
        30 => requests.sessions().merge(id, other).await.map(drop),
        31 => requests
            .sessions()
            .set_summary(id, summary(&sessions, &asked))
            .await
            .map(drop),
        32 => requests.threads().archive(thread).await.map(drop),
        33 => requests.threads().reopen(thread).await.map(drop),
        34 => requests.threads().delete(thread).await.map(drop),
        35 => {
            let settings = ProjectUpdate {
                depth: (n.is_multiple_of(4)).then_some(small),
                width: (n % 4 == 1).then_some(small),
                idle_ttl_seconds: (n % 4 == 2).then_some(n % 40),
                max_ended: (n % 4 == 3).then_some(small),
            };
            let version = (n.is_multiple_of(2)).then_some(1);
            requests
                .projects()
                .set("api".into(), version, settings)
                .await
                .map(drop)
        }
        36 => {
            world.clock.forward(i64::try_from(n % 20).unwrap());
            requests.retention().run().await.map(drop)
        }
        37 => read_something(&requests, id, thread).await,
        38 => match n % 3 {
            0 => requests.projects().remove("api".into()).await.map(drop),
            1 => requests
                .events()
                .seal(n % 30, n.is_multiple_of(5))
                .await
                .map(drop),
            _ => {
                let name = ["web", "db", "api"][asked.other % 3].parse().unwrap();
                let add = AddProject {
                    name: Some(name),
                    ..AddProject::default()
                };
                requests.projects().add(add).await.map(drop)
            }
        },
        _ => world.ledger.recover().await.map(drop),
    }
}

fn spawn(asked: &Asked, parent: Option<String>) -> Spawn {
    let mut spawn = task("a piece of work");
    spawn.project = parent.is_none().then(|| "api".to_owned());
    spawn.parent = parent;
    spawn.owner = (asked.number.is_multiple_of(2)).then(|| actor(WHO[asked.other % 4]));
    spawn.allowance.tokens = (asked.number.is_multiple_of(3)).then_some(asked.number * 3);
    spawn.allowance.cost_micros = (asked.number.is_multiple_of(5)).then_some(asked.number * 5);
    spawn
}

fn summary(sessions: &[Session], asked: &Asked) -> NewSummary {
    let other = name_of(sessions, asked.other, |s| s.id.to_string());
    NewSummary {
        outcome: SummaryOutcome::Partial,
        text: "done".into(),
        key_decisions: vec![],
        deliverables: match other.parse() {
            Ok(session) if asked.number.is_multiple_of(2) => vec![Deliverable::Summary { session }],
            _ => vec![],
        },
        based_on: (!asked.number.is_multiple_of(3)).then_some(other),
    }
}

async fn read_something(
    requests: &LedgerRequests,
    id: String,
    thread: String,
) -> Result<(), Error> {
    requests.sessions().tree(id.clone()).await?;
    requests.events().list(0, Some(id), 10).await?;
    let filter = SessionFilter {
        thread: Some(thread),
        all: true,
        ..SessionFilter::default()
    };
    requests
        .sessions()
        .list(filter, |_| skein_domain::Status::Idle, None, 3)
        .await?;
    requests.events().verify().await.map(drop)
}

fn fine(result: &Result<(), Error>) {
    if let Err(error) = result {
        assert!(
            !matches!(
                error.kind(),
                Kind::Failed | Kind::Unavailable | Kind::TimedOut
            ),
            "{error:?}"
        );
    }
}

/// Counters that must never go back.
type Marks = HashMap<String, (u64, u64, u64, usize)>;

fn only_forward(world: &World, marks: &mut Marks) {
    for session in world.all::<Session>() {
        let now = (
            session.version,
            session.owner_version,
            session.run,
            session.previous_owners.len(),
        );
        let before = marks
            .insert(session.id.to_string(), now)
            .unwrap_or_default();
        assert!(
            before.0 <= now.0 && before.1 <= now.1 && before.2 <= now.2 && before.3 <= now.3,
            "{}: {before:?} {now:?}",
            session.id
        );
    }
    let live = marks.len();
    assert_eq!(live, world.all::<Session>().len(), "a session went away");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn l1_no_history_finds_a_bug(history in prop::collection::vec(asked(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            let mut marks = Marks::new();
            for asked in history {
                fine(&ask(&world, asked).await);
                only_forward(&world, &mut marks);
                world.audit();
            }
        });
    }
}

/// Histories, the same for the same seed.
fn histories(seed: u8, count: usize, length: usize) -> Vec<Vec<Asked>> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let list = prop::collection::vec(prop::collection::vec(asked(), length), count);
    list.new_tree(&mut runner).unwrap().current()
}

/// The same with concurrent callers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_no_concurrent_history_finds_a_bug() {
    let folder = tempfile::tempdir().unwrap();
    let on_disk = World::on(sqlite(folder.path()), Arc::new(skein_ledger::NoFaultPoints));
    for (seed, world) in [(1, on_disk.await), (2, World::new().await)] {
        let racers = histories(seed, 8, 60)
            .into_iter()
            .map(|history| {
                let world = world.clone();
                async move {
                    let mut marks = Marks::new();
                    for asked in history {
                        fine(&ask(&world, asked).await);
                        for session in world.all::<Session>() {
                            let old = marks.get(session.id.as_str()).map_or(0, |m| m.0);
                            assert!(old <= session.version);
                            let mark = (session.version, 0, 0, 0);
                            marks.insert(session.id.to_string(), mark);
                        }
                    }
                }
            })
            .collect();
        race(racers).await;
        world.audit();
    }
}
