//! Runs held by tmux.
