//! Strict in-memory tiers: for tests, and for reading the contracts as code.
//!
//! They are stricter than real ones: what [`crate::hot`] and [`crate::cold`] ask of callers is checked, and a
//! breach is [`crate::Error::Bug`].

mod cold;
mod hot;

pub use cold::MemoryCold;
pub use hot::MemoryHot;
