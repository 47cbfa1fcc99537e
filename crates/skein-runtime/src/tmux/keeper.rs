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
use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::folder::{self, Failed, Folder, Order};
use relay::Relay;

/// The mode of the binary that a pane runs: `FOLDER` to keep a run, `--anchor FILE` to hold the place of a
/// client. Gives the exit code.
pub fn keeper_main(args: &[OsString]) -> i32 {
    match args {
        [mode, file] if mode == "--anchor" => anchor(Path::new(file)),
        [folder] => keep(&Folder::new(PathBuf::from(folder))),
        _ => 2,
    }
}

/// Waits for the client to go; its lock ends with it.
fn anchor(file: &Path) -> i32 {
    let waited = File::open(file)
        .and_then(|file| Ok(rustix::fs::flock(file, FlockOperation::LockExclusive)?));
    i32::from(waited.is_err())
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
