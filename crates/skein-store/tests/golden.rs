//! The disk forms stay readable: each golden file is decoded and written again, byte for byte.
//!
//! A file here is never edited. When a form changes, the new version gets files of its own beside these.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use skein_domain::{
    Delivery, Fork, Handoff, PhaseName, Project, Purpose, Receipt, Saga, Session, Summary, Thread,
    Token,
};
use skein_store::Entity;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn text(name: &str) -> String {
    let text = fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
    text.trim_end().to_owned()
}

fn check<E: Entity>(name: &str) -> E {
    let entity = read::<E>(name);
    assert_eq!(entity.encode().unwrap(), text(name), "{name}");
    entity
}

/// For old forms: they are read, and written in the form of today.
fn read<E: Entity>(name: &str) -> E {
    E::decode(&text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

const OTHERS: [&str; 23] = [
    "session-forked-v1",
    "fork-v1",
    "project-v1",
    "project-removed-v1",
    "thread-v1",
    "thread-archived-v1",
    "summary-v1",
    "receipt-v1",
    "token-v1",
    "token-run-v1",
    "token-revoked-v1",
    "handoff-single-v1",
    "handoff-broadcast-v1",
    "session-gear-v2",
    "session-gear-bare-v2",
    "session-gear-gone-v2",
    "session-gear-given-v2",
    "session-gear-spent-v2",
    "receipt-answer-v2",
    "saga-queued-v1",
    "saga-doing-v1",
    "saga-undoing-v1",
    "saga-leftover-v1",
];

fn receipt_file(state: Delivery) -> String {
    format!("receipt-{}-v2", state.as_str().replace('_', "-"))
}

fn session_file(phase: PhaseName) -> String {
    format!("session-{}-v1", phase.as_str().replace('_', "-"))
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
    assert!(check::<Project>("project-v1").index().live);
    assert!(!check::<Project>("project-removed-v1").index().live);
    assert!(check::<Thread>("thread-v1").index().live);
    assert!(!check::<Thread>("thread-archived-v1").index().live);
    assert_eq!(check::<Summary>("summary-v1").deliverables.len(), 4);
    assert!(check::<Token>("token-v1").index().live);
    let run = check::<Token>("token-run-v1").rights;
    assert!(run.contains(skein_domain::Right::Run));
    assert!(!check::<Token>("token-revoked-v1").index().live);
    assert_eq!(
        check::<Handoff>("handoff-single-v1").mode.as_str(),
        "single"
    );
    assert_eq!(
        check::<Handoff>("handoff-broadcast-v1").mode.as_str(),
        "broadcast"
    );
}

#[test]
fn forks_are_read_and_written_alike() {
    let from = check::<Session>("session-forked-v1").forked_from.unwrap();
    assert_eq!(from.session.as_str(), "api-3");
    assert_eq!(from.message.unwrap().as_str(), "msg-12");
    assert_eq!(check::<Fork>("fork-v1").index().parent.unwrap(), "api-7");
}

#[test]
fn gear_and_sagas_are_read_and_written_alike() {
    let session = check::<Session>("session-gear-v2");
    assert!(session.has_run() && session.check_free().is_err());
    assert!(!check::<Session>("session-gear-bare-v2").has_run());
    assert!(!check::<Session>("session-gear-gone-v2").index().live);
    check::<Session>("session-gear-given-v2");
    let spent = check::<Session>("session-gear-spent-v2")
        .gear
        .unwrap()
        .spent;
    assert_eq!(spent.map(|s| (s.run, s.sum().cost_micros)), Some((1, 9)));
    for name in ["queued", "doing", "undoing", "leftover"] {
        let saga = check::<Saga>(&format!("saga-{name}-v1"));
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
    let answer = check::<Receipt>("receipt-answer-v2");
    assert_eq!(answer.question.map(|q| q.options.len()), Some(2));
}

#[test]
fn receipts_of_the_first_form_are_still_read() {
    let old = read::<Receipt>("receipt-v1");
    assert_eq!((old.version(), old.purpose), (1, Purpose::Answer));
    assert_eq!((old.written, &old.from, &old.note), (None, &None, &None));
    assert!(old.is_open());
    let now = old.encode().unwrap();
    assert_eq!(Receipt::decode(&now).unwrap(), old);
}

#[test]
fn forms_of_a_newer_build_are_refused() {
    for (name, was, newer) in [
        ("session-gear-v2", "\"v\":2", "\"v\":3"),
        ("receipt-written-v2", "\"v\":2", "\"v\":3"),
        ("saga-doing-v1", "\"v\":1", "\"v\":2"),
    ] {
        let text = text(name).replacen(was, newer, 1);
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
        .chain(Delivery::ALL.map(receipt_file));
    assert_eq!(found, known.collect());
}
