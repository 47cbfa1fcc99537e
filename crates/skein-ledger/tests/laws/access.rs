//! Which caller may do what, and which attempts are recorded.

use skein_domain::{Actor, Kind, Question, Refused, Rights, Role, SessionId, Token};
use skein_ledger::project::{AddProject, ProjectUpdate};
use skein_ledger::session::SessionFilter;
use skein_ledger::spawn::Spawn;
use skein_ledger::summary::NewSummary;
use skein_ledger::token::NewToken;
use skein_ledger::{Answer, Caller, Error, LedgerRequests, RequestOutcome};

use crate::common::{
    UNLIMITED, World, actor, actors, below, fence, kind, refused, task, used, wait_for_event,
};

async fn token(
    world: &World,
    role: Role,
    actor: Option<Actor>,
    expires: Option<u64>,
) -> (Token, String) {
    let new = NewToken {
        name: "ci".parse().unwrap(),
        role,
        rights: Rights::default(),
        actor,
        expires_in_seconds: expires,
    };
    match world.requests().tokens().create(new).await.unwrap().fresh() {
        Some(RequestOutcome::NewToken { token, secret }) => (token, secret),
        other => panic!("{other:?}"),
    }
}

async fn enter(world: &World, secret: &str) -> LedgerRequests {
    world
        .ledger
        .requests(world.ledger.authenticate(secret).await.unwrap())
}

fn unauthorized(result: Result<Caller, Error>) {
    assert_eq!(
        refused(result),
        Refused::Unauthorized {
            why: "the token is unknown, expired or revoked"
        }
    );
}

#[tokio::test]
async fn l15_every_wrong_token_gets_the_same_answer() {
    let world = World::new().await;
    let (_, secret) = token(&world, Role::Admin, None, None).await;
    let (other, _) = token(&world, Role::Admin, None, None).await;
    let caller = world.ledger.authenticate(&secret).await.unwrap();
    assert_eq!(
        (caller.actor, caller.role, caller.bound),
        (actor("user:ci"), Role::Admin, false)
    );
    let parts: Vec<&str> = secret.split('.').collect();
    let [scheme, tenant, id, word] = parts[..] else {
        panic!("{secret}");
    };
    let wrong = [
        String::new(),
        "skein".into(),
        "....".into(),
        format!("{secret}."),
        format!("{secret}.x"),
        format!(" {secret}"),
        format!("{secret}0"),
        secret[..secret.len() - 1].to_owned(),
        format!("{scheme}.{tenant}.{id}."),
        format!("{scheme}.{tenant}.{id}.{}", word.to_uppercase() + "x"),
        format!("{scheme}.other.{id}.{word}"),
        format!("{scheme}.../../x.{id}.{word}"),
        format!("{scheme}.{tenant}.{}.{word}", other.id),
        format!("{scheme}.{tenant}.tok_0000000000000000.{word}"),
        format!("bearer.{tenant}.{id}.{word}"),
    ];
    for bearer in wrong {
        unauthorized(world.ledger.authenticate(&bearer).await);
    }
    assert!(world.ledger.authenticate(&secret).await.is_ok());
}

#[tokio::test]
async fn l15_tokens_expire_and_are_revoked_at_once() {
    let world = World::new().await;
    let (_, short) = token(&world, Role::Read, None, Some(60)).await;
    let (revoked, long) = token(&world, Role::Read, None, Some(u64::MAX)).await;
    let zero = NewToken {
        name: "x".parse().unwrap(),
        role: Role::Read,
        rights: Rights::default(),
        actor: None,
        expires_in_seconds: Some(0),
    };
    let result = world.requests().tokens().create(zero).await;
    assert_eq!(kind(&result), Some(Kind::Misuse));

    world.clock.forward(59);
    assert!(world.ledger.authenticate(&short).await.is_ok());
    world.clock.forward(1);
    unauthorized(world.ledger.authenticate(&short).await);
    assert!(world.ledger.authenticate(&long).await.is_ok());
    let first = world
        .requests()
        .tokens()
        .revoke(revoked.id.to_string())
        .await;
    unauthorized(world.ledger.authenticate(&long).await);
    // A second revocation changes nothing.
    let events = world.events().len();
    let again = world
        .requests()
        .tokens()
        .revoke(revoked.id.to_string())
        .await;
    assert_eq!(again.unwrap(), first.unwrap());
    assert_eq!(world.events().len(), events);
}

