//! Settings in three steps: raw files, layers, complete settings. Each value knows its origin.

mod fleet;
mod raw;
mod transcripts;

use std::fmt;
use std::path::{Path, PathBuf};

use skein_wire::AddProject;

use crate::duration::Seconds;
use crate::env::Environment;
use crate::error::UserError;
pub(crate) use fleet::FleetSettings;
pub(crate) use raw::{LEVELS, RawConfig, Scope};
pub(crate) use transcripts::{KeySource, TranscriptSettings};

/// The name of a project's settings file.
pub(crate) const PROJECT_FILE: &str = "skein.toml";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    BuiltIn,
    File(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T: Clone> Setting<T> {
    fn built_in(value: T) -> Self {
        Self {
            value,
            origin: Origin::BuiltIn,
        }
    }

    fn lay(&mut self, value: Option<T>, origin: &Origin) {
        if let Some(value) = value {
            self.value = value;
            self.origin = origin.clone();
        }
    }

    /// The value, unless it is the built-in default.
    pub(crate) fn chosen(&self) -> Option<T> {
        (self.origin != Origin::BuiltIn).then(|| self.value.clone())
    }
}

/// The complete settings; flags override them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) name: Setting<Option<String>>,
    pub(crate) prefix: Setting<Option<String>>,
    pub(crate) depth: Setting<u32>,
    pub(crate) width: Setting<u32>,
    pub(crate) idle_ttl: Setting<Option<Seconds>>,
    pub(crate) max_ended: Setting<Option<u32>>,
    pub(crate) log_level: Setting<String>,
    pub(crate) listen: Setting<Option<String>>,
    pub(crate) token_agents: Setting<Option<String>>,
    /// As [`skein_runtime::Groups`] reads it.
    pub(crate) cgroup: Setting<String>,
    pub(crate) transcripts: TranscriptSettings,
    pub(crate) fleet: FleetSettings,
}

impl Settings {
    fn built_in() -> Self {
        let limits = skein_domain::Limits::default();
        Self {
            name: Setting::built_in(None),
            prefix: Setting::built_in(None),
            depth: Setting::built_in(limits.depth),
            width: Setting::built_in(limits.width),
            idle_ttl: Setting::built_in(None),
            max_ended: Setting::built_in(None),
            log_level: Setting::built_in("info".to_owned()),
            listen: Setting::built_in(None),
            token_agents: Setting::built_in(None),
            cgroup: Setting::built_in("auto".to_owned()),
            transcripts: TranscriptSettings::built_in(),
            fleet: FleetSettings::built_in(),
        }
    }

    /// The built-in values, overridden by the user's file, overridden by the project's.
    pub(crate) fn load(
        environment: &Environment,
        folder: Option<&Path>,
    ) -> Result<Self, UserError> {
        let mut settings = Self::built_in();
        if let Some(path) = user_file(environment)
            && let Some(raw) = RawConfig::read(&path, Scope::User)?
        {
            let origin = Origin::File(path.clone());
            settings.fleet.lay(&raw.table, Scope::User, &origin);
            settings.transcripts.lay(&raw.transcripts, &path)?;
            settings.lay(raw, &origin);
        }
        if let Some(folder) = folder {
            let path = folder.join(PROJECT_FILE);
            if let Some(raw) = RawConfig::read(&path, Scope::Project)? {
                let origin = Origin::File(path);
                settings.fleet.lay(&raw.table, Scope::Project, &origin);
                settings.lay(raw, &origin);
            }
        }
        Ok(settings)
    }

    /// The request that makes a project with these settings.
    pub(crate) fn new_project(self, path: Option<String>) -> AddProject {
        AddProject {
            depth: self.depth.chosen(),
            width: self.width.chosen(),
            name: self.name.value,
            path,
            prefix: self.prefix.value,
            idle_ttl_seconds: self.idle_ttl.value.map(|ttl| ttl.0).filter(|ttl| *ttl > 0),
            max_ended: self.max_ended.value.filter(|most| *most > 0),
        }
    }

    fn lay(&mut self, raw: RawConfig, origin: &Origin) {
        self.name.lay(raw.project.name.map(Some), origin);
        self.prefix.lay(raw.project.prefix.map(Some), origin);
        self.depth.lay(raw.limits.depth, origin);
        self.width.lay(raw.limits.width, origin);
        self.idle_ttl.lay(raw.retention.idle_ttl.map(Some), origin);
        self.max_ended
            .lay(raw.retention.max_ended.map(Some), origin);
        self.log_level.lay(raw.log.level, origin);
        self.listen.lay(raw.daemon.listen.map(Some), origin);
        let agents = raw.daemon.token_agents.map(|names| names.join(", "));
        self.token_agents.lay(agents.map(Some), origin);
        self.cgroup.lay(raw.daemon.cgroup, origin);
    }
}

