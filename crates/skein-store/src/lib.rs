//! The durable ledger: one place where records change, always together with the events that tell of it.
//!
//! - [`backend`]: what a database must do for us. Small, untyped, and the only thing a backend implements.
//! - [`tenant`]: the handle for one tenant. There is no query without one (L7).
//! - [`access`]: typed reads and compare-and-set writes inside a transaction (L1). Phase changes outside
//!   the domain's table are refused here, whatever the caller believes.
//! - [`event`]: the gapless, hash-chained log (L9); [`seal`] folds its old end without breaking the chain.
//! - [`feed`]: tells subscribers that something was committed.
//! - [`memory`]: the strict in-memory backend. SQLite is its own crate.
//!
//! Not here: decisions (`skein-domain`), sagas and retries (`skein-engine`).

pub mod access;
pub mod backend;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod entity;
pub mod error;
pub mod event;
#[cfg(feature = "conformance")]
pub mod fault;
pub mod feed;
pub mod memory;
pub mod record;
pub mod reply;
pub mod seal;
pub mod tenant;

pub use access::{DamagedRecord, Page, Query, Reader, Writer};
pub use backend::Backend;
pub use entity::Entity;
pub use error::Error;
pub use event::{Event, Verdict};
pub use feed::{Feed, Subscription};
pub use tenant::{Store, TenantStore};
