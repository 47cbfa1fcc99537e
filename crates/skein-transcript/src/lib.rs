//! Transcripts: durable, forkable, tiered.
//!
//! - [`message`], [`state`], [`usage`]: the contents of a transcript, within the bounds of [`json`]. [`record`] has
//!   their stored forms, and reads what it can of entries that cannot be decoded.
//! - [`chain`]: strands and lineages, which make a fork cost the same at any length (L11).
//! - [`hot`] and [`cold`]: the contracts of the two tiers. Small, untyped, and all that a tier implements.
//!   [`cipher`] wraps objects for the cold tier.
//! - [`service`]: the API for one tenant (L7): append, read, fork, rewind, flush, hydrate.
//! - [`search`]: finds messages by their words, for one tenant; [`index`] is the contract of the search index.
//! - [`repair`] and [`compaction`]: what a model sees. [`zeitlich`] reads and writes that system's snapshots.
//!
//! Not here: clocks, databases, networks, and the decision when to flush.
//! Start with [`chain`].

pub mod chain;
pub mod cipher;
pub mod cold;
pub mod compaction;
pub mod error;
pub mod hot;
pub mod id;
pub mod index;
pub mod json;
pub mod message;
mod objects;
pub mod record;
pub mod repair;
pub mod search;
pub mod service;
pub mod state;
pub mod usage;
pub mod zeitlich;

/// For implementations of the tiers and the index, whose calls are made behind `dyn`.
pub use async_trait::async_trait;

pub use cold::Cold;
pub use error::{Error, Result};
pub use hot::Hot;
pub use id::{MessageId, RunNumber, TranscriptId};
pub use index::SearchIndex;
pub use message::{Block, Message, MessageRole, PositionedMessage};
pub use search::Searchable;
pub use service::{HistoryPoint, Tiers, Transcript, Transcripts, WriteContext};
pub use state::{StateSlice, VersionedState};
pub use usage::TokenUsage;
