//! Transcripts: durable, forkable, tiered.
//!
//! - [`message`], [`state`], [`usage`]: what a transcript holds, within the bounds of [`json`]. [`record`] is how it
//!   is written down, and how entries are read that cannot be decoded.
//! - [`chain`]: strands and lineages, by which a fork costs the same at any length (L11).
//! - [`hot`] and [`cold`]: what the two tiers must do for us. Small, untyped, and all that a tier
//!   implements; [`memory`] has strict ones. [`cipher`] is what wraps objects on their way out.
//! - [`service`]: the way in, for one tenant (L7): append, read, fork, rewind, flush, hydrate.
//! - [`search`]: messages by their words, for one tenant; [`index`] is what it needs for that.
//! - [`repair`] and [`compaction`]: what a model is shown. [`zeitlich`] reads and writes that system's blob.
//!
//! Not here: clocks, databases, networks, and deciding when to flush.
//! First place to read: [`chain`].

pub mod chain;
pub mod cipher;
pub mod cold;
pub mod compaction;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
#[cfg(feature = "conformance")]
pub mod fault;
pub mod hot;
pub mod id;
pub mod index;
pub mod json;
pub mod memory;
pub mod message;
mod objects;
pub mod record;
pub mod repair;
pub mod search;
pub mod service;
pub mod state;
pub mod usage;
pub mod zeitlich;

pub use cold::Cold;
pub use error::{Error, Result};
pub use hot::Hot;
pub use id::{MessageId, Run, TranscriptId};
pub use index::Index;
pub use message::{Block, Message, Placed, Role};
pub use search::Searchable;
pub use service::{By, Point, Tiers, Transcript, Transcripts};
pub use state::{State, Versioned};
pub use usage::Usage;
