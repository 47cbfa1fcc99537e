//! Settings of agents, read each time they are needed: people edit them while the daemon runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use skein_agent::Registry;
use skein_domain::{
    AgentName, EnvVar, Invalid, Permission, Project, RuntimeKind, StatusThresholds, WorkspaceKind,
};
use skein_fleet::{MachineSettings, ProjectSettings, Settings, SettingsError};
use skein_workspace::provider::WorkspaceSetup;

use super::pool::Filler;
use crate::env::Environment;
use crate::error::UserError;
use crate::settings::{PROJECT_FILE, RawConfig, Scope, user_file};

/// The default of the memory that agents must leave free.
const RESERVE_MB: u64 = 256;

/// The settings files: `skein.toml` of a project, `config.toml` of the user.
#[derive(Debug)]
pub(super) struct SettingsFiles {
    user: Option<PathBuf>,
    pool: Filler,
}

impl SettingsFiles {
    pub(super) fn new(environment: &Environment, pool: Filler) -> Self {
        Self {
            user: user_file(environment),
            pool,
        }
    }
}

impl Settings for SettingsFiles {
    fn project(&self, project: &Project) -> Result<ProjectSettings, SettingsError> {
        let Some(folder) = project.path.as_deref().map(Path::new) else {
            return Ok(ProjectSettings::default());
        };
        let path = folder.join(PROJECT_FILE);
        match RawConfig::read(&path, Scope::Project).map_err(from_user_error)? {
            Some(raw) => {
                let size = raw.pool.unwrap_or(0);
                let settings = complete(raw, folder).map_err(|error| in_file(error, &path))?;
                if let Some(Ok(project)) = project.path.as_deref().map(str::parse) {
                    self.pool.note(&project, usize::try_from(size).unwrap_or(0));
                }
                Ok(settings)
            }
            None => Ok(ProjectSettings::default()),
        }
    }

    fn machine(&self) -> MachineSettings {
        let raw = match &self.user {
            None => None,
            Some(path) => RawConfig::read(path, Scope::User).unwrap_or_else(|error| {
                tracing::warn!(
                    error = error.message(),
                    "the user's settings cannot be read"
                );
                None
            }),
        };
        let raw = raw.unwrap_or_default();
        MachineSettings {
            concurrency: raw.concurrency,
            memory_reserve_mb: raw.memory_reserve_mb.unwrap_or(RESERVE_MB),
            token_agents: token_agents(raw.daemon.token_agents.unwrap_or_default()),
        }
    }
}

/// An invalid name allows no agent and is logged.
fn token_agents(names: Vec<String>) -> Vec<AgentName> {
    let parse = |name: String| match name.parse() {
        Ok(agent) => Some(agent),
        Err(error) => {
            let error: Invalid = error;
            tracing::warn!(%error, "`daemon.token_agents` names no agent there");
            None
        }
    };
    names.into_iter().filter_map(parse).collect()
}

fn complete(raw: RawConfig, folder: &Path) -> Result<ProjectSettings, SettingsError> {
    let usual = StatusThresholds::default();
    let agents = Registry::built_in()
        .with(&raw.agents, folder)
        .map_err(|error| SettingsError {
            message: error.to_string(),
            hints: error.hints(),
        })?;
    for name in raw.pass.iter().flatten() {
        EnvVar::new(name, "").map_err(|error| keyed("pass", &error))?;
    }
    let env = raw
        .env
        .iter()
        .map(|(name, value)| EnvVar::new(name, value))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| keyed("env", &error))?;
    Ok(ProjectSettings {
        agents,
        agent: parsed("agent", raw.agent)?,
        workspace: word(
            "workspace",
            raw.workspace,
            &WorkspaceKind::ALL.map(WorkspaceKind::as_str),
            WorkspaceKind::parse,
        )?,
        runtime: word(
            "runtime",
            raw.runtime,
            &RuntimeKind::ALL.map(RuntimeKind::as_str),
            RuntimeKind::parse,
        )?,
        base: parsed("base", raw.base)?,
        furnishing: WorkspaceSetup {
            copy: raw.copy.unwrap_or_default(),
            symlink: raw.symlink.unwrap_or_default(),
            setup: raw.setup.unwrap_or_default(),
            timeout: raw.setup_timeout.map(|t| Duration::from_secs(t.0)),
            env: raw.env,
        },
        concurrency: raw.concurrency,
        patience: StatusThresholds {
            stall_seconds: raw.stall.map_or(usual.stall_seconds, |stall| stall.0),
            ..usual
        },
        env,
        pass: raw.pass.unwrap_or_default(),
        resume_after_limit: raw.resume_after_limit.unwrap_or(false),
        permission: word(
            "permission",
            raw.permission,
            &Permission::ALL.map(Permission::as_str),
            Permission::parse,
        )?,
        model: parsed("model", raw.model)?,
    })
}

