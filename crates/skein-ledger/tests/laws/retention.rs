//! Retention archives by age and by number, and nothing else.

use std::sync::{Arc, Mutex};

use skein_domain::{Kind, Phase, PhaseName, Role, Session, SessionId, TenantId};
use skein_ledger::Caller;
use skein_ledger::NoFaultPoints;
use skein_ledger::project::ProjectUpdate;
use skein_store::backend::{Backend, ReadJob, Result, WriteJob, WriteReply};

use crate::common::{UNLIMITED, World, fence, memory, refused, task};

fn ttl(seconds: u64) -> ProjectUpdate {
    ProjectUpdate {
        idle_ttl_seconds: Some(seconds),
        ..ProjectUpdate::default()
    }
}

fn most(ended: u32) -> ProjectUpdate {
    ProjectUpdate {
        max_ended: Some(ended),
        ..ProjectUpdate::default()
    }
}

fn phase(world: &World, id: &SessionId) -> PhaseName {
    world.session(id).phase.name()
}

#[tokio::test]
async fn sessions_idle_for_too_long_are_archived_and_others_left() {
    let world = World::new().await;
    world.add_project("web").await;
    world.set(ttl(3600)).await;
    let (idle, ended) = (world.root().await, world.root().await);
    world.end(&ended.id).await;
    let (active, asking) = (world.root().await, world.root().await);
    let requests = world.requests();
    for session in [&active, &asking] {
        let id = session.id.to_string();
        requests.turns().begin(id, fence()).await.unwrap();
    }
    let question = skein_domain::Question {
        text: "which?".parse().unwrap(),
        options: vec![],
        kinds: vec![],
        id: None,
    };
    requests
        .turns()
        .ask(asking.id.to_string(), fence(), question)
        .await
        .unwrap();
    let mut elsewhere = task("x");
    elsewhere.project = Some("web".into());
    let elsewhere = requests
        .sessions()
        .spawn(elsewhere)
        .await
        .unwrap()
        .session()
        .unwrap();
    world.clock.forward(3000);
    let young = world.root().await;

    world.ledger.sweep().await.unwrap();
    assert_eq!(world.count("session.archived"), 0);
    world.clock.forward(700);
    let mut gone = world.run_retention().await;
    gone.sort();
    assert_eq!(gone, vec![idle.id.clone(), ended.id.clone()]);
    for (session, expected) in [
        (&idle, PhaseName::Archived),
        (&ended, PhaseName::Archived),
        (&active, PhaseName::Active),
        (&asking, PhaseName::AwaitingInput),
        (&elsewhere, PhaseName::Idle),
        (&young, PhaseName::Idle),
    ] {
        assert_eq!(phase(&world, &session.id), expected, "{}", session.id);
    }
    // It is final, and a second run archives nothing.
    let back = requests.sessions().restore(ended.id.to_string()).await;
    assert_eq!(back.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(world.run_retention().await, vec![]);
    assert_eq!(world.count("session.archived"), 2);
    world.audit();
}

#[tokio::test]
async fn the_oldest_of_too_many_ended_sessions_are_archived() {
    let world = World::new().await;
    world.set(most(2)).await;
    let mut sessions = vec![];
    for _ in 0..5 {
        sessions.push(world.root().await.id);
    }
    // Ended in another order than they were made: 4, 3, 2, 1; the first stays idle.
    for id in sessions[1..].iter().rev() {
        world.end(id).await;
    }
    world.ledger.sweep().await.unwrap();
    let phases: Vec<_> = sessions.iter().map(|id| phase(&world, id)).collect();
    assert_eq!(
        phases,
        [
            PhaseName::Idle,
            PhaseName::Ended,
            PhaseName::Ended,
            PhaseName::Archived,
            PhaseName::Archived
        ]
    );
    world.audit();
}

#[tokio::test]
async fn zero_switches_a_rule_off() {
    let world = World::new().await;
    world.set(ttl(10)).await;
    world.set(ttl(0)).await;
    world.root().await;
    world.clock.forward(1_000_000);
    assert_eq!(world.run_retention().await, vec![]);
}

#[tokio::test]
async fn retention_is_an_admins_to_run() {
    let world = World::new().await;
    let operator = Caller {
        role: Role::Operate,
        ..world.caller("user:bob")
    };
    let no = world.ledger.requests(operator).retention().run().await;
    assert_eq!(refused(no).rule(), "role");
    assert_eq!(world.refusals("role"), 1);
}

/// An archived parent still gets the budget of its live child back.
#[tokio::test]
async fn a_child_of_an_archived_parent_still_returns_its_budget() {
    let world = World::new().await;
    let root = world.root_with(crate::common::tokens(100)).await;
    let parent = world.child(&root.id, crate::common::tokens(50)).await;
    let child = world.child(&parent.id, crate::common::tokens(20)).await;
    let id = child.id.to_string();
    world
        .requests()
        .turns()
        .begin(id.clone(), fence())
        .await
        .unwrap();
    world.end(&parent.id).await;
    world.set(most(1)).await;
    let other = world.child(&root.id, UNLIMITED).await;
    world.end(&other.id).await;
    world.run_retention().await;
    assert_eq!(phase(&world, &parent.id), PhaseName::Archived);
    let usage = crate::common::used(5);
    world
        .requests()
        .turns()
        .end(id, fence(), usage)
        .await
        .unwrap();
    world.end(&child.id).await;
    assert_eq!(world.session(&root.id).budget.tokens.children, 5);
    world.audit();
}

type Hook = Box<dyn FnOnce() + Send>;

/// Calls a function just before the nth write from now.
struct Before {
    inner: Arc<dyn Backend>,
    plan: Mutex<Option<(usize, Hook)>>,
}

impl std::fmt::Debug for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Before").finish_non_exhaustive()
    }
}

