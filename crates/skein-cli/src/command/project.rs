//! `skein project`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use skein_wire::{AddProject, SetProject};

use crate::cli::{KeyArgs, PageArgs, reference};
use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;
use crate::settings::Settings;
use crate::view;

/// Projects: a repository or folder with its settings
#[derive(Debug, Args)]
pub(crate) struct ProjectArgs {
    #[command(subcommand)]
    command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    Add(AddArgs),
    /// List projects
    Ls(PageArgs),
    /// Show one project
    Show {
        /// Id, name, or a folder in it; an id or name wins over a folder [default: the current folder's]
        #[arg(value_parser = reference)]
        project: Option<String>,
    },
    Set(SetArgs),
    /// Remove a project without open threads and live sessions; its folder stays
    Rm {
        /// Id, name, or a folder in it; an id or name wins over a folder
        #[arg(value_parser = reference)]
        project: String,
        #[command(flatten)]
        key: KeyArgs,
    },
}

/// Make a project of a folder; reads its `skein.toml`
#[derive(Debug, Args)]
struct AddArgs {
    /// The folder [default: the current one]
    #[arg(conflicts_with = "no_folder")]
    path: Option<PathBuf>,
    /// Name [default: the folder's]
    #[arg(long)]
    name: Option<String>,
    /// The prefix of its session ids [default: made from the name]
    #[arg(long)]
    prefix: Option<String>,
    /// The project has no folder; needs `--name`
    #[arg(long, requires = "name")]
    no_folder: bool,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// Change a project's limits and retention
#[derive(Debug, Args)]
struct SetArgs {
    /// Id, name, or a folder in it; an id or name wins over a folder [default: the current folder's]
    #[arg(value_parser = reference)]
    project: Option<String>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Refuse unless the project is at this version
    #[arg(long, value_name = "N")]
    expect_version: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Args)]
struct LimitArgs {
    /// How deep sessions may delegate
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// How many live children a session may have
    #[arg(long, value_name = "N")]
    width: Option<u32>,
    /// Archive idle and ended sessions after this long, e.g. `7d`; 0: never
    #[arg(long, value_name = "D")]
    idle_ttl: Option<Seconds>,
    /// Archive the oldest ended sessions beyond this number; 0: never
    #[arg(long, value_name = "N")]
    max_ended: Option<u32>,
}

impl LimitArgs {
    fn is_empty(&self) -> bool {
        self.depth.is_none()
            && self.width.is_none()
            && self.idle_ttl.is_none()
            && self.max_ended.is_none()
    }
}

pub(crate) async fn run(context: &Context, args: ProjectArgs) -> Result<(), UserError> {
    match args.command {
        ProjectCommand::Add(args) => add(context, args).await,
        ProjectCommand::Ls(page) => ls(context, page).await,
        ProjectCommand::Show { project } => {
            let named = "`skein project show NAME` shows another; `skein project ls` lists them";
            let project = context.project_or(project, named).await?;
            let project = context.client().await?.get_project(&project).await?;
            context.out.show_wide(&project, view::project)
        }
        ProjectCommand::Set(args) => set(context, args).await,
        ProjectCommand::Rm { project, key } => {
            let key = key.get();
            let project = context.project(Some(project)).await?;
            let client = context.client().await?;
            let project = client.remove_project(&project, &key).await?;
            context.out.show(&project, |_| {
                format!("removed project {}", crate::text::line(&project.name))
            })
        }
    }
}

async fn add(context: &Context, args: AddArgs) -> Result<(), UserError> {
    let folder = if args.no_folder {
        None
    } else {
        Some(folder(args.path.as_deref())?)
    };
    let settings = Settings::load(&context.environment, folder.as_deref().map(Path::new))?;
    let usual = settings.new_project(folder);
    let ttl = args.limits.idle_ttl.map(|ttl| ttl.0);
    let body = AddProject {
        name: args.name.or(usual.name),
        path: usual.path,
        prefix: args.prefix.or(usual.prefix),
        depth: args.limits.depth.or(usual.depth),
        width: args.limits.width.or(usual.width),
        idle_ttl_seconds: ttl.or(usual.idle_ttl_seconds).filter(|ttl| *ttl > 0),
        max_ended: args
            .limits
            .max_ended
            .or(usual.max_ended)
            .filter(|most| *most > 0),
    };
    let key = args.key.get();
    let project = context.client().await?.add_project(&body, &key).await?;
    context.out.show(&project, |paint| {
        format!("added project {}", view::project_line(&project, paint))
    })
}

pub(crate) fn folder(path: Option<&Path>) -> Result<String, UserError> {
    let Some(path) = path else {
        return crate::context::current_folder();
    };
    let real = path.canonicalize().map_err(|error| {
        UserError::misuse(format!("cannot use the folder `{}`", path.display())).caused_by(&error)
    })?;
    if !real.is_dir() {
        return Err(UserError::misuse(format!(
            "`{}` is not a folder",
            path.display()
        )));
    }
    real.into_os_string()
        .into_string()
        .map_err(|path| UserError::misuse(format!("the path `{}` is not UTF-8", path.display())))
}

async fn ls(context: &Context, page: PageArgs) -> Result<(), UserError> {
    let list = context.client().await?.list_projects(&page.into()).await?;
    context.out.list(
        &list,
        view::projects,
        "no projects yet; `skein project add` adds the current folder",
    )
}

async fn set(context: &Context, args: SetArgs) -> Result<(), UserError> {
    if args.limits.is_empty() {
        return Err(UserError::misuse("nothing to change")
            .hint("use `--depth`, `--width`, `--idle-ttl` or `--max-ended`"));
    }
    let body = SetProject {
        expect_version: args.expect_version,
        depth: args.limits.depth,
        width: args.limits.width,
        idle_ttl_seconds: args.limits.idle_ttl.map(|ttl| ttl.0),
        max_ended: args.limits.max_ended,
    };
    let named = "`skein project set NAME …` changes another; `skein project ls` lists them";
    let project = context.project_or(args.project, named).await?;
    let key = args.key.get();
    let project = context
        .client()
        .await?
        .set_project(&project, &body, &key)
        .await?;
    context.out.show_wide(&project, view::project)
}
