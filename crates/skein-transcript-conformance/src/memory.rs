//! Strict in-memory tiers: for tests, and for reading the contracts as code.
//!
//! They are stricter than real ones: they check what [`skein_transcript::hot`] and [`skein_transcript::cold`] ask of
//! callers, and a breach is [`skein_transcript::Error::Bug`].

mod cold;
mod hot;

pub use cold::MemoryCold;
pub use hot::MemoryHot;
