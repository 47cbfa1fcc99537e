//! The one place that runs git. It never prompts, runs no hooks, takes no option from a name, limits time and output,
//! and hides the caller's `GIT_…` environment from git.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use skein_domain::CommitId;

use crate::error::{Error, shown};
use crate::lock::Lock;
use crate::process::{self, Leftovers, Stream};
use crate::provider::Result;

/// The first version with all features that Skein uses; `worktree list -z` is the newest one.
pub const OLDEST: (u32, u32) = (2, 36);
/// Whether the git of the daemon's own PATH is known to be new enough.
static NEW_ENOUGH: AtomicBool = AtomicBool::new(false);

/// Settings for every call. The user's hooks and programs must not run for Skein's bookkeeping; submodules are handled
/// one by one, so that failures can be reported.
const SETTINGS: [&str; 15] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    // A program that a fetch would run for each repository with borrowed objects.
    "core.alternateRefsCommand=true",
    // Runs any program; a repository's own settings can allow it.
    "protocol.ext.allow=never",
    // Would mark files as unchanged permanently.
    "core.ignoreStat=false",
    "core.safecrlf=false",
    "core.editor=true",
    "core.pager=cat",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "advice.detachedHead=false",
];

/// Variables of the caller that configure git's installation and its access to remotes; all other `GIT_…` variables
/// would redirect git to another repository or index.
const KEPT: [&str; 9] = [
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_NO_VERIFY",
    "GIT_PROXY_COMMAND",
];

const OUTPUT: usize = 64 << 20;
const STDERR: usize = 64 << 10;
/// Retry delays in milliseconds: another git may hold a lock briefly; a lock that stays longer is stale.
const PATIENCE: [u64; 7] = [10, 20, 40, 80, 160, 320, 640];

/// Configures calls of git.
#[derive(Clone, Debug)]
pub struct Git {
    /// Added to the caller's environment.
    pub env: BTreeMap<String, String>,
    /// Time limit of calls that read.
    pub read: Duration,
    /// Time limit of calls that write, such as the checkout of a large repository.
    pub write: Duration,
}

impl Default for Git {
    fn default() -> Self {
        Self {
            env: BTreeMap::new(),
            read: Duration::from_secs(120),
            write: Duration::from_secs(30 * 60),
        }
    }
}

impl Git {
    /// Refuses a git that is too old.
    pub(crate) fn check(&self) -> Result<()> {
        let ours = !self.env.contains_key("PATH");
        if ours && NEW_ENOUGH.load(Ordering::Relaxed) {
            return Ok(());
        }
        let found = self.read("/", "version").text()?;
        match version(&found) {
            Some(version) if version < OLDEST => Err(Error::GitTooOld { found }),
            // An unknown version is accepted.
            _ => {
                NEW_ENOUGH.store(ours, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    pub(crate) fn read<'a>(&'a self, folder: impl AsRef<Path>, subcommand: &str) -> GitCommand<'a> {
        let mut call = GitCommand::new(self, folder.as_ref(), subcommand, self.read);
        call.env.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
        call
    }

    pub(crate) fn write<'a>(
        &'a self,
        folder: impl AsRef<Path>,
        subcommand: &str,
    ) -> GitCommand<'a> {
        GitCommand::new(self, folder.as_ref(), subcommand, self.write)
    }

    /// The commit of a revision, if it exists.
    pub(crate) fn commit(
        &self,
        folder: impl AsRef<Path>,
        revision: &str,
    ) -> Result<Option<CommitId>> {
        self.read(folder, "rev-parse")
            .args(["--verify", "--quiet", "--end-of-options"])
            .arg(format!("{revision}^{{commit}}"))
            .find()?
            .map(|id| Ok(id.parse()?))
            .transpose()
    }
}

#[derive(Debug)]
pub(crate) struct GitCommand<'a> {
    git: &'a Git,
    folder: PathBuf,
    what: String,
    settings: Vec<String>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    limit: Duration,
    input: Option<Vec<u8>>,
    lock: Option<&'a Lock>,
    most: usize,
}

#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) cut: bool,
}

