//! The holder: one small process that owns one run's terminal and agent, and outlives the daemon.
//!
//! Three processes start one after the other. The launcher closes inherited descriptors, starts the guard and exits, so
//! that the daemon has no child processes to wait for. The guard makes the run's cgroup if it can, starts the holder and waits: if the
//! holder is killed, its children become the guard's, which ends them. The holder reads a specification from its
//! standard input, reports the start on its standard output, and is independent from then on. It has no async runtime
//! and no threads, only one poll loop.
//!
//! See `holder/hold.rs` for the loop, and its fields for what a holder owns.

mod client;
mod clients;
mod draw;
mod ending;
mod fork;
mod guard;
mod hold;
mod input;
mod pty;
mod reports;
mod start;
mod terminal;
mod tree;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::process::HOLDS;

pub(crate) use draw::MODES_OFF;
pub(crate) use start::{Report, Spec};

const GUARD: &str = "--guard";
const HOLD: &str = "--hold";

/// Runs as a holder and returns the exit code. `args` are the arguments after the word that selects this mode: the
/// stage, where runs get cgroups, the run's mark and its folder.
pub fn main(args: &[OsString]) -> i32 {
    match args {
        [stage, group, _folder] if stage == HOLD => start::main(group),
        [stage, groups, mark, folder] if stage == GUARD => guard::main(groups, mark, folder),
        [groups, mark, folder] => launch(groups, mark, folder),
        _ => start::report(&Report::Failed {
            why: "only the daemon starts a holder".into(),
        }),
    }
}

fn launch(groups: &OsStr, mark: &OsStr, folder: &OsStr) -> i32 {
    // Descriptors inherited from the parent must not reach the holder or the agent.
    close_fds::set_fds_cloexec(3, &[]);
    // Another process name than the holder's, so that `ps` shows which is which.
    let guard = own_program(
        "skein-guard",
        &[OsStr::new(GUARD), groups, mark, folder],
        mark,
    )
    .spawn();
    match guard {
        Ok(_) => 0,
        Err(error) => start::report(&Report::Failed {
            why: format!("cannot start the guard of the holder: {error}"),
        }),
    }
}

/// This program again, in the same mode. Its environment identifies holders and guards.
fn own_program(name: &str, args: &[&OsStr], mark: &OsStr) -> Command {
    let mode: Vec<OsString> = std::env::args_os().skip(1).take(1).collect();
    let mut command = Command::new("/proc/self/exe");
    // The program of the tests has no word for the mode.
    if mode.first().is_some_and(|word| word == "holder") {
        command.args(mode);
    }
    command
        .arg0(name)
        .args(args)
        .env_clear()
        .env(HOLDS, mark)
        .current_dir("/")
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::null());
    command
}
