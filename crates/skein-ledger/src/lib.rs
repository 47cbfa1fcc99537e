//! Requests on records: projects, threads, sessions, ownership, budgets, gates, tokens and the rules of
//! transcripts. Works through the store's traits and names no backend.
//!
//! A [`LedgerRequests`] serves one caller of one tenant. It is the core of families of requests, such as
//! [`requests::ProjectRequests`]: each of their methods is one request, checked against the caller's role, decided by
//! `skein-domain`, and written with its events in one transaction. A request of several steps is a saga: journalled in
//! that transaction, then interpreted ([`saga`]). The ledger interprets handoffs, broadcasts and forks; `skein-fleet`
//! interprets the sagas of sessions with agents.
//!
//! First places to read: [`requests`] (what a request goes through), [`spawn`], [`handoff`], [`transcript`].

pub mod access;
mod audit;
pub mod caller;
pub mod credential;
pub mod ending;
pub mod error;
pub mod events;
mod filter;
pub mod handoff;
pub mod ledger;
mod managed;
mod merge;
pub mod project;
pub mod receipt;
mod recent;
pub mod requests;
mod retention;
pub mod saga;
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

pub use access::{Access, RunAccess};
pub use caller::{Answer, Caller, Idempotency, RequestOutcome};
pub use credential::CredentialKey;
pub use ending::KillOptions;
pub use error::{DomainPart, Error};
pub use ledger::{Ledger, LedgerParts};
pub use managed::ManagedRoots;
pub use requests::LedgerRequests;
pub use session::SessionKey;
pub use source::{Clock, FaultPoints, IdSource, NoFaultPoints, SystemClock, SystemIds};
pub use tasks::TaskGroup;
pub use tree::{Node, Tree};
