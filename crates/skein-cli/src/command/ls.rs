//! `skein ls`

use clap::Args;
use skein_client::Sessions;

use crate::cli::{PageArgs, reference, statuses};
use crate::context::Context;
use crate::error::UserError;
use crate::settings::{Settings, settings_around};
use crate::view;

/// List sessions, newest first
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Also ended and archived sessions
    #[arg(long)]
    all: bool,
    /// Only this project's: id, name, or a folder in it; an id or name wins over a folder
    #[arg(long, value_name = "P", value_parser = reference)]
    project: Option<String>,
    /// Only this thread's
    #[arg(long, value_name = "T", value_parser = reference)]
    thread: Option<String>,
    /// Only sessions with one of these statuses, e.g. `idle,needs_input`
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = statuses())]
    status: Vec<String>,
    #[command(flatten)]
    page: PageArgs,
}

pub(crate) async fn run(context: &Context, args: LsArgs) -> Result<(), UserError> {
    let spawn = match args.project.is_none() && has_default_agent(context) {
        true => "`skein spawn TASK` starts one",
        false => "`skein spawn --agent NAME TASK` starts one",
    };
    let empty = if args.all || !args.status.is_empty() {
        format!("no matching sessions; {spawn}")
    } else {
        format!("no live sessions; {spawn}, `--all` also shows ended ones")
    };
    let which = Sessions {
        all: args.all,
        project: context.given_project(args.project).await?,
        thread: args.thread,
        status: args.status,
        page: args.page.into(),
    };
    let list = context.client().await?.list_sessions(&which).await?;
    context.out.list(&list, view::sessions, &empty)
}

/// Whether `skein spawn TASK` starts an agent in this folder.
fn has_default_agent(context: &Context) -> bool {
    let here = std::env::current_dir().ok();
    let project = here.as_deref().and_then(settings_around);
    Settings::load(&context.environment, project).is_ok_and(|settings| settings.fleet.names_agent())
}
