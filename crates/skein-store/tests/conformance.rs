//! The in-memory backend keeps the contract.

use std::sync::Arc;

use skein_store::Store;
use skein_store::conformance::Subject;
use skein_store::memory::MemoryBackend;

fn fresh() -> Subject {
    Subject::new(Store::new(Arc::new(MemoryBackend::new())), |same| same)
}

skein_store::store_conformance!(fresh);
