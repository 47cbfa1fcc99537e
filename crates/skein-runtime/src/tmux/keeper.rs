//! The keeper: the small process in a pane that holds the agent.
//!
//! It gives the agent a terminal of its own and stands between that and the pane: one poll loop, no async
//! runtime. When the pane goes (the server was killed), the keeper goes with it and says nothing: its guard ends
//! what it left, and who looks finds its lock free.

mod guard;
mod last;
mod relay;
mod start;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bridge;
use super::folder::{self, Failed, Folder, Order};
use crate::holder;
use crate::process::HOLDS;
use relay::Relay;

const GUARD: &str = "--guard";
const KEEP: &str = "--keep";

/// The mode of the binary that a pane runs: `FOLDER` to keep a run, `--bridge PLACE` to carry commands to the
/// server whose sockets are there. Gives the exit code.
pub fn keeper_main(args: &[OsString]) -> i32 {
    match args {
        [mode, place] if mode == "--bridge" => bridge::serve(Path::new(place)),
        [mode, folder] if mode == GUARD => guard_keeper(folder),
        [mode, folder] if mode == KEEP => keep(&Folder::new(PathBuf::from(folder))),
        [folder] => become_guard(folder),
        _ => 2,
    }
}

/// tmux chooses the environment of its panes, and by that the run's guard is to be found: so it begins anew.
fn become_guard(folder: &OsStr) -> i32 {
    let run = Folder::new(PathBuf::from(folder));
    let Ok(Some(identity)) = run.identity() else {
        return 1;
    };
    // Returns only when it did not work.
    let _ = again(GUARD, folder).env(HOLDS, identity.mark).exec();
    1
}

/// Starts the keeper and waits for it: should it be killed, everything below it becomes ours and is ended.
fn guard_keeper(folder: &OsStr) -> i32 {
    if holder::prepare_guard().is_err() {
        return 1;
    }
    match again(KEEP, folder).spawn() {
        Ok(keeper) => {
            holder::guard(keeper.id(), None);
            0
        }
        Err(_) => 1,
    }
}

fn again(stage: &str, folder: &OsStr) -> Command {
    let mut command = Command::new("/proc/self/exe");
    // The test's own program has no word for the mode.
    let mode = std::env::args_os().nth(1);
    command.args(mode.filter(|word| word == "tmux-keeper"));
    command.arg(stage).arg(folder);
    command
}

fn keep(folder: &Folder) -> i32 {
    // The lock first, the claim then: see `Folder::look`.
    let Ok(alive) = folder::lock(&folder.file("alive")) else {
        return 1;
    };
    if !matches!(folder.claim(), Ok(true)) {
        return 1;
    }
    let Ok(Some(order)) = folder.read::<Order>("launch.json") else {
        return fail(folder, OsStr::new(""), "what to start cannot be read");
    };
    // It holds the environment, which may hold secrets.
    let _ = std::fs::remove_file(folder.file("launch.json"));
    let program = order.argv.first().cloned().unwrap_or_default();
    match start::start(folder, &order) {
        Ok(parts) => match Relay::new(folder, &order, parts, &alive).run() {
            Ok(()) => 0,
            Err(_) => 1,
        },
        Err(why) => fail(folder, OsStr::new(&program), &why),
    }
}

fn fail(folder: &Folder, program: &OsStr, why: &str) -> i32 {
    let failed = Failed {
        program: program.to_string_lossy().into_owned(),
        why: why.to_owned(),
    };
    // Who waits sees the lock go at least.
    let _ = folder.write("failed.json", &failed);
    1
}