#[tokio::test]
async fn l15_roles_bound_what_a_token_does() {
    let world = World::new().await;
    let session = world.root().await;
    let (_, secret) = token(&world, Role::Read, None, None).await;
    let reader = enter(&world, &secret).await;
    let before = world.all::<skein_domain::Session>();
    for result in every_change(&reader, &session.id).await {
        assert_eq!(refused(result).rule(), "role");
    }
    assert_eq!(world.all::<skein_domain::Session>(), before);
    assert!(reader.sessions().get(session.id.to_string()).await.is_ok());
    let list = reader.sessions().list(
        SessionFilter::default(),
        |_| skein_domain::Status::Idle,
        None,
        10,
    );
    assert_eq!(list.await.unwrap().items.len(), 1);

    let (_, secret) = token(&world, Role::Operate, None, None).await;
    let operator = enter(&world, &secret).await;
    let new = NewToken {
        name: "more".parse().unwrap(),
        role: Role::Admin,
        rights: Rights::default(),
        actor: None,
        expires_in_seconds: None,
    };
    refused(operator.tokens().create(new).await);
    refused(operator.tokens().list(None, 10).await);
    refused(operator.tokens().revoke("tok_".into()).await);
    refused(operator.events().seal(0, true).await);
    refused(operator.retention().run().await);
    assert!(operator.sessions().spawn(task("x")).await.is_ok());
}

/// Every change an operator can make, on one session.
async fn every_change(
    requests: &LedgerRequests,
    session: &SessionId,
) -> Vec<Result<Answer, Error>> {
    let id = || session.to_string();
    let question = Question {
        text: "which?".parse().unwrap(),
        options: vec![],
        kinds: vec![],
        id: None,
    };
    let mut results = driving(requests, session).await;
    results.extend([
        requests.sessions().spawn(task("x")).await,
        requests
            .projects()
            .add(AddProject {
                name: Some("web".parse().unwrap()),
                ..AddProject::default()
            })
            .await,
        requests
            .projects()
            .set("api".into(), None, ProjectUpdate::default())
            .await,
        requests.projects().remove("api".into()).await,
        requests
            .threads()
            .open("api".into(), "x".parse().unwrap())
            .await,
        requests.threads().archive("thr_".into()).await,
        requests.threads().reopen("thr_".into()).await,
        requests.threads().delete("thr_".into()).await,
        requests.turns().ask(id(), fence(), question).await,
    ]);
    results
}

/// Every way to drive a session.
async fn driving(requests: &LedgerRequests, session: &SessionId) -> Vec<Result<Answer, Error>> {
    let id = || session.to_string();
    let summary = NewSummary {
        outcome: skein_domain::SummaryOutcome::Partial,
        text: "x".into(),
        key_decisions: vec![],
        deliverables: vec![],
        based_on: None,
    };
    let spawn = below(session);
    vec![
        requests.turns().begin(id(), fence()).await,
        requests.turns().end(id(), fence(), used(1)).await,
        requests.turns().withdraw(id(), fence()).await,
        requests.turns().answer(id(), "yes".parse().unwrap()).await,
        requests
            .sessions()
            .end(id(), fence(), skein_domain::Outcome::Done, None)
            .await,
        requests
            .sessions()
            .kill(id(), crate::common::kill(false))
            .await,
        requests
            .sessions()
            .kill(id(), crate::common::kill(true))
            .await,
        requests.sessions().restore(id()).await,
        requests
            .sessions()
            .handoff(id(), actor("agent:b"), None)
            .await,
        requests
            .sessions()
            .broadcast(id(), actors(&["agent:b", "agent:c"]), None)
            .await,
        requests.sessions().merge(id(), id()).await,
        requests.sessions().set_summary(id(), summary).await,
        requests.sessions().spawn(spawn).await,
    ]
}

