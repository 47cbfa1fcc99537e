//! Runtimes.

pub mod error;
pub mod runtime;
