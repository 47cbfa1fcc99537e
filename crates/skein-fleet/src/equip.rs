//! What a new session with an agent gets: decided and checked before anything is journalled.

use std::collections::BTreeMap;
use std::sync::Arc;

use skein_agent::agent::Agent;
use skein_agent::{DrivenAgent, launch};
use skein_domain::{
    AbsPath, AgentName, BranchName, Gear, Invalid, LaunchSettings, Message, Project, PromptVia,
    Refused, Revision, RuntimeKind, SessionId, TenantId, Via, Workspace, WorkspaceKind,
    WorkspaceOrigin,
};
use skein_workspace::provider::Plan;

use super::settings::ProjectSettings;
use super::{Fleet, outside};
use crate::error::Error;
use skein_ledger::spawn::{LaunchOptions, PreparedAgent, Spawn};
use skein_ledger::tasks::blocking;

/// The agent as it is talked to in this session.
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

impl Fleet {
    /// Looks at everything a spawn needs and refuses what cannot work; makes nothing.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        tenant: &TenantId,
        project: &Project,
        agent: &AgentName,
        spawn: &Spawn,
    ) -> Result<PreparedAgent, Error> {
        let (fleet, tenant, project) = (self.clone(), tenant.clone(), project.clone());
        let (agent, equip) = (agent.clone(), spawn.equip.clone());
        let task = Message::from(&spawn.task);
        blocking(move || fleet.prepare_now(&tenant, &project, &agent, &task, equip))
            .await
            .map_err(|_| Error::STOPPED)?
    }

    fn prepare_now(
        &self,
        tenant: &TenantId,
        project: &Project,
        name: &AgentName,
        task: &Message,
        equip: LaunchOptions,
    ) -> Result<PreparedAgent, Error> {
        let settings = self.settings_of(project)?;
        let agent = agent_named(&settings, name, equip.launch.via)?;
        let mut launch = equip.launch;
        let via = self.prompt_via(&*agent, &settings, &launch, task)?;
        launch.prompt_via = Some(via);
        launch.permission = equip.permission.or(settings.permission).unwrap_or_default();
        launch.model = launch.model.or_else(|| settings.model.clone());
        launch.resume_after_limit |= settings.resume_after_limit;
        if launch.command.is_none() {
            self.check_installed(&*agent, &launch)?;
        }
        let memory_mb = self.appetites.of(agent.name(), agent.known().memory_mb);
        self.check_memory(&*agent, memory_mb)?;
        let runtime = equip
            .runtime
            .or(settings.runtime)
            .unwrap_or(RuntimeKind::Pty);
        self.check_windows(runtime)?;
        let workspace = self.plan(
            tenant,
            project,
            &settings,
            &equip.workspace,
            &equip.branch,
            &equip.base,
            &equip.adopt,
        )?;
        let floor = match project.path.as_deref().map(str::parse::<AbsPath>) {
            Some(Ok(path)) => outside::highest_session(&path, project.prefix.as_str()),
            _ => 0,
        };
        Ok(PreparedAgent {
            own_branch: equip.branch.is_none()
                && workspace.origin == WorkspaceOrigin::Made
                && workspace.branch.is_some(),
            gear: Gear {
                runtime,
                launch,
                workspace,
                handle: None,
                native: None,
                saga: None,
                input: 0,
                spent: None,
                read: vec![],
                limit: None,
                note: None,
            },
            memory_mb,
            typed: via == PromptVia::Typed,
            floor,
        })
    }

    /// How the task will reach the agent; refuses a way it does not know. Decided once: only what is typed has a
    /// receipt.
    fn prompt_via(
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

    fn check_installed(&self, agent: &dyn Agent, launch: &LaunchSettings) -> Result<(), Error> {
        let path = launch.path.clone().unwrap_or_else(|| self.usual_path());
        let found = agent.find(&path, &self.known_environment(agent));
        // Of a line that only the shell can read no program is known, and none is missing.
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
        self.environment
            .get("PATH")
            .cloned()
            .unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
    }

    fn check_memory(&self, agent: &dyn Agent, needed: u64) -> Result<(), Refused> {
        let reserve = self.settings.machine().memory_reserve_mb;
        match self.memory.free_mb() {
            Some(free) if needed > free.saturating_sub(reserve) => Err(Refused::Memory {
                agent: agent.name().to_string(),
                needed,
                free: free.saturating_sub(reserve),
            }),
            _ => Ok(()),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one per thing people can ask for"
    )]
    fn plan(
        &self,
        tenant: &TenantId,
        project: &Project,
        settings: &ProjectSettings,
        kind: &Option<WorkspaceKind>,
        branch: &Option<BranchName>,
        base: &Option<Revision>,
        adopt: &Option<AbsPath>,
    ) -> Result<Workspace, Error> {
        let folder: Option<AbsPath> = project.path.as_deref().map(str::parse).transpose()?;
        if let Some(path) = adopt {
            let Some(folder) = &folder else {
                return Err(
                    Invalid::new("project", project.name.as_str(), "it has no folder").into(),
                );
            };
            return Ok(skein_workspace::adopt(folder, path)?);
        }
        let kind = kind.or(settings.workspace).unwrap_or(match &folder {
            Some(folder) if outside::is_repository(folder) => WorkspaceKind::Worktree,
            Some(_) => WorkspaceKind::Dir,
            None => WorkspaceKind::None,
        });
        let plan = Plan {
            // Stands in for the number that is given later; no branch or folder is called so.
            session: SessionId::new(&project.prefix, u64::MAX >> 1),
            tenant: tenant.to_string(),
            project: folder,
            branch: branch.clone(),
            base: base.clone().or_else(|| settings.base.clone()),
        };
        Ok(self.provider(kind)?.plan(&plan)?)
    }
}
