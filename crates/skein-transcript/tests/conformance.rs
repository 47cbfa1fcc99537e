//! The in-memory tiers keep their contracts, and the service keeps its word on them.

use std::sync::Arc;

use skein_transcript::conformance::{Pair, Subject};
use skein_transcript::memory::{MemoryCold, MemoryHot};
use skein_transcript::{Cold, Hot};

fn hot() -> Subject<dyn Hot> {
    Subject::new(Arc::new(MemoryHot::default()), |same| same)
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
    skein_transcript::hot_conformance!(super::hot);
}

mod cold_tier {
    skein_transcript::cold_conformance!(super::cold);
}

mod service {
    skein_transcript::transcript_conformance!(super::pair);
}
