//! The in-memory backend keeps the contract.

use std::sync::Arc;

use skein_store_conformance::Subject;
use skein_store_conformance::memory::MemoryBackend;

fn fresh() -> Subject {
    Subject::new(Arc::new(MemoryBackend::new()), |same| same)
}

skein_store_conformance::store_conformance!(fresh);
