//! `--runtime tmux`: the holder holds the agent, and a tmux window shows it.
//!
//! The real binary, a real tmux, scripted agents. What holds of a run holds here as with `--runtime pty`, and the other
//! suites claim it; these tests claim what the window adds, and that it can take nothing away.

mod hostile;
mod screen;
mod trouble;
mod window;
