//! What agents run on: workspaces, terminals, settings, memory. Picked and put together here.

mod credentials;
mod databases;
mod memory;
#[cfg(debug_assertions)]
mod points;
mod pool;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skein_agent::moment::Zone;
use skein_fleet::FleetParts;
use skein_ledger::{FaultPoints, ManagedRoots, NoFaultPoints};
use skein_runtime::Groups;
use skein_runtime::pty::{PtyOptions, PtyRuntime};
use skein_runtime::tmux::{TmuxOptions, TmuxWindows};
use skein_workspace::provider::WorkspaceProvider;
use skein_workspace::{Dir, NoWorkspace, Pool, WorkspaceOptions, Worktree};

use crate::env::{self, Environment};
use crate::error::UserError;
use crate::home::Home;
use crate::settings::Settings;

pub(super) fn parts(home: &Home, environment: &Environment) -> Result<FleetParts, UserError> {
    let skein = std::env::current_exe().map_err(|error| {
        UserError::unavailable("cannot tell where this program is").caused_by(&error)
    })?;
    let roots = Roots::of(home);
    let pool = pool::Filler::start(roots.worktrees.clone());
    let cgroup = Settings::load(environment, None)?.cgroup.value;
    let groups = Groups::parse(&cgroup).map_err(UserError::misuse)?;
    Ok(FleetParts {
        providers: roots.providers(),
        runtime: Arc::new(PtyRuntime::new(PtyOptions {
            groups,
            ..pty_options(home, &skein)
        })),
        windows: Arc::new(TmuxWindows::new(TmuxOptions {
            skein: skein.clone(),
            home: home.root().to_owned(),
            socket: home.tmux_socket(),
            environment: env::for_agents(),
        })),
        settings: Arc::new(settings::SettingsFiles::new(environment, pool)),
        memory: Arc::new(memory::Proc),
        databases: Arc::new(databases::Sqlite),
        zone: Zone::new(jiff::tz::TimeZone::system()),
        private: home.root().join("sessions"),
        logs: home.logs().join("sessions"),
        home: home.root().to_owned(),
        environment: env::for_agents(),
        credentials: credentials::open(home)?,
        skein,
    })
}

/// The folders of this home in which workspaces are made.
pub(super) fn managed_roots(home: &Home) -> ManagedRoots {
    let roots = Roots::of(home);
    ManagedRoots::new(vec![roots.worktrees, roots.clones, roots.empty])
}

/// The managed folders, all in the home.
struct Roots {
    worktrees: PathBuf,
    clones: PathBuf,
    empty: PathBuf,
}

impl Roots {
    fn of(home: &Home) -> Self {
        Self {
            worktrees: home.root().join("worktrees"),
            clones: home.root().join("clones"),
            empty: home.root().join("empty"),
        }
    }

    fn providers(&self) -> Vec<Arc<dyn WorkspaceProvider>> {
        let options = WorkspaceOptions {
            // A spawn takes any prepared worktree; each project sets how many there should be.
            pool: Some(Arc::new(Pool::new(self.worktrees.clone(), 0))),
            ..WorkspaceOptions::default()
        };
        vec![
            Arc::new(Worktree::new(self.worktrees.clone(), options.clone())),
            Arc::new(skein_workspace::Clone::new(
                self.clones.clone(),
                options.clone(),
            )),
            Arc::new(Dir::new(options)),
            Arc::new(NoWorkspace::new(self.empty.clone())),
        ]
    }
}

pub(crate) fn pty_options(home: &Home, skein: &Path) -> PtyOptions {
    PtyOptions {
        holder: vec![skein.as_os_str().to_owned(), "holder".into()],
        root: home.root().join("runs"),
        groups: Groups::default(),
    }
}

#[cfg(debug_assertions)]
pub(super) fn points() -> Arc<dyn FaultPoints> {
    match points::TestPoints::from_environment() {
        Some(points) => Arc::new(points),
        None => Arc::new(NoFaultPoints),
    }
}

#[cfg(not(debug_assertions))]
pub(super) fn points() -> Arc<dyn FaultPoints> {
    Arc::new(NoFaultPoints)
}