impl<'a> GitCommand<'a> {
    fn new(git: &'a Git, folder: &Path, subcommand: &str, limit: Duration) -> Self {
        Self {
            git,
            folder: folder.to_owned(),
            what: format!("git {subcommand}"),
            settings: Vec::new(),
            args: vec![subcommand.into()],
            env: Vec::new(),
            limit,
            input: None,
            lock: None,
            most: OUTPUT,
        }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().into());
        self
    }

    pub(crate) fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        self.args
            .extend(args.into_iter().map(|a| a.as_ref().into()));
        self
    }

    pub(crate) fn setting(mut self, setting: impl Into<String>) -> Self {
        self.settings.push(setting.into());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().into()));
        self
    }

    /// Uses another index than the folder's own.
    pub(crate) fn index(self, index: &Path) -> Self {
        self.env("GIT_INDEX_FILE", index)
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(crate) fn most(mut self, bytes: usize) -> Self {
        self.most = bytes;
        self
    }

    pub(crate) fn input(mut self, input: Vec<u8>) -> Self {
        self.input = Some(input);
        self
    }

    /// Makes the git process hold the session's lock, also if the daemon dies.
    pub(crate) fn holding(mut self, lock: &'a Lock) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Whether the user configured an ssh command.
    pub(crate) fn sets_ssh(&self) -> bool {
        let setting = self.git.read(&self.folder, "config");
        let found = setting.args(["--get", "core.sshCommand"]).find();
        self.git.env.contains_key("GIT_SSH_COMMAND") || found.is_ok_and(|f| f.is_some())
    }

    /// Runs it; a failure is an error.
    pub(crate) fn run(self) -> Result<GitOutput> {
        let what = self.what.clone();
        let output = self.output()?;
        if output.code == Some(0) {
            Ok(output)
        } else {
            Err(output.failure(what))
        }
    }

    /// As [`Self::run`], for a command whose output does not matter.
    pub(crate) fn done(self) -> Result<()> {
        self.run().map(drop)
    }

    /// Its output without the final line break.
    pub(crate) fn text(self) -> Result<String> {
        Ok(self.run()?.text())
    }

    /// Its output; none if it failed.
    pub(crate) fn find(self) -> Result<Option<String>> {
        let output = self.output()?;
        Ok((output.code == Some(0)).then(|| output.text()))
    }

    /// Runs it and leaves the status to the caller.
    pub(crate) fn output(self) -> Result<GitOutput> {
        for pause in PATIENCE {
            let output = self.once()?;
            if output.code == Some(0) || !output.is_transient() {
                return Ok(output);
            }
            thread::sleep(Duration::from_millis(pause));
        }
        self.once()
    }

    fn once(&self) -> Result<GitOutput> {
        let mut output = GitOutput {
            code: None,
            stdout: Vec::new(),
            stderr: Vec::new(),
            cut: false,
        };
        let mut command = self.command()?;
        let status = process::run(
            &mut command,
            self.limit,
            self.input.clone(),
            Leftovers::Leave,
            &mut |stream, bytes| output.take(stream, bytes, self.most),
        )
        .map_err(Error::io("run git in", &self.folder))?;
        match status {
            Some(status) => output.code = status.code(),
            None => {
                return Err(Error::TimedOut {
                    what: self.what.clone(),
                    seconds: self.limit.as_secs(),
                });
            }
        }
        Ok(output)
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            let ours = name.as_bytes().starts_with(b"GIT_");
            if ours && !KEPT.iter().any(|k| name == **k) {
                command.env_remove(name);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "true")
            .env("SSH_ASKPASS", "true")
            .env("SSH_ASKPASS_REQUIRE", "force")
            .envs(&self.git.env)
            .envs(self.env.iter().map(|(k, v)| (k, v)));
        command.arg("-C").arg(&self.folder);
        for setting in SETTINGS
            .iter()
            .copied()
            .chain(self.settings.iter().map(String::as_str))
        {
            command.arg("-c").arg(setting);
        }
        command.args(&self.args);
        // The daemon's working directory may be gone; git only needs one that exists.
        command.current_dir("/");
        match self.lock {
            Some(lock) => command.stdin(lock.stdin()?),
            None => command.stdin(Stdio::null()),
        };
        Ok(command)
    }
}

impl GitOutput {
    fn take(&mut self, stream: Stream, bytes: &[u8], most: usize) {
        let (kept, most) = match stream {
            Stream::Out => (&mut self.stdout, most),
            Stream::Err => (&mut self.stderr, STDERR),
        };
        let room = most.saturating_sub(kept.len());
        if bytes.len() > room && stream == Stream::Out {
            self.cut = true;
        }
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout);
        text.strip_suffix('\n').unwrap_or(&text).to_owned()
    }

    /// The parts of `-z` output.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.stdout.split(|b| *b == 0).filter(|p| !p.is_empty())
    }

    pub(crate) fn failure(&self, what: String) -> Error {
        if let Some(file) = self.lock_file() {
            return Error::Locked { what, file };
        }
        let output = shown(&self.stderr);
        let stderr = if output.is_empty() {
            match self.code {
                Some(code) => format!("it exited with status {code}"),
                None => "it was killed".into(),
            }
        } else {
            output
        };
        Error::GitFailed { what, stderr }
    }

    /// Whether a retry may help: another git holds a lock, or a registration below `worktrees/` came or went while git
    /// read all of them.
    fn is_transient(&self) -> bool {
        let text = String::from_utf8_lossy(&self.stderr);
        let is_registration = |line: &str| {
            let missing = line.contains("failed to read")
                || line.contains("No such file or directory") && !line.contains("index.lock");
            line.contains("bad object worktrees/") || missing && line.contains(".git/worktrees/")
        };
        text.lines().any(is_registration) || self.lock_file().is_some()
    }

    /// The lock file that caused the failure, if any.
    fn lock_file(&self) -> Option<PathBuf> {
        let text = String::from_utf8_lossy(&self.stderr);
        let line = text.lines().find(|l| l.contains("File exists"))?;
        if let Some((_, rest)) = line.split_once("Unable to create '") {
            let (file, _) = rest.split_once("': File exists")?;
            return Some(file.into());
        }
        let (_, rest) = line.split_once("could not lock config file ")?;
        let (file, _) = rest.split_once(": File exists")?;
        Some(format!("{file}.lock").into())
    }
}

