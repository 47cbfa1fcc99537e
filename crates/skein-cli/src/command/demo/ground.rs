//! The throwaway repository the demo plays in.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::UserError;

/// Holds for the agents' commits too: nobody's name, no signature that asks for a key, no hooks of the user.
const CONFIG: [(&str, &str); 4] = [
    ("user.name", "Skein demo"),
    ("user.email", "demo@localhost"),
    ("commit.gpgSign", "false"),
    ("core.hooksPath", "/dev/null"),
];

/// Makes a repository with one commit. git sees nothing of the caller but where programs are.
pub(super) fn lay(folder: &Path, path: Option<&OsStr>) -> Result<(), UserError> {
    let failed = |error: &std::io::Error| {
        UserError::unavailable("cannot make a repository for the demo").caused_by(error)
    };
    std::fs::create_dir(folder).map_err(|error| failed(&error))?;
    std::fs::write(folder.join("README.md"), "# A throwaway repository\n")
        .map_err(|error| failed(&error))?;
    let git = |args: &[&str]| -> Result<(), UserError> {
        let ran = Command::new("git")
            .env_clear()
            .env("PATH", path.unwrap_or_default())
            .env("HOME", folder)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(folder)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(&error).hint("the demo needs `git` in PATH"))?;
        if ran.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        Err(failed(&std::io::Error::other(said)))
    };
    git(&["init", "--quiet", "--template=", "--initial-branch=main"])?;
    for (name, value) in CONFIG {
        git(&["config", name, value])?;
    }
    git(&["add", "."])?;
    git(&["commit", "--quiet", "--message=begin"])
}
