//! What events say stays what readers of them know: each golden file is the data of one kind of event.
//!
//! A file here is never edited. A field may be added under a new name; none changes its meaning.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use skein_domain::SagaStep;
use skein_domain::fact::{RewindTarget, SagaChange, SessionChange};
use skein_domain::{
    Actor, Delivery, ForkedFrom, Kind, Limit, Purpose, Reason, ReceiptId, RuntimeKind, SagaId,
    SagaKind, Session, TenantId, Timestamp, Usage, WorkspaceKind,
};
use skein_store::{Entity, Event, Store};
use skein_store_conformance::memory::MemoryBackend;

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn session() -> Session {
    let text = fs::read_to_string(golden().join("session-gear.json")).unwrap();
    Session::decode(text.trim_end()).unwrap()
}

fn saga(kind: SagaKind, change: SagaChange) -> SessionChange {
    SessionChange::Saga {
        saga: "sag_0123456789abcdef".parse::<SagaId>().unwrap(),
        kind,
        change,
    }
}

fn reason(text: &str) -> Reason {
    text.parse().unwrap()
}

fn receipt() -> ReceiptId {
    "rcp_0123456789abcdef".parse().unwrap()
}

fn of_sagas() -> Vec<SessionChange> {
    let spawn = |change| saga(SagaKind::Spawn, change);
    vec![
        spawn(SagaChange::Queued),
        spawn(SagaChange::Began {
            step: SagaStep::Launch,
        }),
        spawn(SagaChange::Failed {
            step: SagaStep::Launch,
            kind: Kind::Refused,
            why: reason("no such program"),
        }),
        spawn(SagaChange::UndoFailed {
            step: SagaStep::Workspace,
            why: reason("the folder is busy"),
        }),
        saga(
            SagaKind::Kill,
            SagaChange::LeftOut {
                step: SagaStep::Remove,
                why: reason("the folder is busy"),
            },
        ),
        spawn(SagaChange::Done),
        spawn(SagaChange::Undone),
    ]
}

fn of_workspaces() -> Vec<SessionChange> {
    vec![
        SessionChange::WorkspaceReady {
            kind: WorkspaceKind::Worktree,
            path: "/managed/api-7".into(),
            branch: Some("skein/api-7".into()),
        },
        SessionChange::WorkspaceRemoved {
            path: "/managed/api-7".into(),
        },
        SessionChange::BackedUp {
            name: "refs/skein/backup/api-7/1".into(),
            commit: "0b".repeat(20),
        },
        SessionChange::Adopted {
            path: "/home/ann/by-hand".into(),
        },
    ]
}

fn of_runs() -> Vec<SessionChange> {
    vec![
        SessionChange::Launched {
            run: 2,
            runtime: RuntimeKind::Pty,
            fresh: Some(reason("nothing to resume")),
        },
        SessionChange::Sent {
            receipt: receipt(),
            purpose: Purpose::Message,
            from: Some("api-3".parse().unwrap()),
            bytes: 17,
        },
        SessionChange::Delivered {
            receipt: receipt(),
            state: Delivery::Unknown,
            note: Some(reason("its agent is gone")),
        },
        SessionChange::Interrupted { run: 2 },
        SessionChange::Named {
            native: "c0ffee-1".parse().unwrap(),
        },
        SessionChange::UsageRead {
            usage: Usage {
                input_tokens: 1200,
                output_tokens: 340,
                cost_micros: 5600,
            },
        },
        SessionChange::Limited(Limit {
            until: Timestamp::from_micros(1_790_000_000_000_000),
            text: Some("usage limit reached".parse().unwrap()),
        }),
        SessionChange::LimitOver { resumed: true },
    ]
}

fn of_transcripts() -> Vec<SessionChange> {
    let fork = || "api-9".parse().unwrap();
    vec![
        SessionChange::ForkBegan { fork: fork() },
        SessionChange::ForkUndone {
            fork: fork(),
            why: "the daemon stopped in between".into(),
        },
        SessionChange::Forked(ForkedFrom {
            session: "api-3".parse().unwrap(),
            message: Some("msg-12".parse().unwrap()),
        }),
        SessionChange::TranscriptRewound {
            to: RewindTarget::After("msg-12".parse().unwrap()),
            dropped: 3,
        },
        SessionChange::TranscriptRewound {
            to: RewindTarget::Before("msg-13".parse().unwrap()),
            dropped: 2,
        },
        SessionChange::TranscriptFlushed {
            entries: 7,
            segments: 1,
            kept_hot: false,
        },
        SessionChange::TranscriptHydrated,
        SessionChange::TranscriptImported {
            format: "zeitlich",
            added: 5,
            already: 1,
        },
    ]
}

/// The events of all the changes, as a store wrote them.
fn events() -> Vec<Event> {
    let store = Store::new(Arc::new(MemoryBackend::new()));
    let tenant = store.tenant(TenantId::default_tenant());
    let changes = [of_sagas(), of_workspaces(), of_runs(), of_transcripts()].concat();
    tenant
        .write_blocking(&Actor::System, Timestamp::from_micros(1), move |writer| {
            changes
                .iter()
                .try_for_each(|change| writer.append_event(&change.clone().of(&session())))
        })
        .unwrap();
    let events = tenant.read_blocking(|r| r.events(0, None, 1000)).unwrap();
    store.close();
    events
}

/// The file of an event: its kind, and which of its forms it has.
fn name(event: &Event) -> String {
    match parsed(&event.data).get("reply") {
        Some(_) => format!("{}-reply", event.kind),
        None => event.kind.clone(),
    }
}

#[test]
fn events_say_what_they_said() {
    for event in events() {
        let file = golden().join(format!("events/{}.json", name(&event)));
        let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", event.kind));
        // As values: the order of the fields is no part of the interface.
        let (said, expected) = (parsed(&event.data), parsed(&text));
        assert_eq!(said, expected, "{}", event.kind);
        let place = [event.project, event.thread, event.session];
        let home = session();
        assert_eq!(
            place.map(Option::unwrap),
            [
                home.project.to_string(),
                home.thread.to_string(),
                home.id.to_string()
            ]
        );
    }
}

#[test]
fn l14_no_event_holds_a_variable_or_a_command() {
    let launch = session().gear.unwrap().launch;
    let command = launch.command.unwrap();
    for event in events() {
        assert!(!event.data.contains(command.as_str().trim()), "{event:?}");
        for var in &launch.env {
            assert!(
                !event.data.contains(&format!("{:?}", var.name())),
                "{event:?}"
            );
        }
    }
}

#[test]
fn no_golden_event_is_left_unread() {
    let stem = |entry: fs::DirEntry| entry.path().file_stem().unwrap().to_owned();
    let found: BTreeSet<_> = fs::read_dir(golden().join("events"))
        .unwrap()
        .map(|entry| stem(entry.unwrap()).into_string().unwrap())
        .collect();
    assert_eq!(found, events().iter().map(name).collect());
}
