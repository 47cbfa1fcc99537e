//! What holds an agent's process and its terminal, and outlives the daemon.
//!
//! Purpose: one trait for runtimes ([`runtime`]), its conformance suite, and the runtimes themselves: the
//! built-in pty holder ([`pty`] is its client, [`holder`] the process) and tmux.
//!
//! Not here: what an agent is, when a message may be sent, what an exit means for a session. A runtime moves
//! bytes and tells what it saw.
//!
//! Read [`runtime`] first.

mod cgroup;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
mod folder;
mod frame;
pub mod holder;
pub mod log;
pub mod presence;
mod process;
pub mod pty;
pub mod runtime;
pub mod tmux;
pub mod view;

pub use cgroup::Groups;
pub use error::Error;
pub use process::{MARK, end_marked};
pub use runtime::{
    Found, Grace, Input, Launch, Result, Run, Runtime, Screen, Sight, Size, Taken, Task,
};
