//! A run's folder: the files of its holder, and what they tell without the holder.
//!
//! The holder locks `lock` while it lives; the kernel releases it, so no client has to guess from process ids. `run.json`
//! names the agent, `exit.json` its exit, `screen.json` its last screen.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skein_domain::{RunHandle, SessionId, TenantId};

use crate::cgroup::Group;
use crate::error::Error;
use crate::frame::{Ended, ScreenRecord};
use crate::process::ProcessEvidence;

const SOCKET: &str = "socket";
const PREFIX: &str = "pty:";

/// `run.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) mark: String,
    /// For people; no code decides by it.
    pub(crate) holder: i32,
    /// The run's cgroup, if it has one.
    #[serde(default)]
    pub(crate) group: Option<PathBuf>,
    /// None until the program was started.
    pub(crate) agent: Option<AgentRecord>,
}

impl RunRecord {
    /// The run's cgroup, if the record names one whose name begins with `mark`.
    pub(crate) fn group(&self, mark: &str) -> Option<Group> {
        Group::recorded(self.group.as_deref()?, mark)
    }
}

/// The agent as it was started; for display only, no process is killed by it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct AgentRecord {
    pub(crate) pid: i32,
    pub(crate) start: u64,
}

/// `exit.json`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ExitRecord {
    pub(crate) exit: Ended,
    pub(crate) bytes: u64,
    pub(crate) output_at: Option<i64>,
    pub(crate) input: u64,
    /// Whether the whole process tree is gone; false while the holder still ends it.
    pub(crate) swept: bool,
}

/// The state of a run, as far as its folder tells.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunState {
    Absent,
    Live,
    Over(ExitRecord),
    /// Its holder died without recording how the run ended.
    Lost,
}

/// Identifies a run by parts that are safe in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunName {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) run: u64,
}

impl RunName {
    pub(crate) fn parse(handle: &RunHandle) -> Result<Self, Error> {
        let parts: Option<Vec<&str>> = handle
            .as_str()
            .strip_prefix(PREFIX)
            .map(|rest| rest.split('/').collect());
        let name = match parts.as_deref() {
            Some([tenant, session, run]) => Self::from_parts(tenant, session, run),
            _ => None,
        };
        name.ok_or_else(|| Error::refused(format!("`{handle}` is not a run of the pty runtime")))
    }

    pub(crate) fn from_parts(tenant: &str, session: &str, run: &str) -> Option<Self> {
        Some(Self {
            tenant: tenant.parse().ok()?,
            session: session.parse().ok()?,
            run: run.parse().ok()?,
        })
    }

    pub(crate) fn handle(&self) -> RunHandle {
        handle(self.tenant.as_str(), &self.session, self.run)
    }
}

pub(crate) fn handle(tenant: &str, session: &SessionId, run: u64) -> RunHandle {
    // An invalid tenant makes a handle that no run has.
    let tenant: String = tenant.chars().filter(|c| !c.is_control()).collect();
    format!("{PREFIX}{tenant}/{session}/{run}")
        .parse()
        .expect("it is short and has no control characters")
}

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(root: &Path, name: &RunName) -> Self {
        let path = root
            .join(name.tenant.as_str())
            .join(name.session.as_str())
            .join(name.run.to_string());
        Self { path }
    }

    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn create(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
    }

    /// The prefix of the marks of the run's processes: the run and its home. Never read from the run's record,
    /// because agents can write it and must not be able to have other processes killed. The home is identified by the
    /// inode of its folder, which stays the same when the home is moved.
    pub(crate) fn mark(&self, name: &RunName) -> io::Result<String> {
        let root = self.path.ancestors().nth(3).unwrap_or(&self.path);
        let root = fs::metadata(root)?;
        Ok(format!(
            "{}/{}/{}/{:x}.{:x}.",
            name.tenant,
            name.session,
            name.run,
            root.dev(),
            root.ino()
        ))
    }

    /// The evidence that identifies the run's processes.
    pub(crate) fn evidence(&self, name: &RunName) -> io::Result<ProcessEvidence> {
        let mark = self.mark(name)?;
        let record = self.record().ok().flatten();
        let recorded = record.and_then(|record| record.group(&mark));
        // Without a readable record its name identifies it, if the daemon is still in the cgroup where it was made.
        let group = recorded.or_else(|| Group::named(&mark));
        Ok(ProcessEvidence::beginning(mark, group))
    }

    /// Takes the lock; none if another process holds it.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.path.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether its holder lives.
    pub(crate) fn held(&self) -> io::Result<bool> {
        let file = match File::open(self.path.join("lock")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn state(&self) -> io::Result<RunState> {
        if let Some(exit) = self.exit()? {
            return Ok(RunState::Over(exit));
        }
        if self.held()? {
            return Ok(RunState::Live);
        }
        // It may have ended between the two checks.
        if let Some(exit) = self.exit()? {
            return Ok(RunState::Over(exit));
        }
        Ok(match self.record()? {
            // Without an agent nothing was started, or no record of it exists.
            Some(record) if record.agent.is_some() => RunState::Lost,
            _ => RunState::Absent,
        })
    }

    pub(crate) fn record(&self) -> io::Result<Option<RunRecord>> {
        self.read("run.json")
    }

    pub(crate) fn exit(&self) -> io::Result<Option<ExitRecord>> {
        self.read("exit.json")
    }

    pub(crate) fn screen(&self) -> io::Result<Option<ScreenRecord>> {
        self.read("screen.json")
    }

    pub(crate) fn write_record(&self, record: &RunRecord) -> io::Result<()> {
        self.write("run.json", record)
    }

    pub(crate) fn write_exit(&self, exit: &ExitRecord) -> io::Result<()> {
        self.write("exit.json", exit)
    }

    pub(crate) fn write_screen(&self, screen: &ScreenRecord) -> io::Result<()> {
        self.write("screen.json", screen)
    }

    /// The socket by a path that is always short enough, and the file that keeps this path valid. A socket address
    /// has 107 bytes; a folder in a user's home may be longer.
    pub(crate) fn socket(&self) -> io::Result<(PathBuf, File)> {
        let folder = File::open(&self.path)?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
        Ok((path.into(), folder))
    }

    pub(crate) fn remove_socket(&self) {
        let _ = fs::remove_file(self.path.join(SOCKET));
    }

    /// Removes the folder, and its empty parents up to `root`.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for parent in self.path.ancestors().skip(1).take(2) {
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.path.join(name)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(Into::into),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the file atomically, so that a reader never sees a part of it.
    fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let new = self.path.join(format!("{name}.new"));
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        fs::rename(new, self.path.join(name))
    }
}
