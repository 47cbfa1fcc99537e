//! Compares a work tree with its index so that no setting hides a file and no program of the repository runs.
//!
//! The user's own settings (global and system) apply: a filter installed there, such as git LFS, decides whether a file
//! differs from the committed one. Filters configured only by the repository or the worktree are disabled, so files
//! they would convert count as changed, and are backed up as they are on disk.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::git::GitCommand;
use crate::provider::Result;
use crate::repo::Repo;
use crate::scratch::unique;

/// Overrides what a repository may have configured about its file system and about comparing files.
const SETTINGS: [&str; 7] = [
    "core.ignoreCase=false",
    "core.precomposeUnicode=false",
    "core.protectHFS=false",
    "core.protectNTFS=false",
    "core.checkStat=default",
    "core.trustctime=true",
    "core.untrackedCache=false",
];

/// The parts of a filter's configuration, with the value that disables each.
const FILTER: [(&str, &str); 4] = [
    ("clean", ""),
    ("smudge", ""),
    ("process", ""),
    ("required", "false"),
];

#[derive(Debug)]
pub(crate) struct StrictGit {
    file_mode: &'static str,
    /// Settings whose names may contain any character, so `-c` cannot pass them.
    off: Vec<(String, &'static str)>,
    /// Whether git converts line ends without an attribute.
    pub(crate) converts_line_ends: bool,
}

impl StrictGit {
    pub(crate) fn of(repo: &Repo<'_>) -> Result<Self> {
        let output = repo
            .read("config")
            .args(["--show-scope", "-z", "--get-regexp"])
            .arg(r"^(filter\..*|core\.(filemode|autocrlf|eol))$")
            .output()?;
        let mut names = BTreeSet::new();
        let mut file_mode = "core.fileMode=true";
        let mut converts_line_ends = false;
        let parts: Vec<&[u8]> = output.stdout.split(|b| *b == 0).collect();
        for pair in parts.chunks_exact(2) {
            let setting = String::from_utf8_lossy(pair[1]);
            let (key, value) = setting.split_once('\n').unwrap_or((&setting, ""));
            if key == "core.filemode" {
                if value != "true" && !keeps_modes(&repo.dir) {
                    file_mode = "core.fileMode=false";
                }
            } else if matches!(key, "core.autocrlf" | "core.eol") {
                converts_line_ends |= value != "false";
            } else if matches!(pair[0], b"local" | b"worktree")
                && let Some((name, _)) = key.rsplit_once('.')
            {
                names.insert(name.to_owned());
            }
        }
        let off = names.iter().flat_map(|name| {
            let part = |(part, value)| (format!("{name}.{part}"), value);
            FILTER.map(part)
        });
        Ok(Self {
            file_mode,
            off: off.collect(),
            converts_line_ends,
        })
    }

    /// A call that reads the work tree.
    pub(crate) fn call<'a>(&self, repo: &Repo<'a>, subcommand: &str) -> GitCommand<'a> {
        let mut call = repo
            .read(subcommand)
            .setting(self.file_mode)
            .env("GIT_NO_LAZY_FETCH", "1")
            .most(1 << 30);
        for setting in SETTINGS {
            call = call.setting(setting);
        }
        if self.off.is_empty() {
            return call;
        }
        for (n, (key, value)) in self.off.iter().enumerate() {
            call = call
                .env(&format!("GIT_CONFIG_KEY_{n}"), key)
                .env(&format!("GIT_CONFIG_VALUE_{n}"), value);
        }
        call.env("GIT_CONFIG_COUNT", self.off.len().to_string())
    }
}

/// Whether the file system supports the executable bit, whatever the repository configures.
fn keeps_modes(folder: &Path) -> bool {
    let probe = folder.join(unique("mode", "probe"));
    let mode = |mode| {
        fs::set_permissions(&probe, fs::Permissions::from_mode(mode)).ok()?;
        Some(fs::metadata(&probe).ok()?.permissions().mode() & 0o777)
    };
    let kept =
        fs::write(&probe, "").is_ok() && mode(0o600) == Some(0o600) && mode(0o700) == Some(0o700);
    // `sweep` removes a file that remains.
    drop(fs::remove_file(&probe));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_probes_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            let probe = || (0..500).all(|_| keeps_modes(folder.path()));
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(probe)).collect();
            for thread in threads {
                assert!(thread.join().unwrap());
            }
        });
    }
}
