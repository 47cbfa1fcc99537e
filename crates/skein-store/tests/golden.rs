//! The disk forms stay readable: each golden file is decoded and written again, byte for byte.
//!
//! A file here is never edited. When a form changes, the new version gets files of its own beside these.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use skein_domain::{Handoff, PhaseName, Project, Receipt, Session, Summary, Thread, Token};
use skein_store::Entity;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn check<E: Entity>(name: &str) -> E {
    let text = fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
    let entity = E::decode(text.trim_end()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(entity.encode().unwrap(), text.trim_end(), "{name}");
    entity
}

const OTHERS: [&str; 10] = [
    "project-v1",
    "project-removed-v1",
    "thread-v1",
    "thread-archived-v1",
    "summary-v1",
    "receipt-v1",
    "token-v1",
    "token-revoked-v1",
    "handoff-single-v1",
    "handoff-broadcast-v1",
];

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
    assert_eq!(check::<Receipt>("receipt-v1").version(), 1);
    assert!(check::<Token>("token-v1").index().live);
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
fn no_golden_file_is_left_unread() {
    let found: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let known = OTHERS.iter().map(ToString::to_string);
    assert_eq!(
        found,
        known.chain(PhaseName::ALL.map(session_file)).collect()
    );
}
