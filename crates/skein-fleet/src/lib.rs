//! The fleet: agents in workspaces and terminals, the sagas that start and end them, the supervisors that watch
//! them and deliver their messages.
//!
//! Reading order: [`parts`] (what the composition root brings), `lifecycle` (spawn, kill, restore), [`equip`]
//! (what a new session gets), `programs` (what an agent's program gets), `dispatch` (which saga begins when),
//! `commands` (what sagas do outside the ledger), `supervisor` (one task per run), `courier` (how a message is
//! typed, as a pure decision), `calls` (how a protocol driver gets it).

mod activity;
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
mod memory;
mod outside;
pub mod parts;
mod places;
mod programs;
mod record;
mod request;
pub mod settings;
mod setup_log;
mod signals;
mod supervisor;
mod tail;
mod typing;
mod window;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skein_domain::WorkspaceKind;
use skein_ledger::{Caller, Ledger, LedgerRequests};
use skein_runtime::runtime::Runtime;
use skein_workspace::provider::WorkspaceProvider;

use board::ObservationBoard;
use files::Files;
use memory::AgentMemory;
use places::Places;
use programs::{AgentPrograms, SessionFolders};
use signals::SagaSignals;
use supervisor::{SupervisorParts, Supervisors, UnrecordedKills};
use window::RunWindows;

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
    windows: RunWindows,
    programs: Arc<AgentPrograms>,
    pub(crate) board: Arc<ObservationBoard>,
    places: Arc<Places>,
    memory: Arc<AgentMemory>,
    signals: Arc<SagaSignals>,
    supervisors: Supervisors,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    pub fn new(ledger: Ledger, parts: FleetParts) -> Arc<Self> {
        let programs = Arc::new(AgentPrograms {
            settings: parts.settings,
            folders: SessionFolders {
                private: parts.private,
                logs: parts.logs,
            },
            home: parts.home,
            skein: parts.skein,
            variables: parts.environment,
            credentials: parts.credentials,
        });
        let board = Arc::new(ObservationBoard::default());
        let places = Arc::new(Places::default());
        let memory = Arc::new(AgentMemory::new(parts.memory));
        let signals = Arc::new(SagaSignals::default());
        let supervisors = Supervisors::new(SupervisorParts {
            runtime: parts.runtime.clone(),
            programs: programs.clone(),
            board: board.clone(),
            places: places.clone(),
            memory: memory.clone(),
            signals: signals.clone(),
            kills: UnrecordedKills::default(),
            files: Files::default(),
            databases: parts.databases,
            zone: parts.zone,
        });
        Arc::new(Self {
            ledger,
            providers: parts.providers.into_iter().map(|p| (p.kind(), p)).collect(),
            runtime: parts.runtime,
            windows: RunWindows::new(parts.windows, board.clone()),
            programs,
            board,
            places,
            memory,
            signals,
            supervisors,
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
}
