//! The holder: one small process that owns one run's terminal and agent, and outlives the daemon.
//!
//! Three processes start one after the other. The launcher drops whatever it inherited, starts the guard and
//! exits, so that the daemon is nobody's parent. The guard makes the run's cgroup where it can, starts the holder
//! and waits: should the holder be killed, everything below it becomes the guard's, which ends it. The holder reads
//! what to start from its standard input, reports on its standard output how that went, and is on its own from
//! then on. No async runtime, no threads, one poll loop.
//!
//! Read `holder/hold.rs` for the loop.

mod client;
mod draw;
mod guard;
mod hold;
mod input;
mod start;
mod terminal;
mod tree;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::process::HOLDS;

pub(crate) use draw::MODES_OFF;
pub(crate) use guard::{guard, prepare as prepare_guard};
pub(crate) use start::{Report, Spec};

const GUARD: &str = "--guard";
const HOLD: &str = "--hold";

/// Runs as a holder; `args` are the arguments after the word that chose this mode: where runs get cgroups, the
/// run's mark and its folder, before them the stage. Gives the exit code.
pub fn main(args: &[OsString]) -> i32 {
    match args {
        [stage, group, _folder] if stage == HOLD => start::main(group),
        [stage, groups, mark, folder] if stage == GUARD => guard::main(groups, mark, folder),
        [groups, mark, folder] => launch(groups, mark, folder),
        _ => start::report(&Report::Failed {
            why: "a holder is started by the daemon".into(),
        }),
    }
}

fn launch(groups: &OsStr, mark: &OsStr, folder: &OsStr) -> i32 {
    // What a careless parent left open ends here: neither the holder nor the agent gets it.
    close_fds::set_fds_cloexec(3, &[]);
    // Another first word than the holder's, so that one who looks for holders by name tells them apart.
    let guard = again(
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

/// This program once more, in the same mode. The environment is how a holder and a guard are found.
fn again(name: &str, args: &[&OsStr], mark: &OsStr) -> Command {
    let mode: Vec<OsString> = std::env::args_os().skip(1).take(1).collect();
    let mut command = Command::new("/proc/self/exe");
    // The test's own program has no word for the mode.
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