impl Backend for Before {
    fn read(&self, tenant: &TenantId, job: ReadJob<'_>) -> Result<()> {
        self.inner.read(tenant, job)
    }
    fn submit(&self, tenant: TenantId, job: WriteJob, reply: WriteReply) {
        let due = {
            let mut plan = self.plan.lock().unwrap();
            match plan.take() {
                Some((1, hook)) => Some(hook),
                Some((n, hook)) => {
                    *plan = Some((n - 1, hook));
                    None
                }
                None => None,
            }
        };
        if let Some(hook) = due {
            hook();
        }
        self.inner.submit(tenant, job, reply);
    }
    fn tenants(&self) -> Result<Vec<TenantId>> {
        self.inner.tenants()
    }
    fn check(&self) -> Result<Vec<String>> {
        self.inner.check()
    }
    fn close(&self) {
        self.inner.close();
    }
}

/// Archived is final, so the sweep skips a session that was used after it was chosen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_a_session_used_meanwhile_is_not_archived() {
    let before = Arc::new(Before {
        inner: memory(),
        plan: Mutex::new(None),
    });
    let backend: Arc<dyn Backend> = before.clone();
    let world = World::on(backend, Arc::new(NoFaultPoints)).await;
    world.set(ttl(60)).await;
    let session = world.root().await;
    world.clock.forward(61);
    let (busy, id) = (world.clone(), session.id.clone());
    let runtime = tokio::runtime::Handle::current();
    let hook: Hook = Box::new(move || {
        tokio::task::block_in_place(|| runtime.block_on(busy.spend(&id, 3)));
    });
    *before.plan.lock().unwrap() = Some((1, hook));
    assert_eq!(world.run_retention().await, vec![]);
    let after: Session = world.session(&session.id);
    assert_eq!((after.phase, after.usage.tokens()), (Phase::Idle, 3));
    world.clock.forward(61);
    assert_eq!(world.run_retention().await, vec![session.id]);
}
