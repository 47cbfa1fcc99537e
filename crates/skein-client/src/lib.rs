//! Typed client of the daemon's HTTP API: one method per route, over a Unix socket or plain TCP.
//!
//! A mutating call carries an [`IdempotencyKey`], so the client can retry a call whose connection broke, and it still acts
//! once. The client spawns no task: a call drives its own connection, so it works on any tokio runtime, and dropping its
//! future abandons the call.
//!
//! Not here: starting the daemon, reading the environment, rendering. Start at `routes.rs`.

mod call;
mod endpoint;
mod error;
mod follow;
mod key;
mod query;
mod routes;
mod sse;
mod stream;
mod transcript;
mod transport;

pub use call::{Client, ResponseFuture};
pub use endpoint::{Endpoint, Identity};
pub use error::Error;
pub use follow::{TranscriptChange, TranscriptStream};
pub use key::IdempotencyKey;
pub use query::Page;
pub use routes::{Events, Messages, Sessions, Threads, TranscriptSearch};
pub use skein_wire::ErrorKind;
pub use stream::{EventStream, StreamState};
pub use transcript::Download;
