//! The HTTP API of the daemon.
//!
//! [`app`] builds the routes and their OpenAPI document from the same declarations, so they cannot drift
//! apart. [`serve`] takes connections on the Unix socket and, if asked, on loopback TCP. `door` decides
//! who a request comes from, and [`access`] says who may make it, before any handler runs (L15). Handlers turn wire types into domain types,
//! call `LedgerRequests`, and render the answer; they decide nothing.

pub mod access;
pub mod app;
mod door;
mod error;
mod extract;
mod render;
mod route;
pub mod serve;

pub use app::{App, AppOptions, openapi};
pub use door::Peer;
pub use error::{exit_status, object as error_object};
