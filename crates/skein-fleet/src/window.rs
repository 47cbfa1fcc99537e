//! Windows that show runs (`--runtime tmux`). The holder holds the agent either way; a window is opened beside it, and
//! one that cannot be opened changes nothing but what `show` and `why` print.

use std::sync::Arc;

use skein_domain::{Refused, RuntimeKind, Session, SessionId, TenantId};
use skein_runtime::window::{OpenMode, Windows};

use skein_ledger::ending::has_window;

use super::board::ObservationBoard;
use super::{Fleet, FleetRequests, SessionKey};
use crate::error::Error;
use skein_ledger::{Answer, RequestOutcome};

/// The window of a session's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The command that shows it in a terminal.
    pub command: String,
    /// Why it could not be opened.
    pub problem: Option<String>,
}

/// Opens windows, and shows on the board what is wrong with them.
#[derive(Debug)]
pub(crate) struct RunWindows {
    windows: Arc<dyn Windows>,
    board: Arc<ObservationBoard>,
}

impl RunWindows {
    pub(super) const fn new(windows: Arc<dyn Windows>, board: Arc<ObservationBoard>) -> Self {
        Self { windows, board }
    }

    /// Refuses a runtime whose windows this machine cannot open, before anything is made. Blocks for a moment.
    pub(super) fn check(&self, runtime: RuntimeKind) -> Result<(), Refused> {
        match runtime {
            RuntimeKind::Pty => Ok(()),
            RuntimeKind::Tmux => self.windows.check().map_err(|error| Refused::Workspace {
                what: format!("the runtime `tmux` needs the program `tmux`: {error}"),
                hints: vec![
                    "install tmux, and have it on the PATH of the daemon".into(),
                    "`--runtime pty` needs nothing".into(),
                ],
            }),
        }
    }

    /// Opens the window of the session's run, if its runtime has one, and notes why it could not.
    pub(super) async fn open(
        &self,
        session_key: &SessionKey,
        runtime: RuntimeKind,
        mode: OpenMode,
    ) {
        if runtime != RuntimeKind::Tmux {
            return;
        }
        let opened = self
            .windows
            .open(&session_key.tenant, &session_key.session, mode);
        let problem = opened.await.err().map(|error| error.to_string());
        if let Some(problem) = &problem {
            tracing::warn!(session = %session_key.session, problem, "a window could not be opened");
        }
        self.board
            .change(session_key, |o| o.window_problem = problem.clone());
    }

    /// The command that shows the window of the session's run in a terminal.
    fn command(&self, tenant: &TenantId, session: &SessionId) -> String {
        self.windows.command(tenant, session)
    }
}

impl Fleet {
    /// Opens windows that are missing beside runs that go on. Called once, when requests are served: what a window runs
    /// asks the daemon for its session.
    pub fn open_windows(self: &Arc<Self>) {
        let (fleet, stopping) = (self.clone(), self.ledger.tasks().stopping());
        self.ledger.tasks().start("windows", async move {
            tokio::select! {
                opened = fleet.open_missing_windows() => {
                    if let Err(error) = opened {
                        tracing::warn!(%error, "windows could not be looked after");
                    }
                }
                () = stopping => {}
            }
        });
    }

    async fn open_missing_windows(&self) -> Result<(), Error> {
        for run in self.runtime.list().await? {
            let Ok(tenant) = run.tenant.parse::<TenantId>() else {
                continue;
            };
            let session_key = SessionKey {
                tenant: tenant.clone(),
                session: run.session.clone(),
            };
            let id = run.session.clone();
            let requests = self.ledger.system_requests(tenant);
            let session = requests
                .store()
                .read(move |r| r.find::<Session>(id.as_str()))
                .await;
            let gear = session.ok().flatten().and_then(|session| session.gear);
            if let Some(gear) = gear.filter(|g| g.handle.as_ref() == Some(&run.handle))
                && run.exit.is_none()
            {
                let mode = OpenMode::IfMissing;
                self.windows.open(&session_key, gear.runtime, mode).await;
            }
        }
        Ok(())
    }
}

impl FleetRequests {
    /// After a restore: a run that goes on gets its window again. One that is about to be launched gets it then.
    pub(crate) async fn reopen_window(&self, answer: &Answer) {
        let Answer::Fresh(RequestOutcome::Session(session)) = answer else {
            return;
        };
        if has_window(session) && session.check_free().is_ok() {
            let (session_key, mode) = (self.ledger.session_key(&session.id), OpenMode::IfMissing);
            self.fleet
                .windows
                .open(&session_key, RuntimeKind::Tmux, mode)
                .await;
        }
    }

    /// The window of the session's run; none when it has no run or its runtime has no windows.
    pub fn window(&self, session: &Session) -> Option<Window> {
        has_window(session).then(|| Window {
            command: self
                .fleet
                .windows
                .command(self.ledger.tenant(), &session.id),
            problem: self.observations(session).window_problem,
        })
    }
}
