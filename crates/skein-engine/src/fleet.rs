//! The fleet: agents in workspaces and terminals, the sagas that make and end them, the keepers that watch
//! them and bring them their messages.
//!
//! Reading order: [`parts`] (what the composition root brings), [`equip`] (what a new session gets),
//! `journal` (how a saga moves), `step` (what each step does), `hands` (who works on what),
//! `dispatch` (who begins when),
//! `keeper` (one task per run), `courier` (how a message is brought, as a pure decision).

mod activity;
mod appetite;
pub mod board;
mod courier;
mod deliver;
mod dispatch;
pub mod equip;
pub mod examine;
mod files;
mod gc;
mod hands;
mod import;
mod journal;
mod keeper;
mod leftover;
mod limit;
mod listen;
mod outside;
pub mod parts;
mod places;
mod record;
mod request;
pub mod settings;
mod setup_log;
mod step;
mod tail;
mod typing;
mod undo;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skein_agent::agent::Agent;
use skein_agent::moment::Zone;
use skein_domain::{Project, RuntimeKind, Session, SessionId, TenantId, Via, WorkspaceKind};
use skein_runtime::runtime::Runtime;
use skein_workspace::provider::Provider;
use tokio::sync::{Notify, watch};

use crate::credential::CredentialKey;
use crate::error::Error;

pub use gc::GcOrder;
pub(crate) use journal::{reason, tell as tell_saga, turn_round};
pub(crate) use leftover::take_over;
pub use parts::{Databases, FleetParts, Memory, NoPoints, Points};
pub use request::{AgentView, Hook, Terminal, Why};
pub(crate) use request::{insert_receipt, new_receipt};
pub use settings::{MachineSettings, ProjectSettings, Settings, SettingsError};

/// One session of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    pub tenant: TenantId,
    pub session: SessionId,
}

/// What all desks of an engine with agents share.
#[derive(Debug)]
pub struct Fleet {
    providers: HashMap<WorkspaceKind, Arc<dyn Provider>>,
    runtimes: HashMap<RuntimeKind, Arc<dyn Runtime>>,
    pub(crate) settings: Arc<dyn Settings>,
    memory: Arc<dyn Memory>,
    databases: Arc<dyn Databases>,
    zone: Zone,
    points: Arc<dyn Points>,
    private: PathBuf,
    logs: PathBuf,
    home: PathBuf,
    roots: Vec<PathBuf>,
    skein: PathBuf,
    environment: BTreeMap<String, String>,
    pub(crate) credentials: CredentialKey,
    pub(crate) board: board::Board,
    places: places::Places,
    appetites: appetite::Appetites,
    pub(crate) hands: hands::Hands,
    files: files::Files,
    keepers: Mutex<HashMap<Member, keeper::Handle>>,
    /// Locked after `keepers`, if both are.
    early: Mutex<keeper::Early>,
    /// Kills that were carried out and are still to be recorded.
    unrecorded: Mutex<HashMap<Member, keeper::UnrecordedKill>>,
    /// Rung when a saga may begin.
    bell: Notify,
    /// Counts sagas that somebody turned round.
    turned: watch::Sender<u64>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    pub fn new(parts: FleetParts) -> Self {
        Self {
            providers: parts.providers.into_iter().map(|p| (p.kind(), p)).collect(),
            runtimes: parts.runtimes.into_iter().map(|r| (r.kind(), r)).collect(),
            settings: parts.settings,
            memory: parts.memory,
            databases: parts.databases,
            zone: parts.zone,
            points: parts.points,
            private: parts.private,
            logs: parts.logs,
            home: parts.home,
            roots: parts.roots,
            skein: parts.skein,
            environment: parts.environment,
            credentials: parts.credentials,
            board: board::Board::default(),
            places: places::Places::default(),
            appetites: appetite::Appetites::default(),
            hands: hands::Hands::default(),
            files: files::Files::default(),
            keepers: Mutex::default(),
            early: Mutex::default(),
            unrecorded: Mutex::default(),
            bell: Notify::new(),
            turned: watch::Sender::new(0),
        }
    }

    fn provider(&self, kind: WorkspaceKind) -> Result<Arc<dyn Provider>, Error> {
        self.providers
            .get(&kind)
            .cloned()
            .ok_or_else(|| Error::NoFleet {
                what: format!("workspace `{kind}`"),
            })
    }

    fn runtime(&self, kind: RuntimeKind) -> Result<Arc<dyn Runtime>, Error> {
        self.runtimes
            .get(&kind)
            .cloned()
            .ok_or_else(|| Error::NoFleet {
                what: format!("runtime `{}`", kind.as_str()),
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
    fn private_of(&self, member: &Member) -> PathBuf {
        place_below(&self.private, member)
    }

    /// Where the history of all its runs is kept.
    fn logs_of(&self, member: &Member) -> PathBuf {
        place_below(&self.logs, member)
    }

    /// Where the history of one run is kept.
    fn log_of(&self, member: &Member, run: u64) -> PathBuf {
        self.logs_of(member).join(format!("{run}.log"))
    }

    /// Where the output of the last set-up is kept.
    fn setup_log_of(&self, member: &Member) -> PathBuf {
        self.logs_of(member).join("setup.log")
    }

    /// Whether this folder is ours to make and to remove, so that nobody else may count on it.
    pub(crate) fn is_managed(&self, path: &str) -> bool {
        self.roots
            .iter()
            .any(|root| Path::new(path).starts_with(root))
    }

    /// The session of this tenant whose workspace below one of our roots encloses `path`.
    pub(crate) fn session_around(&self, tenant: &TenantId, path: &str) -> Option<String> {
        self.roots.iter().find_map(|root| {
            let below = Path::new(path)
                .strip_prefix(root.join(tenant.as_str()))
                .ok()?;
            let session = below.components().next()?.as_os_str();
            session.to_str().map(str::to_owned)
        })
    }

    /// Tells whoever follows that something may begin.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Tells carriers that a saga was turned round by somebody else.
    pub(crate) fn tell_turned(&self) {
        self.turned.send_modify(|n| *n += 1);
    }

    /// For tests that end the process here; nothing otherwise.
    pub(crate) fn point(&self, name: &str) {
        self.points.reach(name);
    }
}

fn place_below(root: &Path, member: &Member) -> PathBuf {
    root.join(member.tenant.as_str())
        .join(member.session.as_str())
}

/// How the session's agent is talked to.
fn via_of(session: &Session) -> Via {
    session
        .gear
        .as_ref()
        .map_or(Via::Terminal, |g| g.launch.via)
}
