//! What the criterion bench and the load driver share: the physical limit and the ledger in this process.
//!
//! Every number is taken as a ratio to its limit or peer, measured in the same run on the same disk, so that
//! a slow or busy machine changes both. First place to read: `src/main.rs`, the load driver.

pub mod ledger;
pub mod raw;