/// `config.toml` in the XDG configuration folder, whether it exists or not.
pub(crate) fn user_file(environment: &Environment) -> Option<PathBuf> {
    let folder = environment
        .xdg_config_home
        .clone()
        .or_else(|| Some(environment.home.as_ref()?.join(".config")))?;
    Some(folder.join("skein/config.toml"))
}

/// The nearest enclosing folder with project settings.
pub(crate) fn settings_around(folder: &Path) -> Option<&Path> {
    folder
        .ancestors()
        .find(|folder| folder.join(PROJECT_FILE).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(user: &str, project: &str) -> Result<Settings, UserError> {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("skein")).unwrap();
        std::fs::write(temp.path().join("skein/config.toml"), user).unwrap();
        std::fs::write(temp.path().join(PROJECT_FILE), project).unwrap();
        let environment = Environment {
            xdg_config_home: Some(temp.path().to_owned()),
            ..Environment::default()
        };
        Settings::load(&environment, Some(temp.path()))
    }

    #[test]
    fn the_folder_covers_the_user_and_the_user_covers_the_built_in() {
        let settings = load(
            "[limits]\ndepth = 2\nwidth = 3\n[log]\nlevel = \"debug\"\n",
            "[limits]\nwidth = 5\n[retention]\nidle_ttl = \"7d\"\n",
        )
        .unwrap();
        assert_eq!(settings.depth.value, 2);
        assert_eq!(settings.width.value, 5);
        assert_eq!(settings.idle_ttl.value, Some(Seconds(604_800)));
        assert_eq!(settings.max_ended, Setting::built_in(None));
        assert_eq!(settings.log_level.value, "debug");
        let file = |origin: &Origin| match origin {
            Origin::File(path) => path.file_name().unwrap().to_str().unwrap().to_owned(),
            Origin::BuiltIn => "built in".to_owned(),
        };
        assert_eq!(file(&settings.depth.origin), "config.toml");
        assert_eq!(file(&settings.width.origin), "skein.toml");
        assert_eq!(settings.max_ended.chosen(), None);
    }

    #[test]
    fn unknown_keys_name_the_nearest() {
        let check = |user: &str, project: &str, expected: &str, hint: &str| {
            let error = load(user, project).unwrap_err();
            assert_eq!(error.kind(), skein_client::ErrorKind::Misuse);
            assert!(error.message().starts_with(expected), "{}", error.message());
            assert_eq!(error.hints(), [hint]);
        };
        check(
            "",
            "[limits]\ndepht = 3\n",
            "unknown key `limits.depht`",
            "did you mean `limits.depth`?",
        );
        check(
            "",
            "[limit]\ndepth = 3\n",
            "unknown key `limit`",
            "did you mean `limits`?",
        );
        check(
            "",
            "width = 3\n",
            "unknown key `width`",
            "did you mean `limits.width`?",
        );
        check(
            "",
            "agnet = \"claude\"\n",
            "unknown key `agnet`",
            "did you mean `agent`?",
        );
        check(
            "",
            "setup_timout = \"5m\"\n",
            "unknown key `setup_timout`",
            "did you mean `setup_timeout`?",
        );
        check(
            "",
            "memory_reserve_mb = 5\n",
            "key `memory_reserve_mb` does not belong",
            "move it to the user's `config.toml`; `skein config show` prints its path",
        );
        check(
            "agent = \"claude\"\n",
            "",
            "key `agent` does not belong",
            "move it to the project's `skein.toml`",
        );
        check(
            "",
            "[daemon]\nlisten = \"127.0.0.1:1\"\n",
            "key `daemon` does not belong",
            "move it to the user's `config.toml`; `skein config show` prints its path",
        );
        check(
            "[project]\nname = \"x\"\n",
            "",
            "key `project` does not belong",
            "move it to the project's `skein.toml`",
        );
    }

    #[test]
    fn numbers_are_called_numbers() {
        let error = load("", "[limits]\ndepth = \"four\"\n").unwrap_err();
        assert_eq!(
            error.causes(),
            ["invalid type: string \"four\", expected a whole number"]
        );
    }

    #[test]
    fn wrong_types_and_broken_files_are_named() {
        for bad in [
            "[limits]\ndepth = \"x\"\n",
            "[limits]\ndepth = -1\n",
            "[retention]\nidle_ttl = \"soon\"\n",
            "[limits",
            "limits = 3\n",
        ] {
            let error = load("", bad).unwrap_err();
            assert!(
                error.message().contains("skein.toml"),
                "{}",
                error.message()
            );
        }
    }
}