#[tokio::test]
async fn l15_a_bound_token_drives_only_its_own_sessions() {
    let world = World::new().await;
    let (_, secret) = token(&world, Role::Operate, Some(actor("agent:b")), None).await;
    let bound = enter(&world, &secret).await;
    let anns = world.root().await;
    let asks = world.root().await;
    let question = Question {
        text: "may I?".parse().unwrap(),
        options: vec![],
        kinds: vec![],
        id: None,
    };
    let requests = world.requests();
    requests
        .turns()
        .begin(asks.id.to_string(), fence())
        .await
        .unwrap();
    requests
        .turns()
        .ask(asks.id.to_string(), fence(), question)
        .await
        .unwrap();
    let before = world.all::<skein_domain::Session>();
    for session in [&anns, &asks] {
        for (n, result) in driving(&bound, &session.id).await.into_iter().enumerate() {
            assert_eq!(
                refused(result),
                Refused::NotOwner {
                    session: session.id.clone(),
                    owner: actor("user:ann"),
                    actor: actor("agent:b")
                },
                "way {n}"
            );
        }
    }
    assert_eq!(world.all::<skein_domain::Session>(), before);
    assert_eq!(world.refusals("not_owner"), 26);

    // Naming another owner in the fence does not help.
    let posing = skein_ledger::turn::Fence {
        owner: Some(actor("user:ann")),
        ..fence()
    };
    let result = bound.turns().begin(anns.id.to_string(), posing).await;
    assert_eq!(refused(result).rule(), "other_actor");
    // Neither does naming another owner for what is made.
    for owner in ["user:ann", "agent:c", "system"] {
        let spawn = Spawn {
            owner: Some(actor(owner)),
            ..task("x")
        };
        assert_eq!(
            refused(bound.sessions().spawn(spawn).await).rule(),
            "other_actor"
        );
    }

    let own = bound
        .sessions()
        .spawn(task("x"))
        .await
        .unwrap()
        .session()
        .unwrap();
    assert_eq!(own.owner, actor("agent:b"));
    bound
        .turns()
        .begin(own.id.to_string(), fence())
        .await
        .unwrap();
    bound
        .turns()
        .end(own.id.to_string(), fence(), used(1))
        .await
        .unwrap();
    // Handed over, it is driven no more.
    bound
        .sessions()
        .handoff(own.id.to_string(), actor("user:ann"), None)
        .await
        .unwrap();
    refused(bound.turns().begin(own.id.to_string(), fence()).await);

    // An admin's token drives any session, but cannot act as another actor either.
    let (_, secret) = token(&world, Role::Admin, Some(actor("agent:b")), None).await;
    let admin = enter(&world, &secret).await;
    admin
        .turns()
        .begin(anns.id.to_string(), fence())
        .await
        .unwrap();
    for actor in [None, Some(actor("user:ann"))] {
        let new = NewToken {
            name: "more".parse().unwrap(),
            role: Role::Read,
            rights: Rights::default(),
            actor,
            expires_in_seconds: None,
        };
        assert_eq!(
            refused(admin.tokens().create(new).await).rule(),
            "other_actor"
        );
    }
    let new = NewToken {
        name: "more".parse().unwrap(),
        role: Role::Read,
        rights: Rights::ALL,
        actor: Some(actor("agent:b")),
        expires_in_seconds: None,
    };
    // It cannot give a right that it lacks.
    assert_eq!(refused(admin.tokens().create(new).await).rule(), "right");
}

