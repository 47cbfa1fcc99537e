//! Holds an agent's process and its terminal, and outlives the daemon.
//!
//! [`runtime`] is the contract of a runtime. The pty holder implements it: [`pty`] is the client, [`holder`] the
//! process. [`view`] shows a run in a user's terminal, [`tmux`] in windows.
//!
//! Not here: what an agent is, when a message may be sent, what an exit means for a session. A runtime moves bytes and
//! reports what it observes.
//!
//! Start with [`runtime`].

mod cgroup;
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
pub mod window;

pub use cgroup::Groups;
pub use error::Error;
pub use process::{MARK, end_marked, reset_child_signal};
pub use runtime::{
    BoxFuture, FoundRun, Grace, InputResult, Launch, Result, Run, RunObservation, Runtime, Screen,
    Size, TerminalInput,
};
