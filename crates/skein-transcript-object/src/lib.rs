//! The cold tier of transcripts as objects: in a [`Folder`] of this machine, or a [`Bucket`] of S3, Google Cloud
//! Storage or Azure.
//!
//! Both keep the contract of [`skein_transcript::cold`]: conditions hold between processes and machines, and an
//! acknowledged object is durable. Not here: the content of objects and encryption, which belong to the service.
//! Nothing here reads the environment: [`BucketSettings`] contain everything.
//! Start with [`BucketSettings::open`].

mod bucket;
mod folder;
mod io;
mod name;
mod probe;
mod settings;

pub use bucket::Bucket;
pub use folder::Folder;
pub use probe::probe;
pub use settings::{Addressing, BucketIdentity, BucketProvider, BucketSettings, Location};

/// Skein writes no object near this size, so a larger one is foreign.
const LARGEST: u64 = 256 * 1024 * 1024;
