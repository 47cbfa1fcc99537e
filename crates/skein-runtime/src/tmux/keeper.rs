//! The keeper: the small process in a pane that holds the agent.
//!
//! It gives the agent a terminal of its own and stands between that and the pane: one poll loop, no async
//! runtime. When the pane goes (the server was killed), the keeper goes with it and says nothing: who looks
//! finds its lock free, and ends what may be left by its mark.

mod guard;
mod last;
mod relay;
mod start;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::bridge;
use super::folder::{self, Failed, Folder, Order};
use relay::Relay;

/// The mode of the binary that a pane runs: `FOLDER` to keep a run, `--bridge PLACE` to carry commands to the
/// server whose sockets are there. Gives the exit code.
pub fn keeper_main(args: &[OsString]) -> i32 {
    match args {
        [mode, place] if mode == "--bridge" => bridge::serve(Path::new(place)),
        [folder] => keep(&Folder::new(PathBuf::from(folder))),
        _ => 2,
    }
}

fn keep(folder: &Folder) -> i32 {
    // The lock first, the claim then: see `Folder::look`.
    let Ok(_alive) = folder::lock(&folder.file("alive")) else {
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
        Ok(parts) => match Relay::new(folder, &order, parts).run() {
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
