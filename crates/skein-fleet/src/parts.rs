//! What the composition root brings.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skein_agent::moment::Zone;
use skein_runtime::runtime::Runtime;
use skein_runtime::window::Windows;
use skein_workspace::provider::WorkspaceProvider;

use super::settings::Settings;
use skein_ledger::CredentialKey;

#[derive(Debug)]
pub struct FleetParts {
    pub providers: Vec<Arc<dyn WorkspaceProvider>>,
    pub runtime: Arc<dyn Runtime>,
    pub windows: Arc<dyn Windows>,
    pub settings: Arc<dyn Settings>,
    pub memory: Arc<dyn Memory>,
    pub databases: Arc<dyn Databases>,
    /// The time zone of the machine, for times that agents print in words.
    pub zone: Zone,
    /// Below it, one folder per session for what its agent needs.
    pub private: PathBuf,
    pub logs: PathBuf,
    pub home: PathBuf,
    /// This program, for hooks and built-in agents.
    pub skein: PathBuf,
    /// What agents get of the daemon's environment.
    pub environment: BTreeMap<String, String>,
    pub credentials: CredentialKey,
}

/// How much memory is free.
pub trait Memory: Send + Sync + fmt::Debug {
    /// Megabytes; none when that is unknown, which refuses nothing.
    fn free_mb(&self) -> Option<u64>;
    /// Megabytes a process takes with all below it; none when it is gone.
    fn tree_mb(&self, pid: u32) -> Option<u64>;
}

/// Reads SQLite databases of other programs. Changes nothing in them, and waits for no other process.
pub trait Databases: Send + Sync + fmt::Debug {
    /// The first column of every row that `statement` finds, one a line; `?1` in it is `of`, and `?2`, where it
    /// has one, is `after`.
    fn rows(&self, path: &Path, statement: &str, of: &str, after: &str) -> std::io::Result<String>;
}
