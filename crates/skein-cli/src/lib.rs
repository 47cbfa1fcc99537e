//! The `skein` command: reads input, calls the daemon, renders answers. It also contains the composition root of the
//! daemon (`daemon`).
//!
//! Data goes to stdout, everything else to stderr. Only `env` reads environment variables, and only `output` writes.
//! Start at `cli` (the commands), `app` (how a command line runs), and one `command`.

mod app;
mod budget;
mod cli;
mod command;
mod context;
pub mod daemon;
mod duration;
mod early;
mod env;
pub mod error;
mod exit;
pub mod home;
mod output;
mod pager;
mod presence;
mod progress;
mod settings;
mod settle;
mod signals;
mod start;
mod table;
mod tail;
mod text;
mod view;
mod when;

pub use app::main;
pub use cli::command_tree;
