//! `skein config`

use clap::{Args, Subcommand};
use serde::Serialize;
use skein_wire::List;

use crate::context::{Context, current_folder};
use crate::error::UserError;
use crate::output::DIM;
use crate::settings::{self, Setting, Settings};
use crate::table::{Align, Cell, Table};

/// Settings and where they come from
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show every setting that holds here, with its origin
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
        .and_then(|folder| {
            folder
                .ancestors()
                .find(|folder| folder.join(settings::PROJECT_FILE).is_file())
        });
    let settings = Settings::load(&context.environment, root)?;
    let list = List {
        data: rows(context, &settings),
        next: None,
    };
    context
        .out
        .list(&list, list.data.len(), || table(&list.data), "no settings")?;
    if let Some(file) = settings::user_file(&context.environment) {
        context.out.note(&format!(
            "the user's settings are read from {}{}",
            file.display(),
            if file.exists() {
                ""
            } else {
                " (which does not exist)"
            }
        ));
    }
    Ok(())
}

fn rows(context: &Context, settings: &Settings) -> Vec<Row> {
    let environment = &context.environment;
    let identity = &context.identity;
    vec![
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
    ]
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        ("KEY", Align::Left),
        ("VALUE", Align::Left),
        ("ORIGIN", Align::Left),
    ]);
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
