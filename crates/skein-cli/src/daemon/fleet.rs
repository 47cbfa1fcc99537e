//! What agents run on: workspaces, terminals, settings, memory. Picked and put together here.

mod credentials;
mod databases;
mod memory;
#[cfg(debug_assertions)]
mod points;
mod pool;
mod settings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skein_agent::moment::Zone;
use skein_engine::fleet::{FleetParts, NoPoints, Points};
use skein_runtime::Groups;
use skein_runtime::pty::{PtyOptions, PtyRuntime};
use skein_runtime::tmux::{TmuxOptions, TmuxRuntime};
use skein_workspace::provider::Provider;
use skein_workspace::{Dir, NoWorkspace, Options, Pool, Worktree};

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
        runtimes: vec![
            Arc::new(PtyRuntime::new(PtyOptions {
                groups,
                ..pty_options(home, &skein)
            })),
            Arc::new(TmuxRuntime::new(tmux_options(home, &skein))),
        ],
        settings: Arc::new(settings::Files::new(environment, pool)),
        memory: Arc::new(memory::Proc),
        databases: Arc::new(databases::Sqlite),
        zone: Zone::new(jiff::tz::TimeZone::system()),
        private: home.root().join("sessions"),
        logs: home.logs().join("sessions"),
        home: home.root().to_owned(),
        environment: env::for_agents(),
        credentials: credentials::open(home)?,
        points: points(),
        skein,
        roots: vec![roots.worktrees, roots.clones, roots.empty],
    })
}

/// Managed folders live in the home, which is never a temp folder unless somebody says so.
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

    fn providers(&self) -> Vec<Arc<dyn Provider>> {
        let options = Options {
            // Whatever a pool holds is taken; how much it is to hold, each project says.
            pool: Some(Arc::new(Pool::new(self.worktrees.clone(), 0))),
            ..Options::default()
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
        holder: words(skein, "holder"),
        root: home.root().join("runs"),
        groups: Groups::default(),
    }
}

pub(crate) fn tmux_options(home: &Home, skein: &Path) -> TmuxOptions {
    TmuxOptions {
        keeper: words(skein, "tmux-keeper"),
        root: home.root().join("tmux"),
    }
}

fn words(skein: &Path, mode: &str) -> Vec<OsString> {
    vec![skein.as_os_str().to_owned(), mode.into()]
}

#[cfg(debug_assertions)]
fn points() -> Arc<dyn Points> {
    match points::TestPoints::from_environment() {
        Some(points) => Arc::new(points),
        None => Arc::new(NoPoints),
    }
}

#[cfg(not(debug_assertions))]
fn points() -> Arc<dyn Points> {
    Arc::new(NoPoints)
}