/// L7: the answer for another tenant's id is the answer for a missing one, and the attempt is recorded in the logs of the
/// owner and of the machine, not in the caller's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l7_a_foreign_id_is_answered_like_a_missing_one() {
    let world = World::new().await;
    let owner = world.tenant("acme");
    let project = owner.add_project("acme").await;
    let spawn = Spawn {
        project: Some("acme".into()),
        ..task("secret work")
    };
    let session = owner
        .requests()
        .sessions()
        .spawn(spawn)
        .await
        .unwrap()
        .session()
        .unwrap();
    let child = owner.child(&session.id, UNLIMITED).await;
    let (stolen, _) = token(&owner, Role::Admin, None, None).await;

    let before = world.events().len();
    let missing: SessionId = "acme-99".parse().unwrap();
    let foreign = every_read_and_write(&world, &session.id, "acme-1").await;
    let none = every_read_and_write(&world, &missing, "acme-99").await;
    assert_eq!(foreign.len(), none.len());
    for (n, (foreign, none)) in foreign.iter().zip(&none).enumerate() {
        assert_eq!(foreign, none, "call {n}");
    }
    let others = [
        (project.id.to_string(), "prj_0000000000000000"),
        (session.thread.to_string(), "thr_0000000000000000"),
        (stolen.id.to_string(), "tok_0000000000000000"),
    ];
    for (foreign, none) in others {
        let requests = world.requests();
        for id in [foreign.clone(), none.to_owned()] {
            let result = match &id[..4] {
                "prj_" => requests.projects().get(id.clone()).await.map(drop),
                "thr_" => requests.threads().archive(id.clone()).await.map(drop),
                _ => requests.tokens().revoke(id.clone()).await.map(drop),
            };
            assert_eq!(kind(&result), Some(Kind::NotFound), "{id}");
        }
    }
    assert_eq!(owner.session(&session.id), session);
    assert_eq!(owner.session(&child.id), child);

    // The audit task checks misses in order, so the last existing one is recorded last.
    let machine = world.tenant("machine");
    let last = stolen.id.to_string();
    let mut follower = machine
        .requests()
        .events()
        .follow(Some(0), None)
        .await
        .unwrap();
    let mut seen = false;
    while !seen {
        let events = follower.next().await.unwrap();
        seen = events.iter().any(|e| e.data.contains(&last));
    }
    let by_machine = machine.events();
    let by_owner: Vec<_> = owner
        .events()
        .into_iter()
        .filter(|e| e.kind == "audit.foreign_id")
        .collect();
    assert_eq!(by_machine.len(), by_owner.len());
    assert!(by_machine.iter().all(|e| e.kind == "audit.foreign_id"));
    assert!(
        by_machine
            .iter()
            .all(|e| e.data.contains("\"asked_by\":\"default\""))
    );
    assert!(
        by_owner
            .iter()
            .all(|e| e.data.contains("\"asked_by\":null"))
    );
    for id in [
        session.id.as_str(),
        project.id.as_str(),
        session.thread.as_str(),
    ] {
        assert!(by_owner.iter().any(|e| e.data.contains(id)), "{id}");
    }
    assert!(by_owner.iter().all(|e| !e.data.contains("acme-99")));
    assert_eq!(world.events().len(), before, "the asker's log grew");
    for world in [world, owner, machine] {
        world.audit_events();
    }
}

/// The errors of all calls with this session id, the id itself blanked.
async fn every_read_and_write(world: &World, id: &SessionId, text: &str) -> Vec<String> {
    let requests = world.requests();
    let mut errors = vec![];
    let mut note = |error: Error| {
        assert_eq!(error.kind(), Kind::NotFound, "{error}");
        errors.push(format!("{error:?} {:?}", error.hints()).replace(text, "ID"));
    };
    for result in driving(&requests, id).await {
        note(result.unwrap_err());
    }
    note(requests.sessions().get(id.to_string()).await.unwrap_err());
    note(
        requests
            .sessions()
            .summary(id.to_string())
            .await
            .unwrap_err(),
    );
    note(requests.sessions().tree(id.to_string()).await.unwrap_err());
    note(
        requests
            .events()
            .list(0, Some(id.to_string()), 10)
            .await
            .unwrap_err(),
    );
    note(
        requests
            .events()
            .follow(None, Some(id.to_string()))
            .await
            .map(drop)
            .unwrap_err(),
    );
    let filter = SessionFilter {
        thread: Some(id.to_string()),
        ..SessionFilter::default()
    };
    note(
        requests
            .sessions()
            .list(filter, |_| skein_domain::Status::Idle, None, 10)
            .await
            .unwrap_err(),
    );
    errors
}

