//! The durable ledger: every change of a record is committed together with its events.
//!
//! - [`backend`]: the contract of a database. Small, untyped, and the only trait a backend implements.
//! - [`tenant`]: the handle for one tenant. There is no query without one (L7).
//! - [`access`]: typed reads and compare-and-set writes inside a transaction (L1). It refuses phase changes that
//!   the domain's table forbids.
//! - [`event`]: the gapless, hash-chained log (L9); [`seal`] packs its old events without breaking the chain.
//! - [`feed`]: notifies subscribers of commits.
//!
//! Each backend is its own crate: SQLite, and the strict in-memory backend beside the conformance suite.
//!
//! Not here: decisions (`skein-domain`), sagas and retries (`skein-ledger`).

pub mod access;
pub mod backend;
pub mod entity;
pub mod error;
pub mod event;
pub mod feed;
pub mod record;
pub mod reply;
pub mod seal;
pub mod tenant;

pub use access::{DamagedRecord, Reader, RecordPage, RecordQuery, Writer};
pub use backend::Backend;
pub use entity::Entity;
pub use error::Error;
pub use event::{ChainReport, Event};
pub use feed::{Feed, Subscription};
pub use tenant::{Store, TenantStore};
