//! `skein config`

use clap::{Args, Subcommand};
use serde::Serialize;
use skein_wire::{List, Project};

use crate::context::{Context, Running, current_folder};
use crate::duration::Seconds;
use crate::error::UserError;
use crate::output::DIM;
use crate::settings::{self, Setting, Settings};
use crate::table::{Cell, Table};

/// Settings and where they come from
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show every setting that applies here, with its origin
    ///
    /// Limits and retention are those that `skein project add` gives a new project. An existing project keeps its own:
    /// `skein project show` shows them and `skein project set` changes them.
    Show,
}

#[derive(Debug, Serialize)]
struct Row {
    key: &'static str,
    value: Option<String>,
    origin: String,
}

impl Row {
    fn new<T: Clone + ToString>(key: &'static str, setting: &Setting<T>) -> Self {
        Self {
            key,
            value: Some(setting.value.to_string()),
            origin: setting.origin.to_string(),
        }
    }

    fn optional<T: Clone + ToString>(key: &'static str, setting: &Setting<Option<T>>) -> Self {
        Self {
            key,
            value: setting.value.as_ref().map(ToString::to_string),
            origin: setting.origin.to_string(),
        }
    }

    fn named(key: &'static str, value: String, variable: &str, set: bool) -> Self {
        Self {
            key,
            value: Some(value),
            origin: if set { variable } else { "built in" }.to_owned(),
        }
    }
}

pub(crate) async fn run(context: &Context, args: ConfigArgs) -> Result<(), UserError> {
    let ConfigCommand::Show = args.command;
    let folder = current_folder().ok();
    let root = folder
        .as_deref()
        .map(std::path::Path::new)
        .and_then(settings::settings_around);
    let settings = Settings::load(&context.environment, root)?;
    let list = List {
        data: rows(context, &settings),
        next: None,
    };
    context.out.list(&list, table, "no settings")?;
    if let Some(file) = settings::user_file(&context.environment) {
        context.out.note(&format!(
            "user settings: {}{}",
            file.display(),
            if file.exists() {
                ""
            } else {
                " (does not exist)"
            }
        ));
    }
    if !context.out.is_json()
        && let Some(folder) = folder
        && let Ok(Running::Here(client)) = context.running().await
        && let Ok(Some(project)) = client.find_project_at(&folder).await
    {
        print_differences(context, &settings, &project);
    }
    Ok(())
}

/// Limits and retention are read once, when a project is added; later changes of the file do not apply to it.
fn print_differences(context: &Context, settings: &Settings, project: &Project) {
    let show = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let ttl =
        |seconds: Option<u64>| show(seconds.filter(|n| *n > 0).map(|n| Seconds(n).to_string()));
    let most = |n: Option<u32>| show(n.filter(|n| *n > 0).map(|n| n.to_string()));
    let recorded = &project.retention;
    let differences: Vec<String> = [
        (
            "limits.depth",
            settings.depth.value.to_string(),
            project.limits.depth.to_string(),
        ),
        (
            "limits.width",
            settings.width.value.to_string(),
            project.limits.width.to_string(),
        ),
        (
            "retention.idle_ttl",
            ttl(settings.idle_ttl.value.map(|ttl| ttl.0)),
            ttl(recorded.idle_ttl_seconds),
        ),
        (
            "retention.max_ended",
            most(settings.max_ended.value),
            most(recorded.max_ended),
        ),
    ]
    .into_iter()
    .filter(|(_, here, there)| here != there)
    .map(|(key, _, there)| format!("{key} is {there}"))
    .collect();
    if !differences.is_empty() {
        context.out.note(&format!(
            "project {} was added with other values: {}; `skein project set` changes them",
            project.name,
            differences.join(", ")
        ));
    }
}

fn rows(context: &Context, settings: &Settings) -> Vec<Row> {
    let environment = &context.environment;
    let identity = &context.identity;
    let mut rows = vec![
        Row::named(
            "home",
            context.home.root().display().to_string(),
            "SKEIN_HOME",
            environment.skein_home.is_some(),
        ),
        Row::named(
            "endpoint",
            context.new_client().endpoint().to_string(),
            "SKEIN_URL",
            environment.url.is_some(),
        ),
        Row::named(
            "tenant",
            identity.tenant.clone(),
            if environment.tenant.as_deref() == Some(identity.tenant.as_ref()) {
                "SKEIN_TENANT"
            } else {
                "--tenant"
            },
            identity.tenant != "default" || environment.tenant.is_some(),
        ),
        Row::named(
            "actor",
            identity.actor.clone(),
            if environment.actor.is_some() {
                "SKEIN_ACTOR"
            } else {
                "USER"
            },
            environment.actor.is_some() || environment.user.is_some(),
        ),
        Row::optional("project.name", &settings.name),
        Row::optional("project.prefix", &settings.prefix),
        Row::new("limits.depth", &settings.depth),
        Row::new("limits.width", &settings.width),
        Row::optional("retention.idle_ttl", &settings.idle_ttl),
        Row::optional("retention.max_ended", &settings.max_ended),
        Row::new("log.level", &settings.log_level),
        Row::optional("daemon.listen", &settings.listen),
        Row::optional("daemon.token_agents", &settings.token_agents),
        Row::new("daemon.cgroup", &settings.cgroup),
    ];
    let transcripts = settings.transcripts.rows();
    let transcripts = transcripts.iter();
    rows.extend(transcripts.map(|(key, setting)| Row::optional(key, setting)));
    let fleet = settings.fleet.rows.iter();
    rows.extend(fleet.map(|(key, setting)| Row::optional(key, setting)));
    rows
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new("KEY ~VALUE ~ORIGIN");
    for row in rows {
        table.row(vec![
            row.key.into(),
            row.value
                .as_deref()
                .map_or_else(|| Cell::styled("–", DIM), Cell::new),
            Cell::styled(&row.origin, DIM),
        ]);
    }
    table
}
