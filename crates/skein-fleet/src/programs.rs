//! What agents' programs are chosen by and what they get: settings, folders, environment variables, a credential.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skein_agent::agent::{Agent, LaunchRequest};
use skein_agent::{DrivenAgent, launch};
use skein_domain::{
    Actor, AgentName, Gear, LaunchSettings, Message, Project, PromptVia, Refused, Session, Via,
};
use skein_ledger::CredentialKey;
use skein_ledger::credential::RunClaims;

use super::SessionKey;
use super::settings::{MachineSettings, ProjectSettings, Settings};
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct AgentPrograms {
    pub(crate) settings: Arc<dyn Settings>,
    pub(crate) folders: SessionFolders,
    pub(crate) home: PathBuf,
    /// This program, for hooks and built-in agents.
    pub(crate) skein: PathBuf,
    /// What agents get of the daemon's environment.
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) credentials: CredentialKey,
}

/// Where files of sessions are, besides their workspaces.
#[derive(Debug)]
pub(crate) struct SessionFolders {
    pub(crate) private: PathBuf,
    pub(crate) logs: PathBuf,
}

impl SessionFolders {
    /// The session's folder for settings files, which only Skein writes.
    pub(crate) fn private(&self, session_key: &SessionKey) -> PathBuf {
        below(&self.private, session_key)
    }

    /// Where the history of all its runs is kept.
    pub(crate) fn logs(&self, session_key: &SessionKey) -> PathBuf {
        below(&self.logs, session_key)
    }

    /// Where the history of one run is kept.
    pub(crate) fn log(&self, session_key: &SessionKey, run: u64) -> PathBuf {
        self.logs(session_key).join(format!("{run}.log"))
    }

    /// Where the output of the last set-up is kept.
    pub(crate) fn setup_log(&self, session_key: &SessionKey) -> PathBuf {
        self.logs(session_key).join("setup.log")
    }
}

fn below(root: &Path, session_key: &SessionKey) -> PathBuf {
    root.join(session_key.tenant.as_str())
        .join(session_key.session.as_str())
}

/// How the supervisor talks to the session's agent.
pub(crate) fn via_of(session: &Session) -> Via {
    session
        .gear
        .as_ref()
        .map_or(Via::Terminal, |g| g.launch.via)
}

/// The agent with this name, behind the port that the session uses.
pub(crate) fn agent_named(
    settings: &ProjectSettings,
    name: &AgentName,
    via: Via,
) -> Result<Arc<dyn Agent>, Error> {
    let agent = settings.agents.get(name)?;
    match via {
        Via::Terminal => Ok(agent),
        via => Ok(Arc::new(DrivenAgent::new(agent, via)?)),
    }
}

impl AgentPrograms {
    /// What the project's settings say; read anew each time, since people edit them.
    pub(crate) fn settings_of(&self, project: &Project) -> Result<ProjectSettings, Error> {
        self.settings.project(project).map_err(Error::Settings)
    }

    pub(crate) fn machine(&self) -> MachineSettings {
        self.settings.machine()
    }

    pub(crate) fn agent(
        &self,
        session: &Session,
        project: &Project,
    ) -> Result<Arc<dyn Agent>, Error> {
        agent_named(&self.settings_of(project)?, &session.agent, via_of(session))
    }

    /// How the task will reach the agent; refuses a way that the agent does not know. Decided once: only what is typed
    /// has a receipt.
    pub(crate) fn prompt_via(
        &self,
        agent: &dyn Agent,
        settings: &ProjectSettings,
        launch: &LaunchSettings,
        task: &Message,
    ) -> Result<PromptVia, Error> {
        let env = self.environment(launch, settings, agent, &BTreeMap::new());
        let room = launch::room_of(&env);
        let (name, abilities) = (agent.name(), agent.abilities());
        Ok(launch::choose(
            name,
            abilities,
            launch.prompt_via,
            task,
            room,
        )?)
    }

