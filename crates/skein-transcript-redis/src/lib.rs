//! Hot transcripts in Redis 7 (or Valkey), alone or as a cluster.
//!
//! **One transcript is one key**: a hash with the head, the strands, every entry and the index of ids. So no part of a
//! transcript can expire, be evicted or move to another node without the rest, and reading a part costs only that
//! part. Separate keys contain staged entries and, with expiry ([`RedisOptions::ttl`]), the version of the last head; all
//! share one hash tag ([`keys`]). Every write is one script, which Redis runs and logs as a whole.
//!
//! - [`options`]: the choices, and what each one costs.
//! - [`RedisHot`]: the tier. The scripts are in `lua/`; `lua/commit.lua` describes the fields of the hash.
//!
//! Not here: TLS (use a proxy), replicas (a failover may lose the last writes, because Redis replicates after the
//! answer), and the decision when to flush.
//! Start with `lua/commit.lua`.

mod check;
mod failure;
pub mod keys;
mod link;
mod list;
pub mod options;
mod scripts;
mod tier;

pub use options::{Durability, RedisOptions};
pub use tier::RedisHot;
