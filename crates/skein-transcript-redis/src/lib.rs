//! Hot transcripts in Redis 7 (or Valkey), alone or as a cluster.
//!
//! **One transcript is one key**: a hash with the head, the strands, every entry and the index of ids. So
//! nothing of a transcript can expire, be evicted or be moved to another node without the rest, and any part
//! of it is reached in the time it takes to read that part. Beside it are what is only staged, and the
//! version of the last head where there is expiry ([`Options::ttl`]); all under one hash tag ([`keys`]).
//! Every write is one script, which Redis runs whole and writes to its log whole.
//!
//! - [`options`]: what there is to choose, and what each choice costs.
//! - [`RedisHot`]: the tier. The scripts are in `lua/`; `lua/commit.lua` tells the fields of the hash.
//!
//! Not here: TLS (a proxy in front gives it), replicas (a failover may lose the last writes: Redis replicates
//! behind the answer), and deciding when to flush.
//! First place to read: `lua/commit.lua`.

mod check;
mod failure;
pub mod keys;
mod link;
mod list;
pub mod options;
mod scripts;
mod tier;

pub use options::{Durability, Options};
pub use tier::RedisHot;