/// A refusal is in the log with its session, its rule and its caller.
#[tokio::test]
async fn refusals_are_audited_where_they_happened() {
    let world = World::new().await;
    let session = world.root_with(crate::common::tokens(10)).await;
    let bob = world.ledger.requests(world.caller("user:bob"));
    let spawn = Spawn {
        allowance: crate::common::tokens(11),
        ..below(&session.id)
    };
    refused(bob.sessions().spawn(spawn).await);
    wait_for_event(&world, "audit.refused").await;
    let event = world.events().pop().unwrap();
    assert_eq!(event.actor, "user:bob");
    assert_eq!(event.session.as_deref(), Some(session.id.as_str()));
    assert_eq!(event.thread.as_deref(), Some(session.thread.as_str()));
    assert!(event.data.contains("\"rule\":\"budget\""), "{}", event.data);
    assert!(
        event.data.contains("cannot give 11 tokens"),
        "{}",
        event.data
    );
}

/// A token bound to an actor may not touch limits, threads of other people and their live sessions.
#[tokio::test]
async fn l15_a_bound_token_lifts_no_limits_and_ends_no_work_of_others() {
    let world = World::new().await;
    let (_, secret) = token(&world, Role::Operate, Some(actor("agent:x")), None).await;
    let requests = enter(&world, &secret).await;
    let mine = world.root().await;
    let mine = world
        .requests()
        .sessions()
        .handoff(mine.id.to_string(), actor("agent:x"), None)
        .await;
    let mine = mine.unwrap().session().unwrap();
    let theirs = world.child(&mine.id, UNLIMITED).await;
    assert_eq!(
        refused(
            requests
                .sessions()
                .kill(mine.id.to_string(), crate::common::kill(true))
                .await
        )
        .rule(),
        "not_owner"
    );
    assert!(world.session(&theirs.id).phase.is_live());
    let wide = ProjectUpdate {
        width: Some(10_000),
        ..ProjectUpdate::default()
    };
    assert_eq!(
        refused(requests.projects().set("api".into(), None, wide).await).rule(),
        "role"
    );
    assert_eq!(
        refused(requests.projects().remove("api".into()).await).rule(),
        "role"
    );
    let thread = theirs.thread.to_string();
    assert_eq!(
        refused(requests.threads().archive(thread.clone()).await).rule(),
        "role"
    );
    assert_eq!(
        refused(requests.threads().delete(thread).await).rule(),
        "role"
    );
    let folder = AddProject {
        path: Some("/etc".into()),
        ..AddProject::default()
    };
    assert_eq!(
        refused(requests.projects().add(folder).await).rule(),
        "role"
    );
    world.audit();
}

#[tokio::test]
async fn a_name_cannot_stand_in_for_an_id() {
    let world = World::new().await;
    let real = world.requests().projects().get("api".into()).await.unwrap();
    let impostor = AddProject {
        name: Some(real.id.as_str().parse().unwrap()),
        ..AddProject::default()
    };
    world.requests().projects().add(impostor).await.unwrap();
    assert_eq!(
        world
            .requests()
            .projects()
            .get(real.id.to_string())
            .await
            .unwrap(),
        real
    );
}

/// A caller who repeats what its role does not allow does not fill the log.
#[tokio::test]
async fn a_repeated_trespass_is_recorded_once() {
    let world = World::new().await;
    let (_, secret) = token(&world, Role::Read, None, None).await;
    let requests = enter(&world, &secret).await;
    for _ in 0..5 {
        refused(requests.projects().remove("api".into()).await);
    }
    assert_eq!(world.refusals("role"), 1);
}
