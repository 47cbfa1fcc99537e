//! `skein agent`

use clap::{Args, Subcommand};

use crate::cli::reference;
use crate::context::{Context, current_folder};
use crate::error::UserError;
use crate::view;

/// Agents: the programs that work on tasks
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// List the agents: whether they are installed, in which version, and whether you are logged in
    Ls {
        /// As configured in this project: id, name, or a folder in it; an id or name wins over a folder
        /// [default: the current folder's]
        #[arg(long, value_name = "P", value_parser = reference)]
        project: Option<String>,
    },
}

pub(crate) async fn run(context: &Context, args: AgentArgs) -> Result<(), UserError> {
    let AgentCommand::Ls { project } = args.command;
    let client = context.client().await?;
    let project = match context.given_project(project).await? {
        Some(project) => Some(project),
        None => match current_folder() {
            Ok(folder) => client.find_project_at(&folder).await?.map(|found| found.id),
            Err(_) => None,
        },
    };
    let path = context.search_path_for_daemon();
    let list = client
        .list_agents(project.as_deref(), path.as_deref())
        .await?;
    context.out.list(&list, view::agents, "no agents")?;
    for note in view::agent_notes(&list.data) {
        context.out.note(&note);
    }
    Ok(())
}
