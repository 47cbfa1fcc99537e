//! The holder: one small process that owns one run's terminal and agent, and outlives the daemon.
//!
//! Started twice over: the first process drops whatever it inherited, starts the second and goes, so that
//! nobody has to bury a holder. The second reads what to start from its standard input, says on its standard
//! output how that went, and is on its own from then on. No async runtime, no threads, one poll loop.
//!
//! Read `holder/hold.rs` for the loop.

mod client;
mod draw;
mod hold;
mod input;
mod start;
mod terminal;
mod tree;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

pub(crate) use draw::MODES_OFF;
pub(crate) use start::{Report, Spec};

const HOLD: &str = "--hold";

/// Runs as a holder; `args` are the arguments after the word that chose this mode. Gives the exit code.
pub fn main(args: &[OsString]) -> i32 {
    if args.first().is_some_and(|arg| arg == HOLD) {
        return start::main();
    }
    // The words before `args` chose this mode; they are said again.
    let all: Vec<OsString> = std::env::args_os().collect();
    let words = all.get(1..all.len() - args.len()).unwrap_or_default();
    // What a careless parent left open ends here: neither the holder nor the agent gets it.
    close_fds::set_fds_cloexec(3, &[]);
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(all.first().cloned().unwrap_or_else(|| "skein".into()))
        .args(words)
        .arg(HOLD)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::null());
    match command.spawn() {
        Ok(_) => 0,
        Err(error) => start::report(&Report::Failed {
            why: format!("cannot start the holder: {error}"),
        }),
    }
}
