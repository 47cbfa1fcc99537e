//! Carries out what people and agents ask for, through the store's traits; names no backend.
//!
//! A [`Desk`] is where one caller of one tenant is served: every method is one request, checked against
//! the caller's role, decided by `skein-domain`, and written with its events in one transaction.
//! A handoff takes two transactions with work between them and is therefore a saga ([`handoff`]).
//!
//! Conversations are kept by [`transcript`]. Sessions with agents are the [`fleet`]'s: sagas, keepers, delivery.
//!
//! First places to read: [`desk`] (what a request goes through), [`spawn`], [`handoff`], [`fleet`].

pub mod access;
pub mod caller;
pub mod credential;
pub mod desk;
mod ending;
pub mod engine;
pub mod error;
pub mod events;
pub mod fleet;
pub mod handoff;
mod merge;
pub mod project;
mod recent;
mod retention;
pub mod session;
pub mod source;
pub mod spawn;
pub mod summary;
pub mod tasks;
pub mod thread;
pub mod token;
pub mod transcript;
mod tree;
pub mod turn;
mod walls;

pub use access::{Access, RunAccess};
pub use caller::{Answer, Caller, Idempotency, Outcome};
pub use credential::CredentialKey;
pub use desk::Desk;
pub use ending::KillOrder;
pub use engine::Engine;
pub use error::Error;
pub use fleet::{Fleet, FleetParts};
pub use handoff::Provisioner;
pub use source::{Clock, Ids, SystemClock, SystemIds};
pub use tasks::Tasks;
pub use tree::{Node, Tree};