    /// Refuses an agent whose program is not installed.
    pub(crate) fn check_installed(
        &self,
        agent: &dyn Agent,
        launch: &LaunchSettings,
    ) -> Result<(), Error> {
        let path = launch.path.clone().unwrap_or_else(|| self.usual_path());
        let found = agent.find(&path, &self.known_environment(agent));
        // A line that only the shell can read names no program that could be missing.
        let Some(what) = found.missing else {
            return Ok(());
        };
        let install = found.install.map(|i| format!("`{i}` installs it"));
        let list = "`skein agent ls` tells which agents are here".to_owned();
        Err(Refused::Workspace {
            what,
            hints: install.into_iter().chain([list]).collect(),
        }
        .into())
    }

    pub(crate) fn usual_path(&self) -> String {
        self.variables
            .get("PATH")
            .cloned()
            .unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
    }

    pub(crate) fn launch_request(
        &self,
        session_key: &SessionKey,
        session: &Session,
        gear: &Gear,
        settings: &ProjectSettings,
        agent: &dyn Agent,
    ) -> LaunchRequest {
        LaunchRequest {
            session: session.id.clone(),
            run: session.run,
            task: Message::from(&session.task),
            settings: gear.launch.clone(),
            workspace: PathBuf::from(gear.workspace.path.as_str()),
            private: self.folders.private(session_key),
            skein: self.skein.clone(),
            path: gear
                .launch
                .path
                .clone()
                .unwrap_or_else(|| self.usual_path()),
            env: self.environment(&gear.launch, settings, agent, &BTreeMap::new()),
            native: gear.native.clone(),
        }
    }

    /// What the set-up commands of a session are found by; no other home's carry it.
    pub(crate) fn setup_mark(&self, session_key: &SessionKey) -> String {
        let home = self.home.display();
        format!(
            "setup/{}/{}/{home}",
            session_key.tenant, session_key.session
        )
    }

    /// What an agent finds in its environment before the project or the caller sets anything: little of the daemon's.
    pub(crate) fn known_environment(&self, agent: &dyn Agent) -> BTreeMap<String, String> {
        let mut env = self.variables.clone();
        env.retain(|name, _| !name.starts_with("SKEIN_"));
        for name in &agent.abilities().inherits {
            if let Some(value) = self.passed(name) {
                env.insert(name.clone(), value);
            }
        }
        env
    }

    /// And with what the project passes on, what the agent itself needs, and what people set.
    pub(crate) fn environment(
        &self,
        launch: &LaunchSettings,
        settings: &ProjectSettings,
        agent: &dyn Agent,
        start: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut env = self.known_environment(agent);
        for name in &settings.pass {
            if let Some(value) = self.passed(name) {
                env.insert(name.clone(), value);
            }
        }
        if let Some(path) = &launch.path {
            env.insert("PATH".into(), path.clone());
        }
        env.extend(start.clone());
        for variable in settings.env.iter().chain(&launch.env) {
            env.insert(variable.name().to_owned(), variable.value().to_owned());
        }
        env
    }

    /// Skein's own variables, which override all others.
    pub(crate) fn own_variables(
        &self,
        session_key: &SessionKey,
        session: &Session,
    ) -> BTreeMap<String, String> {
        let own = [
            ("SKEIN_HOME", self.home.display().to_string()),
            ("SKEIN_TENANT", session_key.tenant.to_string()),
            ("SKEIN_SESSION", session.id.to_string()),
            ("SKEIN_RUN", session.run.to_string()),
            ("SKEIN_BIN", self.skein.display().to_string()),
            ("SKEIN_CREDENTIAL", self.credential(session_key, session)),
        ];
        own.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// What the agent proves itself with. It acts as the session's owner only if that is an agent: what a
    /// program does is never recorded as done by a person.
    fn credential(&self, session_key: &SessionKey, session: &Session) -> String {
        let actor = match &session.owner {
            owner @ Actor::Agent(_) => owner.clone(),
            Actor::User(_) | Actor::System => {
                let name = format!("agent:{}", session.agent);
                name.parse().unwrap_or(Actor::System)
            }
        };
        self.credentials.issue(&RunClaims {
            tenant: session_key.tenant.clone(),
            session: session.id.clone(),
            run: session.run,
            actor,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "people named the variables that agents get from here"
    )]
    fn passed(&self, name: &str) -> Option<String> {
        if name.starts_with("SKEIN_") {
            return None;
        }
        std::env::var(name).ok()
    }
}
