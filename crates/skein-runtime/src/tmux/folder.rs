//! The folder of one run: what is written there by whom, and what it proves.
//!
//! | file | written by | means |
//! |---|---|---|
//! | `run.json` | launcher | whose run it is |
//! | `launch.json` | launcher | what to start; holds the environment, so the keeper removes it once read |
//! | `launcher` | launcher | locked while a launch is under way |
//! | `claim` | keeper, or who looks | made once: only the keeper that made it starts the program |
//! | `alive` | keeper | locked as long as the keeper lives |
//! | `started.json`, `failed.json` | keeper | the program was started, or why not |
//! | `state`, `live/count` | keeper | output so far: now and then (watched), at once (not watched) |
//! | `end.json` | who ends it | how long the grace is |
//! | `exit.json` | keeper | how it ended, and the last screen; nothing of the tree is left |

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skein_domain::Exit;

use crate::process::Process;
use crate::runtime::Screen;

/// Who a run is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) tenant: String,
    pub(super) session: String,
    pub(super) run: u64,
    /// Stands in the environment of every process of the run.
    pub(super) mark: String,
}

/// What the keeper is to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: OsString,
    pub(super) stdin: Option<OsString>,
    pub(super) log: OsString,
    /// Of the server the pane is in.
    pub(super) socket: OsString,
}

/// A process as it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) pid: u32,
    pub(super) start: u64,
}

impl From<Written> for Process {
    fn from(written: Written) -> Self {
        Self {
            // One that does not fit names nobody.
            pid: i32::try_from(written.pid).unwrap_or(0),
            start: written.start,
        }
    }
}

impl From<Process> for Written {
    fn from(process: Process) -> Self {
        Self {
            pid: process.pid.unsigned_abs(),
            start: process.start,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Started {
    pub(super) agent: Written,
    pub(super) keeper: Written,
    /// tmux's number of the pane, `%7`.
    pub(super) pane: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Failed {
    pub(super) program: String,
    pub(super) why: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) grace_ms: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    Code(i32),
    Signal(i32),
}

impl From<Ending> for Exit {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Code(code) => Self::Code(code),
            Ending::Signal(signal) => Self::Signal(signal),
        }
    }
}

/// What is left of a run that is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Last {
    pub(super) ending: Ending,
    pub(super) input: u64,
    pub(super) rows: Vec<String>,
    pub(super) cursor: (u16, u16),
    pub(super) count: Count,
}

impl Last {
    pub(super) fn screen(&self) -> Screen {
        Screen {
            rows: self.rows.clone(),
            cursor: self.cursor,
            bracketed_paste: self.count.bracketed_paste,
            bytes: self.count.bytes,
            typed: 0,
        }
    }
}

/// What is known of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    pub(super) bytes: u64,
    /// Microseconds since the epoch.
    pub(super) at: Option<i64>,
    pub(super) bracketed_paste: bool,
}

impl Count {
    /// As two equal lines, so that who reads while it is written sees it.
    pub(super) fn to_text(self) -> io::Result<Vec<u8>> {
        let line = serde_json::to_string(&self)?;
        Ok(format!("{line:120}\n{line:120}\n").into_bytes())
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (first, second) = (lines.next()?, lines.next()?);
        (first == second).then(|| serde_json::from_str(first).ok())?
    }
}

/// What is known of a run from its folder alone; needs no answer from anyone.
#[derive(Clone, Debug)]
pub(super) enum State {
    Launching,
    Failed(Failed),
    Alive(Started),
    Over(Box<Last>),
    /// Definitely not there, and it did not say how it ended.
    Gone(Option<Started>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn identity(&self) -> io::Result<Option<Identity>> {
        self.read("run.json")
    }

    pub(super) fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.file(name)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whole or not at all.
    pub(super) fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let new = self.file(&format!(".{name}.{}", std::process::id()));
        let mut file = private(&new, OpenOptions::new().create(true).truncate(true))?;
        file.write_all(&serde_json::to_vec(value)?)?;
        fs::rename(&new, self.file(name))
    }

    pub(super) fn count(&self, name: &str) -> Count {
        // Written while read: the next try reads it whole. It is only a count.
        let read = || Count::from_text(&fs::read_to_string(self.file(name)).ok()?);
        (0..3).find_map(|_| read()).unwrap_or_default()
    }

    /// `None` when there is no such folder.
    pub(super) fn look(&self) -> io::Result<Option<State>> {
        if !self.0.is_dir() {
            return Ok(None);
        }
        loop {
            if let Some(state) = self.look_once()? {
                return Ok(Some(state));
            }
        }
    }

    /// `None` when someone claimed the run meanwhile. The keeper locks `alive` before it claims and writes
    /// `exit.json` before it lets go, so the order of these looks matters.
    fn look_once(&self) -> io::Result<Option<State>> {
        if let Some(state) = self.settled()? {
            return Ok(Some(state));
        }
        if self.file("claim").exists() {
            let started: Option<Started> = self.read("started.json")?;
            if locked(&self.file("alive"))? {
                return Ok(Some(started.map_or(State::Launching, State::Alive)));
            }
            return Ok(Some(match self.settled()? {
                Some(state) => state,
                None => State::Gone(self.read("started.json")?),
            }));
        }
        if locked(&self.file("launcher"))? {
            return Ok(Some(State::Launching));
        }
        // Nobody launches it any more. A keeper that comes late must not start what was told to be gone.
        Ok(self.claim()?.then_some(State::Gone(None)))
    }

    fn settled(&self) -> io::Result<Option<State>> {
        if let Some(last) = self.read::<Last>("exit.json")? {
            return Ok(Some(State::Over(Box::new(last))));
        }
        Ok(self.read("failed.json")?.map(State::Failed))
    }

    /// Whether this call was the first.
    pub(super) fn claim(&self) -> io::Result<bool> {
        match private(&self.file("claim"), OpenOptions::new().create_new(true)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Opens for writing, for the owner only.
pub(super) fn private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.write(true).mode(0o600).open(path)
}

/// A lock that ends with this process at the latest.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let file = private(path, OpenOptions::new().create(true))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Whether someone holds the lock. Reading alone, so that looking is no event for those who watch.
pub(super) fn locked(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