/// Major and minor version from `git version 2.43.0`.
pub fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?
        .split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// A path from git's `-z` output.
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_while_others_register_or_remove_worktrees_are_transient() {
        let check = |stderr: &str, expected: bool| {
            let output = GitOutput {
                code: Some(128),
                stdout: Vec::new(),
                stderr: stderr.into(),
                cut: false,
            };
            assert_eq!(output.is_transient(), expected, "{stderr}");
        };
        // As git 2.39 and 2.47 print them while other processes add and remove worktrees.
        for stderr in [
            "fatal: failed to read .git/worktrees/api-7/commondir: Success",
            "fatal: failed to read .git/worktrees/api-7/commondir: No such file or directory",
            "fatal: failed to read '.git/worktrees/api-7/locked': No such file or directory",
            "fatal: Invalid path '/p/.git/worktrees/api-7': No such file or directory",
            "fatal: could not create directory of '.git/worktrees/api-7': No such file or directory",
            "fatal: bad object worktrees/api-7/HEAD",
            "fatal: Unable to create '/p/.git/packed-refs.lock': File exists.",
        ] {
            check(stderr, true);
        }
        for stderr in [
            "",
            "fatal: not a git repository: /p/.git/worktrees/api-7",
            "fatal: Unable to create '/p/.git/index.lock': No such file or directory",
            "fatal: '/home/skein/worktrees/default/api-7' already exists",
            "fatal: cannot change to '/home/skein/worktrees/default/api-7': No such file or directory",
            "fatal: Unable to create '/p/.git/worktrees/api-7/index.lock': No such file or directory",
            "fatal: could not read '/p/.git/config': Permission denied",
        ] {
            check(stderr, false);
        }
    }
}
