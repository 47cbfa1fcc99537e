//! A session's summary is written once; summaries build on each other in short chains without cycles.

use skein_domain::{Conflict, Deliverable, Kind, Refused, Session, Summary, SummaryOutcome};
use skein_ledger::project::ProjectUpdate;
use skein_ledger::summary::NewSummary;

use crate::common::{World, conflict, kind, race, refused};

fn text(text: &str) -> NewSummary {
    NewSummary {
        outcome: SummaryOutcome::Succeeded,
        text: text.into(),
        key_decisions: vec![],
        deliverables: vec![],
        based_on: None,
    }
}

fn on(base: &Session) -> NewSummary {
    NewSummary {
        based_on: Some(base.id.to_string()),
        ..text("done")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l1_of_many_summaries_one_is_kept() {
    for world in World::everywhere().await {
        let session = world.root().await;
        let racers = (0..20)
            .map(|n| {
                let (requests, id) = (world.requests(), session.id.to_string());
                async move {
                    requests
                        .sessions()
                        .set_summary(id, text(&format!("version {n}")))
                        .await
                }
            })
            .collect();
        let results = race(racers).await;
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
        let kept = world
            .requests()
            .sessions()
            .summary(session.id.to_string())
            .await
            .unwrap();
        for lost in results.into_iter().filter(Result::is_err) {
            assert_eq!(
                conflict(lost),
                Conflict::SummaryExists {
                    session: session.id.clone(),
                    summary: kept.id.to_string()
                }
            );
        }
        assert_eq!(world.all::<Summary>(), vec![kept]);
    }
}

#[tokio::test]
async fn l13_a_summary_has_four_thousand_characters_at_most() {
    let world = World::new().await;
    let session = world.root().await;
    let id = || session.id.to_string();
    for bad in [&"é".repeat(4001), "", "  \n", "a\u{7}b"] {
        let result = world
            .requests()
            .sessions()
            .set_summary(id(), text(bad))
            .await;
        assert_eq!(kind(&result), Some(Kind::Misuse), "{bad:?}");
    }
    let full = "é".repeat(4000);
    world
        .requests()
        .sessions()
        .set_summary(id(), text(&full))
        .await
        .unwrap();
    assert_eq!(
        world
            .requests()
            .sessions()
            .summary(id())
            .await
            .unwrap()
            .text,
        full
    );
}

#[tokio::test]
async fn chains_are_ten_long_and_have_no_cycle() {
    let world = World::new().await;
    let mut line = vec![world.root().await];
    let requests = world.requests();
    requests
        .sessions()
        .set_summary(line[0].id.to_string(), text("first"))
        .await
        .unwrap();
    for _ in 1..10 {
        let next = world.root().await;
        let based = on(line.last().unwrap());
        requests
            .sessions()
            .set_summary(next.id.to_string(), based)
            .await
            .unwrap();
        line.push(next);
    }
    let eleventh = world.root().await;
    let based = on(line.last().unwrap());
    assert_eq!(
        refused(
            requests
                .sessions()
                .set_summary(eleventh.id.to_string(), based)
                .await
        ),
        Refused::ChainTooDeep {
            depth: 11,
            limit: 10
        }
    );
    // Shorter chains are still open to it, its own is not.
    let own = requests
        .sessions()
        .set_summary(eleventh.id.to_string(), on(&eleventh))
        .await;
    assert_eq!(
        refused(own),
        Refused::ChainCycle {
            through: eleventh.id.clone()
        }
    );
    // A cycle through others would need a base that has no summary yet.
    let other = world.root().await;
    let missing = requests
        .sessions()
        .set_summary(other.id.to_string(), on(&eleventh))
        .await;
    assert_eq!(kind(&missing), Some(Kind::NotFound));
    requests
        .sessions()
        .set_summary(eleventh.id.to_string(), on(&line[8]))
        .await
        .unwrap();
    assert_eq!(world.all::<Summary>().len(), 11);
    assert_eq!(world.session(&other.id).summary, None);
    world.audit();
}

#[tokio::test]
async fn deliverables_name_what_exists() {
    let world = World::new().await;
    let (session, other) = (world.root().await, world.root().await);
    let with = |deliverable: Deliverable| NewSummary {
        deliverables: vec![deliverable],
        ..text("done")
    };
    let file = |path: &str, sha256: Option<&str>| Deliverable::File {
        path: path.into(),
        sha256: sha256.map(Into::into),
        size: Some(1),
    };
    let missing: skein_domain::SessionId = "api-99".parse().unwrap();
    let message = |session: &skein_domain::SessionId| Deliverable::Message {
        session: session.clone(),
        message: "m1".into(),
    };
    let bad = [
        (file("../etc/passwd", None), Kind::Misuse),
        (file("/etc/passwd", None), Kind::Misuse),
        (file("a", Some("abc")), Kind::Misuse),
        (message(&missing), Kind::NotFound),
        (
            Deliverable::Summary {
                session: other.id.clone(),
            },
            Kind::NotFound,
        ),
        (
            Deliverable::Summary {
                session: session.id.clone(),
            },
            Kind::NotFound,
        ),
        (
            Deliverable::Blob {
                reference: String::new(),
                media_type: None,
            },
            Kind::Misuse,
        ),
    ];
    let id = || session.id.to_string();
    for (deliverable, expected) in bad {
        let result = world
            .requests()
            .sessions()
            .set_summary(id(), with(deliverable.clone()))
            .await;
        assert_eq!(kind(&result), Some(expected), "{deliverable:?}");
    }
    assert_eq!(world.all::<Summary>(), vec![]);

    world
        .requests()
        .sessions()
        .set_summary(other.id.to_string(), text("base"))
        .await
        .unwrap();
    let all = vec![
        file("src/main.rs", Some(&"a".repeat(64))),
        message(&other.id),
        Deliverable::Summary {
            session: other.id.clone(),
        },
        Deliverable::Blob {
            reference: "s3://b/k".into(),
            media_type: Some("text/plain".into()),
        },
    ];
    let new = NewSummary {
        deliverables: all.clone(),
        key_decisions: vec!["one".into()],
        ..text("done")
    };
    world
        .requests()
        .sessions()
        .set_summary(id(), new)
        .await
        .unwrap();
    let kept = world.requests().sessions().summary(id()).await.unwrap();
    assert_eq!((kept.deliverables, kept.key_decisions.len()), (all, 1));
}

#[tokio::test]
async fn an_ended_session_can_be_summarized_and_an_archived_one_not() {
    let world = World::new().await;
    let (ended, archived) = (world.root().await, world.root().await);
    world.end(&archived.id).await;
    world.end(&ended.id).await;
    let settings = ProjectUpdate {
        max_ended: Some(1),
        ..ProjectUpdate::default()
    };
    world.set(settings).await;
    let gone = world.run_retention().await;
    assert_eq!(gone, vec![archived.id.clone()]);
    let requests = world.requests();
    requests
        .sessions()
        .set_summary(ended.id.to_string(), text("done"))
        .await
        .unwrap();
    let error = requests
        .sessions()
        .set_summary(archived.id.to_string(), text("done"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.to_string().contains("summar"), "{error}");
}
