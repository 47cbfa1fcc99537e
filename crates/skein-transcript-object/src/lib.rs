//! The cold tier of transcripts, in objects: a [`Folder`] on this machine, or a [`Bucket`] of S3, Google
//! Cloud Storage or Azure (features `s3`, `gcs`, `azure`).
//!
//! Both promise what [`skein_transcript::cold`] asks: conditions hold between processes and machines, and
//! what was answered with `Ok` is durable. Not here: what objects hold, and encryption; the service above
//! does both. Nothing here reads the environment: [`Settings`] are given everything.
//! First place to read: [`Settings::open`].

#[cfg(feature = "remote")]
mod bucket;
mod folder;
mod io;
mod name;
mod probe;
mod settings;

#[cfg(feature = "remote")]
pub use bucket::Bucket;
pub use folder::Folder;
pub use probe::probe;
pub use settings::{Addressing, Identity, Location, Provider, Settings};

/// No object of ours is near this size, so one that is was not put by us.
const LARGEST: u64 = 256 * 1024 * 1024;
