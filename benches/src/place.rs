//! What measurements with agents need around them: a repository, tmux as a peer, and a look at who is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::daemon::succeed;

/// Files of the repository that agents work in.
pub(crate) const FILES: usize = 200;
/// Files of a large one.
pub(crate) const MANY_FILES: usize = 20_000;
/// Files of one folder.
const IN_FOLDER: usize = 200;

/// Makes a repository with one commit on `main`.
pub(crate) fn repository(repo: &Path, files: usize) -> Result<(), Failure> {
    for n in 0..files {
        let folder = repo.join(format!("part{}", n / IN_FOLDER));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("file{n}.txt")), "text\n".repeat(20))?;
    }
    git(repo, &["init", "--quiet", "--initial-branch=main"])?;
    git(repo, &["add", "."])?;
    let author = ["-c", "user.name=b", "-c", "user.email=b@example.org"];
    git(
        repo,
        &[&author[..], &["commit", "--quiet", "-m", "one"]].concat(),
    )
}

pub(crate) fn git(folder: &Path, args: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("git");
    command
        .args(args)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    succeed(command.status()?)
}

/// Ends every process that was started with this variable in its environment.
pub(crate) fn end_marked(variable: &str) {
    for pid in marked(variable) {
        // Many end with the first of them, before it is their turn.
        let _ = Command::new("kill")
            .args(["-9", &pid.to_string()])
            .stderr(Stdio::null())
            .status();
    }
}

fn marked(variable: &str) -> Vec<u32> {
    let mut found = vec![];
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|b| *b == 0).any(|v| v == variable.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// A tmux server of the benchmark's own, in a folder of its own.
#[derive(Debug)]
pub(crate) struct Tmux(PathBuf);

impl Tmux {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.join("tmux"))
    }

    pub(crate) fn run(&self, args: &[&str]) -> Result<String, Failure> {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(&self.0)
            .args(["-f", "/dev/null"])
            .args(args)
            .output()?;
        succeed(output.status)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
