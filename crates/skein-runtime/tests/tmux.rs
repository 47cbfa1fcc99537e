//! The tmux runtime passes the suite, and what only tmux can get wrong.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

#[path = "tmux/attach.rs"]
mod attach;
#[path = "tmux/home.rs"]
mod home;
#[path = "tmux/trouble.rs"]
mod trouble;

use home::fresh;

skein_runtime::runtime_conformance!(fresh);
