//! The SQLite backend keeps the contract.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::sync::Arc;

use skein_store::Store;
use skein_store::conformance::Subject;
use skein_store_sqlite::SqliteBackend;

fn fresh() -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    let open = move || Store::new(Arc::new(SqliteBackend::open(&path).unwrap()));
    Subject::new(open(), move |old| {
        // The folder lives as long as the way back to it.
        let _ = &folder;
        old.close();
        open()
    })
}

skein_store::store_conformance!(fresh);
