//! The fleet: agents in workspaces and terminals, the sagas that start and end them, the supervisors that watch
//! them and deliver their messages.
//!
//! Reading order: [`parts`] (what the composition root brings), `lifecycle` (spawn, kill, restore), [`equip`]
//! (what a new session gets), `dispatch` (which saga begins when), `commands` (what sagas do outside the
//! ledger), `supervisor` (one task per run),
//! `courier` (how a message is typed, as a pure decision), `calls` (how a protocol driver gets it).

mod activity;
mod appetite;
pub mod board;
mod calls;
mod commands;
mod courier;
mod deliver;
mod dispatch;
pub mod equip;
pub mod error;
pub mod examine;
pub mod explain;
mod files;
mod gc;
mod hook_journal;
mod import;
mod lifecycle;
mod limit;
mod lines;
mod listen;
mod outside;
pub mod parts;
mod places;
mod record;
mod request;
pub mod settings;
mod setup_log;
mod supervisor;
mod tail;
mod typing;
mod window;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skein_agent::agent::Agent;
use skein_agent::moment::Zone;
use skein_domain::{Project, Session, Via, WorkspaceKind};
use skein_ledger::{Caller, CredentialKey, Ledger, LedgerRequests};
use skein_runtime::runtime::Runtime;
use skein_runtime::window::Windows;
use skein_workspace::provider::WorkspaceProvider;
use tokio::sync::{Notify, watch};

pub use error::Error;
pub use gc::GcOptions;
pub use parts::{Databases, FleetParts, Memory};
pub use request::{AgentView, Hook, TerminalAddress, Why};
pub use settings::{MachineSettings, ProjectSettings, Settings, SettingsError};
pub use skein_ledger::SessionKey;
pub use window::Window;

/// Serves one caller of one tenant: the ledger's requests, and those on sessions with agents.
#[derive(Clone, Debug)]
pub struct FleetRequests {
    pub ledger: LedgerRequests,
    pub(crate) fleet: Arc<Fleet>,
}

/// All agents of all tenants.
#[derive(Debug)]
pub struct Fleet {
    pub(crate) ledger: Ledger,
    providers: HashMap<WorkspaceKind, Arc<dyn WorkspaceProvider>>,
    runtime: Arc<dyn Runtime>,
    windows: Arc<dyn Windows>,
    pub(crate) settings: Arc<dyn Settings>,
    memory: Arc<dyn Memory>,
    databases: Arc<dyn Databases>,
    zone: Zone,
    private: PathBuf,
    logs: PathBuf,
    home: PathBuf,
    skein: PathBuf,
    environment: BTreeMap<String, String>,
    pub(crate) credentials: CredentialKey,
    pub(crate) board: board::ObservationBoard,
    places: places::Places,
    appetites: appetite::Appetites,
    files: files::Files,
    supervisors: Mutex<HashMap<SessionKey, supervisor::Handle>>,
    /// Kills that were carried out and are still to be recorded.
    unrecorded: Mutex<HashMap<SessionKey, supervisor::UnrecordedKill>>,
    /// Rung when a saga may begin.
    bell: Notify,
    /// Counts sagas that somebody turned round.
    turned: watch::Sender<u64>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    pub fn new(ledger: Ledger, parts: FleetParts) -> Arc<Self> {
        Arc::new(Self {
            ledger,
            providers: parts.providers.into_iter().map(|p| (p.kind(), p)).collect(),
            runtime: parts.runtime,
            windows: parts.windows,
            settings: parts.settings,
            memory: parts.memory,
            databases: parts.databases,
            zone: parts.zone,
            private: parts.private,
            logs: parts.logs,
            home: parts.home,
            skein: parts.skein,
            environment: parts.environment,
            credentials: parts.credentials,
            board: board::ObservationBoard::default(),
            places: places::Places::default(),
            appetites: appetite::Appetites::default(),
            files: files::Files::default(),
            supervisors: Mutex::default(),
            unrecorded: Mutex::default(),
            bell: Notify::new(),
            turned: watch::Sender::new(0),
        })
    }

    /// Serves one request of `caller`.
    pub fn requests(self: &Arc<Self>, caller: Caller) -> FleetRequests {
        FleetRequests {
            ledger: self.ledger.requests(caller),
            fleet: self.clone(),
        }
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn provider(&self, kind: WorkspaceKind) -> Result<Arc<dyn WorkspaceProvider>, Error> {
        self.providers.get(&kind).cloned().ok_or_else(|| {
            let what = format!("workspace `{kind}`");
            skein_ledger::Error::NotConfigured { what }.into()
        })
    }

    /// What the project's settings say; read anew each time, since people edit them.
    fn settings_of(&self, project: &Project) -> Result<ProjectSettings, Error> {
        self.settings.project(project).map_err(Error::Settings)
    }

    fn agent(&self, session: &Session, project: &Project) -> Result<Arc<dyn Agent>, Error> {
        let settings = self.settings_of(project)?;
        equip::agent_named(&settings, &session.agent, via_of(session))
    }

    /// The session's folder for settings files, which only we write.
    fn private_of(&self, session_key: &SessionKey) -> PathBuf {
        place_below(&self.private, session_key)
    }

    /// Where the history of all its runs is kept.
    fn logs_of(&self, session_key: &SessionKey) -> PathBuf {
        place_below(&self.logs, session_key)
    }

    /// Where the history of one run is kept.
    fn log_of(&self, session_key: &SessionKey, run: u64) -> PathBuf {
        self.logs_of(session_key).join(format!("{run}.log"))
    }

    /// Where the output of the last set-up is kept.
    fn setup_log_of(&self, session_key: &SessionKey) -> PathBuf {
        self.logs_of(session_key).join("setup.log")
    }

    /// Tells whoever follows that something may begin.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Tells carriers that a saga was turned round by somebody else.
    pub(crate) fn tell_turned(&self) {
        self.turned.send_modify(|n| *n += 1);
    }
}

fn place_below(root: &Path, session_key: &SessionKey) -> PathBuf {
    root.join(session_key.tenant.as_str())
        .join(session_key.session.as_str())
}

/// How the session's agent is talked to.
fn via_of(session: &Session) -> Via {
    session
        .gear
        .as_ref()
        .map_or(Via::Terminal, |g| g.launch.via)
}
