//! Transcripts in SQLite keep the contracts of a hot tier and of an index, and the service keeps its word on them.

use std::path::PathBuf;
use std::sync::Arc;

use skein_store_sqlite::transcript::{SqliteHot, SqliteIndex};
use skein_transcript::{Cold, Hot, SearchIndex};
use skein_transcript_conformance::memory::MemoryCold;
use skein_transcript_conformance::{Pair, Subject};

fn hot() -> Subject<dyn Hot> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transcripts.db");
    let open = |path: &PathBuf| -> Arc<dyn Hot> { Arc::new(SqliteHot::open(path).unwrap()) };
    Subject::new(open(&path), move |old| {
        // The folder lives as long as the way back to it.
        let _ = &folder;
        drop(old);
        open(&path)
    })
}

fn index() -> Subject<dyn SearchIndex> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("search.db");
    let open =
        |path: &PathBuf| -> Arc<dyn SearchIndex> { Arc::new(SqliteIndex::open(path).unwrap()) };
    Subject::new(open(&path), move |old| {
        let _ = &folder;
        drop(old);
        open(&path)
    })
}

fn cold() -> Subject<dyn Cold> {
    Subject::new(Arc::new(MemoryCold::default()), |same| same)
}

fn pair() -> Pair {
    Pair {
        hot: hot(),
        cold: cold(),
    }
}

mod hot_tier {
    skein_transcript_conformance::hot_conformance!(super::hot);
}

mod index_of_words {
    skein_transcript_conformance::index_conformance!(super::index);
}

mod service {
    skein_transcript_conformance::transcript_conformance!(super::pair);
}
