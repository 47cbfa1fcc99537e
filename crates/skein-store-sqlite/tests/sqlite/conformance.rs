//! The SQLite backend keeps the contract.

use std::sync::Arc;

use skein_store::Backend;
use skein_store_conformance::Subject;
use skein_store_sqlite::SqliteBackend;

fn fresh() -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skein.db");
    let open = move || -> Arc<dyn Backend> { Arc::new(SqliteBackend::open(&path).unwrap()) };
    Subject::new(open(), move |old| {
        // The folder lives as long as the way back to it.
        let _ = &folder;
        old.close();
        open()
    })
}

skein_store_conformance::store_conformance!(fresh);
