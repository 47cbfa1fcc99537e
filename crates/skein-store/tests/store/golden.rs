//! The disk forms stay readable: each golden file is decoded and written again, byte for byte.
//!
//! A file here is edited only while no build was released that wrote it. From then on a change of form gets files of
//! its own beside these.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use skein_domain::{Delivery, PhaseName, Project, Receipt, Saga, Session, Summary, Thread, Token};
use skein_store::Entity;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn text(name: &str) -> String {
    let text = fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
    text.trim_end().to_owned()
}

fn check<E: Entity>(name: &str) -> E {
    let entity = E::decode(&text(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(entity.encode().unwrap(), text(name), "{name}");
    entity
}

const SAGAS: [&str; 7] = [
    "queued",
    "doing",
    "undoing",
    "leftover",
    "handoff",
    "broadcast",
    "fork",
];

const OTHERS: [&str; 15] = [
    "session-forked",
    "project",
    "project-removed",
    "thread",
    "thread-archived",
    "summary",
    "token",
    "token-run",
    "token-revoked",
    "session-gear",
    "session-gear-bare",
    "session-gear-gone",
    "session-gear-given",
    "session-gear-spent",
    "receipt-answer",
];

fn receipt_file(state: Delivery) -> String {
    format!("receipt-{}", state.as_str().replace('_', "-"))
}

fn session_file(phase: PhaseName) -> String {
    format!("session-{}", phase.as_str().replace('_', "-"))
}

#[test]
fn sessions_of_every_phase_are_read_and_written_alike() {
    for phase in PhaseName::ALL {
        let session: Session = check(&session_file(phase));
        assert_eq!(session.phase.name(), phase);
    }
}

#[test]
fn records_are_read_and_written_alike() {
    assert!(check::<Project>("project").index().live);
    assert!(!check::<Project>("project-removed").index().live);
    assert!(check::<Thread>("thread").index().live);
    assert!(!check::<Thread>("thread-archived").index().live);
    assert_eq!(check::<Summary>("summary").deliverables.len(), 4);
    assert!(check::<Token>("token").index().live);
    let run = check::<Token>("token-run").rights;
    assert!(run.contains(skein_domain::Right::Run));
    assert!(!check::<Token>("token-revoked").index().live);
}

#[test]
fn forks_are_read_and_written_alike() {
    let from = check::<Session>("session-forked").forked_from.unwrap();
    assert_eq!(from.session.as_str(), "api-3");
    assert_eq!(from.message.unwrap().as_str(), "msg-12");
}

#[test]
fn gear_and_sagas_are_read_and_written_alike() {
    let session = check::<Session>("session-gear");
    assert!(session.has_run() && session.check_free().is_err());
    assert!(!check::<Session>("session-gear-bare").has_run());
    assert!(!check::<Session>("session-gear-gone").index().live);
    check::<Session>("session-gear-given");
    let spent = check::<Session>("session-gear-spent").gear.unwrap().spent;
    assert_eq!(spent.map(|s| (s.run, s.sum().cost_micros)), Some((1, 9)));
    for name in SAGAS {
        let saga = check::<Saga>(&format!("saga-{name}"));
        assert_eq!((saga.version(), saga.index().live), (3, true));
        assert_eq!(saga.index().parent.as_deref(), Some("api-7"));
    }
}

#[test]
fn receipts_of_every_state_are_read_and_written_alike() {
    for state in Delivery::ALL {
        let receipt: Receipt = check(&receipt_file(state));
        assert_eq!(receipt.state, state);
        assert_eq!(receipt.index().live, receipt.is_open());
    }
    let answer = check::<Receipt>("receipt-answer");
    assert_eq!(answer.question.map(|q| q.options.len()), Some(2));
}

#[test]
fn forms_of_a_newer_build_are_refused() {
    for name in ["session-gear", "receipt-written", "saga-doing"] {
        let text = text(name).replacen("\"v\":1", "\"v\":2", 1);
        let read = match name.split('-').next() {
            Some("session") => Session::decode(&text).map(|_| ()),
            Some("receipt") => Receipt::decode(&text).map(|_| ()),
            _ => Saga::decode(&text).map(|_| ()),
        };
        assert!(read.unwrap_err().to_string().contains("form"), "{name}");
    }
}

#[test]
fn no_golden_file_is_left_unread() {
    let found: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        // The folder of the events is read by `golden_events`.
        .filter(|path| path.is_file())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let known = OTHERS
        .iter()
        .map(ToString::to_string)
        .chain(PhaseName::ALL.map(session_file))
        .chain(Delivery::ALL.map(receipt_file))
        .chain(SAGAS.map(|name| format!("saga-{name}")));
    assert_eq!(found, known.collect());
}
