//! Typed client of the daemon's HTTP API: one method per route, over a Unix socket or plain TCP.
//!
//! A mutating call carries an idempotency [`Key`], so a connection that breaks in the middle of one is tried
//! once more with the same key and cannot act twice. Nothing here spawns a task: a call drives its own
//! connection, so the client works on any tokio runtime and dropping a future abandons the call.
//!
//! Not here: starting the daemon, reading the environment, rendering. First place to read: [`Client`].

mod call;
mod endpoint;
mod error;
mod fleet;
mod key;
mod listen;
mod query;
mod sse;
mod stream;
mod transcript;
mod transport;

pub use call::{Client, Events, Sessions, Threads};
pub use endpoint::{Endpoint, Identity};
pub use error::{Error, Kind};
pub use key::Key;
pub use listen::{Listening, Said};
pub use query::Page;
pub use stream::{EventStream, Link};
pub use transcript::{Download, Hits, Messages};
