//! What the composition root brings.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skein_agent::moment::Zone;
use skein_runtime::runtime::Runtime;
use skein_workspace::provider::Provider;

use super::settings::Settings;
use crate::credential::CredentialKey;

#[derive(Debug)]
pub struct FleetParts {
    pub providers: Vec<Arc<dyn Provider>>,
    pub runtimes: Vec<Arc<dyn Runtime>>,
    pub settings: Arc<dyn Settings>,
    pub memory: Arc<dyn Memory>,
    pub databases: Arc<dyn Databases>,
    /// Where the machine's people live, for times that agents tell in words.
    pub zone: Zone,
    /// Below it, one folder per session for what its agent needs.
    pub private: PathBuf,
    pub logs: PathBuf,
    pub home: PathBuf,
    /// The folders managed workspaces are made in.
    pub roots: Vec<PathBuf>,
    /// This program, for hooks and built-in agents.
    pub skein: PathBuf,
    /// What agents get of the daemon's environment.
    pub environment: BTreeMap<String, String>,
    pub credentials: CredentialKey,
    pub points: Arc<dyn Points>,
}

/// How much memory is free.
pub trait Memory: Send + Sync + fmt::Debug {
    /// Megabytes; none when it cannot be told, which refuses nothing.
    fn free_mb(&self) -> Option<u64>;
    /// Megabytes a process takes with all below it; none when it is gone.
    fn tree_mb(&self, pid: u32) -> Option<u64>;
}

/// Reads SQLite databases of other programs. Changes nothing in them, and waits for nobody.
pub trait Databases: Send + Sync + fmt::Debug {
    /// The first column of every row that `statement` finds, one a line; `?1` in it is `of`, and `?2`, where it
    /// has one, is `after`.
    fn rows(&self, path: &Path, statement: &str, of: &str, after: &str) -> std::io::Result<String>;
}

/// Named places between the steps of a saga, where tests end the process.
pub trait Points: Send + Sync + fmt::Debug {
    fn reach(&self, name: &str);
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NoPoints;

impl Points for NoPoints {
    fn reach(&self, _: &str) {}
}
