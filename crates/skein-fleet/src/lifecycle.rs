//! Spawn, kill and restore: the ledger records them, and the fleet is woken to carry them out. Also: which
//! programs a caller may start.

use skein_domain::{
    AgentName, Gear, LaunchSettings, Project, Refused, Right, SagaId, Session, WorkspaceKind,
    WorkspaceOrigin,
};
use skein_ledger::Answer;
use skein_ledger::ending::{KillOptions, live_descendants};
use skein_ledger::spawn::{LaunchOptions, OP, Spawn};
use skein_ledger::tasks::blocking;

use super::FleetRequests;
use super::settings::ProjectSettings;
use crate::error::Error;

impl FleetRequests {
    /// Makes a session. One without an agent is ready at once; one with an agent is `spawning`, and the
    /// response comes as soon as that is journalled: its saga does the rest.
    pub async fn spawn(&self, spawn: Spawn) -> Result<Answer, Error> {
        if let Some(earlier) = self.ledger.earlier().await? {
            return Ok(earlier);
        }
        let spawn = self.ledger.sessions().below_caller(spawn).await?;
        let agent = self.choose_agent(&spawn).await?;
        self.ledger.sessions().check_owner(&spawn, &agent).await?;
        if let Err(refused) = self.check_starts(&agent, &spawn.equip) {
            return Err(self.ledger.refused(OP, refused.into()).await);
        }
        if agent.is_none() {
            let agent = Some(agent);
            return Ok(self
                .ledger
                .sessions()
                .spawn(Spawn { agent, ..spawn })
                .await?);
        }
        let project = self.ledger.sessions().project_of(&spawn).await?;
        let tenant = self.ledger.tenant();
        let prepared = match self.fleet.prepare(tenant, &project, &agent, &spawn).await {
            Ok(prepared) => prepared,
            Err(error) => return Err(self.ledger.refused(OP, error).await),
        };
        let recorded = self
            .ledger
            .sessions()
            .record_spawn(spawn, agent, Some(prepared));
        let answer = recorded.await?;
        self.fleet.signals.wake_dispatcher();
        Ok(answer)
    }

    /// The agent named, else the one the project's settings name, else none.
    async fn choose_agent(&self, spawn: &Spawn) -> Result<AgentName, Error> {
        if let Some(agent) = &spawn.agent {
            return Ok(agent.clone());
        }
        if spawn.equip.launch.command.is_some() {
            return Ok("custom".parse()?);
        }
        let project = self.ledger.sessions().project_of(spawn).await?;
        let settings = self.settings_of(project).await?;
        Ok(settings.agent.unwrap_or_else(AgentName::none))
    }

    async fn settings_of(&self, project: Project) -> Result<ProjectSettings, Error> {
        let fleet = self.fleet.clone();
        blocking(move || fleet.programs.settings_of(&project))
            .await
            .map_err(|_| Error::STOPPED)?
    }

    /// Ends a session from outside; with `tree` its live descendants too, deepest first.
    pub async fn kill(&self, reference: String, order: KillOptions) -> Result<Answer, Error> {
        let answer = match self
            .ledger
            .sessions()
            .kill(reference.clone(), order.clone())
            .await
        {
            Err(error) if is_unwritable(&error) => {
                return Err(self.end_unrecorded(reference, order, error).await);
            }
            answer => answer?,
        };
        self.fleet.signals.turn();
        self.fleet.signals.wake_dispatcher();
        Ok(answer)
    }

    /// Ends the processes of a kill that the store cannot take, say because the disk is full: the caller wants
    /// them to stop now. The kill itself is kept in memory until it can be recorded.
    async fn end_unrecorded(
        &self,
        reference: String,
        order: KillOptions,
        source: skein_ledger::Error,
    ) -> Error {
        let must_own = self.ledger.must_own();
        let tree = order.tree;
        let found = self
            .ledger
            .read(move |reader| {
                let session: Session = reader.resolve(&reference)?;
                let mut all = vec![];
                if tree {
                    all = live_descendants(reader, &session)?;
                    all.reverse();
                }
                all.push(session);
                for session in &all {
                    session.check_owner(must_own.as_ref())?;
                }
                Ok(all)
            })
            .await;
        let (mut ended, mut left) = (vec![], vec![]);
        for session in found.unwrap_or_default() {
            if !session.has_run() {
                continue;
            }
            let session_key = self.ledger.session_key(&session.id);
            let saga = SagaId::from_random(self.ledger.ids().bits());
            match self
                .fleet
                .supervisors
                .end_now(&session_key, &session, order.clone(), saga)
                .await
            {
                Ok(()) => ended.push(session.id),
                Err(error) => left.push((session.id, error.to_string())),
            }
        }
        if ended.is_empty() && left.is_empty() {
            return source.into();
        }
        Error::KillUnrecorded {
            ended,
            left,
            source: Box::new(source),
        }
    }

