//! The settings of a project and of the machine, as the fleet needs them.

use std::fmt;

use skein_agent::registry::Registry;
use skein_domain::{
    AgentName, EnvVar, ModelName, Permission, Project, Revision, RuntimeKind, StatusThresholds,
    WorkspaceKind,
};
use skein_workspace::provider::WorkspaceSetup;
use thiserror::Error;

/// Reads settings when they are needed. Implemented by the composition root.
pub trait Settings: Send + Sync + fmt::Debug {
    fn project(&self, project: &Project) -> Result<ProjectSettings, SettingsError>;
    fn machine(&self) -> MachineSettings;
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SettingsError {
    pub message: String,
    pub hints: Vec<String>,
}

/// One flat table: an entry for each setting that a project may have.
#[derive(Clone, Debug, Default)]
pub struct ProjectSettings {
    pub agents: Registry,
    /// The agent of a session that names none.
    pub agent: Option<AgentName>,
    pub workspace: Option<WorkspaceKind>,
    pub runtime: Option<RuntimeKind>,
    pub base: Option<Revision>,
    pub furnishing: WorkspaceSetup,
    /// Agents at once in this project; the rest queues.
    pub concurrency: Option<u32>,
    pub patience: StatusThresholds,
    pub env: Vec<EnvVar>,
    /// Variables of the daemon's environment that agents get besides the usual ones.
    pub pass: Vec<String>,
    pub permission: Option<Permission>,
    /// Whether the supervisor sends agents that a limit stopped a message to go on when it is over.
    pub resume_after_limit: bool,
    pub model: Option<ModelName>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSettings {
    /// Agents at once on this machine; the rest queues.
    pub concurrency: Option<u32>,
    /// Memory that agents leave alone.
    pub memory_reserve_mb: u64,
    /// Agents that tokens without the right `run` may start.
    pub token_agents: Vec<AgentName>,
}
