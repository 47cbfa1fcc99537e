//! What a new session with an agent gets: decided and checked before anything is journalled.

use std::sync::Arc;

use skein_domain::{
    AbsPath, AgentName, BranchName, Gear, Invalid, Message, Project, PromptVia, Revision,
    RuntimeKind, SessionId, TenantId, Workspace, WorkspaceKind, WorkspaceOrigin,
};
use skein_workspace::provider::Plan;

use super::programs::agent_named;
use super::settings::ProjectSettings;
use super::{Fleet, outside};
use crate::error::Error;
use skein_ledger::spawn::{LaunchOptions, PreparedAgent, Spawn};
use skein_ledger::tasks::blocking;

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
        let settings = self.programs.settings_of(project)?;
        let agent = agent_named(&settings, name, equip.launch.via)?;
        let mut launch = equip.launch;
        let via = self
            .programs
            .prompt_via(&*agent, &settings, &launch, task)?;
        launch.prompt_via = Some(via);
        let permission = equip.permission.or(settings.permission).unwrap_or_default();
        launch.permission = equip
            .permission_limit
            .map_or(permission, |most| permission.min(most));
        launch.model = launch.model.or_else(|| settings.model.clone());
        launch.resume_after_limit |= settings.resume_after_limit;
        if launch.command.is_none() {
            self.programs.check_installed(&*agent, &launch)?;
        }
        let memory_mb = self.memory.needed_by(agent.name(), agent.known().memory_mb);
        let reserve = self.programs.machine().memory_reserve_mb;
        self.memory.check(agent.name(), memory_mb, reserve)?;
        let runtime = equip
            .runtime
            .or(settings.runtime)
            .unwrap_or(RuntimeKind::Pty);
        self.windows.check(runtime)?;
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
