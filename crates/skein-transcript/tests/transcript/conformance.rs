//! The in-memory tiers keep their contracts, and the service keeps its word on them.

use std::sync::Arc;

use skein_transcript::{Cold, Hot};
use skein_transcript_conformance::memory::{MemoryCold, MemoryHot};
use skein_transcript_conformance::{Pair, Subject};

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
    skein_transcript_conformance::hot_conformance!(super::hot);
}

mod cold_tier {
    skein_transcript_conformance::cold_conformance!(super::cold);
}

mod service {
    skein_transcript_conformance::transcript_conformance!(super::pair);
}

/// What forks cost is up to the service, not to a tier; every tier is asked at a lesser depth.
#[test]
fn heavy_l11_a_thousand_forks_deep_reads_what_it_reads() {
    skein_transcript_conformance::cases::transcript::reads_what_it_reads_below_forks(
        &mut pair(),
        1_000,
    );
}