    /// Brings an ended session back, on its next run. One whose agent runs and is shown in a window stays as it
    /// is, and gets a window that is missing.
    pub async fn restore(&self, reference: String) -> Result<Answer, Error> {
        self.check_relaunch(reference.clone()).await?;
        let answer = self.ledger.sessions().restore(reference).await?;
        self.reopen_window(&answer).await;
        self.fleet.signals.wake_dispatcher();
        Ok(answer)
    }

    /// Whether the caller may start the session's program once more: one that it could have started itself,
    /// in a checkout whose files no set-up command of the project runs.
    async fn check_relaunch(&self, reference: String) -> Result<(), Error> {
        if self.ledger.caller().rights.contains(Right::Run) {
            return Ok(());
        }
        let (session, project) = self.ledger.sessions().with_project(reference).await?;
        let Some(gear) = &session.gear else {
            return Ok(());
        };
        let settings = self.settings_of(project).await?;
        let checked = match chosen_before(gear, &settings) {
            Some(what) => Err(Refused::TokenField { what }),
            None => self.check_agent(&session.agent),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(refused) => Err(self
                .ledger
                .refused("restore a session", refused.into())
                .await),
        }
    }

    /// Refuses what a caller may not choose about the programs a spawn starts.
    fn check_starts(&self, agent: &AgentName, equip: &LaunchOptions) -> Result<(), Refused> {
        // A PATH means the caller's own machine, which is the daemon's only on the Unix socket.
        let chosen = if !self.ledger.caller().local && equip.launch.path.is_some() {
            Some("PATH, which is honoured on the Unix socket only")
        } else if self.ledger.caller().rights.contains(Right::Run) {
            None
        } else {
            chosen_program(equip)
        };
        if let Some(what) = chosen {
            return Err(Refused::TokenField { what });
        }
        self.check_agent(agent)
    }

    /// Refuses to start an agent that the caller may not start.
    fn check_agent(&self, agent: &AgentName) -> Result<(), Refused> {
        let named = || {
            let settings = self.fleet.programs.machine();
            settings.token_agents.contains(agent)
        };
        if agent.is_none() || self.ledger.caller().rights.contains(Right::Run) || named() {
            Ok(())
        } else {
            Err(Refused::TokenAgent {
                agent: agent.clone(),
            })
        }
    }
}

/// Whether the store could not write, whatever was asked of it.
fn is_unwritable(error: &skein_ledger::Error) -> bool {
    use skein_ledger::Error::Store;
    matches!(error, Store(skein_store::Error::Unavailable { .. }))
}

/// What of a spawn decides which program runs, on which files, or with which powers.
fn chosen_program(equip: &LaunchOptions) -> Option<&'static str> {
    first_chosen([
        chosen_launch(&equip.launch),
        (equip.adopt.is_some(), "a folder to adopt"),
        (
            equip.workspace == Some(WorkspaceKind::Dir),
            "to work in the project's own folder",
        ),
        (equip.permission.is_some(), "the agent's permission"),
        // The project's set-up commands run in what is checked out.
        (
            equip.base.is_some() || equip.branch.is_some(),
            "what is checked out",
        ),
    ])
}

/// As [`chosen_program`], of a session that is to be started again: the caller who made it may have had the right.
fn chosen_before(gear: &Gear, settings: &ProjectSettings) -> Option<&'static str> {
    let workspace = &gear.workspace;
    let own_folder =
        workspace.kind == WorkspaceKind::Dir && settings.workspace != Some(WorkspaceKind::Dir);
    first_chosen([
        chosen_launch(&gear.launch),
        (
            workspace.origin != WorkspaceOrigin::Made,
            "an adopted folder",
        ),
        (own_folder, "to work in the project's own folder"),
        (
            gear.launch.permission != settings.permission.unwrap_or_default(),
            "the agent's permission",
        ),
        (
            !settings.furnishing.setup.is_empty(),
            "to run set-up commands on files that a session changed",
        ),
    ])
}

fn chosen_launch(launch: &LaunchSettings) -> (bool, &'static str) {
    if launch.command.is_some() {
        (true, "the command")
    } else if !launch.env.is_empty() {
        (true, "environment variables")
    } else {
        (launch.path.is_some(), "PATH")
    }
}

fn first_chosen<const N: usize>(all: [(bool, &'static str); N]) -> Option<&'static str> {
    all.into_iter()
        .find_map(|(given, what)| given.then_some(what))
}
