//! The ledger's file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use skein_domain::{Actor, Fact, TenantId, Timestamp};
use skein_store::Store;
use skein_store_sqlite::{SCHEMA, SqliteBackend, inspect};

use super::Subject;
use super::cases::refusals;

const LEDGER: Subject = Subject {
    schema: SCHEMA,
    open: |path| Ok(Box::new(SqliteBackend::open(path)?)),
    fill: |path| {
        let store = open(path);
        append_events(&store, 200);
        store.close();
    },
    inspect,
};

refusals!(LEDGER);

fn open(path: &Path) -> Store {
    Store::new(Arc::new(SqliteBackend::open(path).unwrap()))
}

fn append_events(store: &Store, events: u64) {
    let tenant = store.tenant(TenantId::default_tenant());
    for n in 1..=events {
        let job = move |w: &mut skein_store::Writer<'_>| {
            w.append_event(&Fact::EventsSealed {
                from: n,
                to: n,
                dropped: false,
            })
        };
        tenant
            .write_blocking(&Actor::System, Timestamp::from_micros(1), job)
            .unwrap();
    }
}

#[test]
fn the_log_beside_it_is_private_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("skein.db"));
    append_events(&store, 1);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o777,
            0o600,
            "{entry:?}"
        );
    }
}