fn parsed<T: std::str::FromStr<Err = Invalid>>(
    key: &str,
    text: Option<String>,
) -> Result<Option<T>, SettingsError> {
    text.map(|text| text.parse().map_err(|error| keyed(key, &error)))
        .transpose()
}

fn word<T>(
    key: &str,
    text: Option<String>,
    known: &[&str],
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, SettingsError> {
    text.map(|text| {
        parse(&text).ok_or_else(|| SettingsError {
            message: format!("`{key}` cannot be `{}`", text.escape_debug()),
            hints: vec![format!("it is one of {}", known.join(", "))],
        })
    })
    .transpose()
}

fn keyed(key: &str, error: &Invalid) -> SettingsError {
    SettingsError {
        message: format!("`{key}`: {error}"),
        hints: vec![],
    }
}

fn in_file(error: SettingsError, path: &Path) -> SettingsError {
    SettingsError {
        message: format!("{} in `{}`", error.message, path.display()),
        hints: error.hints,
    }
}

fn from_user_error(error: UserError) -> SettingsError {
    let body = error.to_body().error;
    SettingsError {
        message: body.message,
        hints: body.hints,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ProjectSettings, SettingsError> {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join(PROJECT_FILE);
        std::fs::write(&path, text).unwrap();
        let raw = RawConfig::read(&path, Scope::Project)
            .map_err(from_user_error)?
            .unwrap();
        complete(raw, temp.path()).map_err(|error| in_file(error, &path))
    }

    #[test]
    fn a_project_can_set_everything_about_its_agents() {
        let settings = read(
            "agent = 'mine'\nworkspace = 'clone'\nruntime = 'tmux'\nbase = 'develop'\n\
             copy = ['.env']\nsetup = ['make']\nsetup_timeout = '5m'\nconcurrency = 3\nstall = '2m'\n\
             permission = 'edits'\nmodel = 'big'\npass = ['TOKEN']\npool = 2\n\
             [env]\nA = 'b'\n[agents.mine]\ncommand = 'mine'\n",
        )
        .unwrap();
        assert_eq!(settings.agent.unwrap().as_str(), "mine");
        assert_eq!(settings.workspace, Some(WorkspaceKind::Clone));
        assert_eq!(settings.runtime, Some(RuntimeKind::Tmux));
        assert_eq!(settings.furnishing.timeout, Some(Duration::from_secs(300)));
        assert_eq!(settings.furnishing.env["A"], "b");
        assert_eq!(settings.concurrency, Some(3));
        assert_eq!(settings.patience.stall_seconds, 120);
        assert_eq!(settings.env.len(), 1);
        assert!(settings.agents.get(&"mine".parse().unwrap()).is_ok());
    }

    #[test]
    fn l13_l14_settings_that_cannot_be_name_key_and_file() {
        for (text, expected) in [
            ("agent = 'a b'\n", "`agent`"),
            ("workspace = 'cloud'\n", "`workspace` cannot be `cloud`"),
            ("runtime = 'screen'\n", "`runtime` cannot be"),
            ("base = '-x'\n", "`base`"),
            ("permission = 'all'\n", "`permission` cannot be"),
            ("pass = ['SKEIN_HOME']\n", "`pass`"),
            ("[env]\nSKEIN_HOME = 'x'\n", "`env`"),
            ("[agents.none]\ncommand = 'x'\n", "agents.none"),
            (
                "[agents.x]\ncommnad = 'x'\n",
                "unknown key `agents.x.commnad`",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(expected), "{text}: {error}");
            assert!(error.message.contains("skein.toml"), "{text}: {error}");
        }
    }
}
