//! `skein thread`

use clap::{Args, Subcommand};
use skein_client::Threads;
use skein_wire::{NewThread, Thread};

use crate::cli::{KeyArgs, PageArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// Threads: lines of work in a project
#[derive(Debug, Args)]
pub(crate) struct ThreadArgs {
    #[command(subcommand)]
    command: ThreadCommand,
}

#[derive(Debug, Subcommand)]
enum ThreadCommand {
    /// Open a thread
    New {
        /// What the work is about
        title: String,
        /// The project: id, name, or a folder in it; an id or name wins over a folder
        /// [default: the current folder's]
        #[arg(long, value_name = "P", value_parser = reference)]
        project: Option<String>,
        #[command(flatten)]
        key: KeyArgs,
    },
    /// List threads
    Ls {
        /// Only this project's: id, name, or a folder in it; an id or name wins over a folder
        #[arg(long, value_name = "P", value_parser = reference)]
        project: Option<String>,
        /// Also archived threads
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one thread
    Show {
        /// Id
        #[arg(value_parser = reference)]
        thread: String,
    },
    /// Archive a thread; refused while a session on it is at work
    Archive(ChangeArgs),
    /// Reopen an archived thread
    Reopen(ChangeArgs),
    /// Delete a thread that has no sessions
    Rm(ChangeArgs),
}

#[derive(Debug, Args)]
struct ChangeArgs {
    /// Id
    #[arg(value_parser = reference)]
    thread: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: ThreadArgs) -> Result<(), UserError> {
    match args.command {
        ThreadCommand::New {
            title,
            project,
            key,
        } => {
            let project = context.project(project).await?;
            let key = key.get();
            let thread = context
                .client()
                .await?
                .new_thread(&NewThread { project, title }, &key)
                .await?;
            show(context, "opened", &thread)
        }
        ThreadCommand::Ls { project, all, page } => ls(context, project, all, page).await,
        ThreadCommand::Show { thread } => {
            let thread = context.client().await?.get_thread(&thread).await?;
            context.out.show_wide(&thread, view::thread)
        }
        ThreadCommand::Archive(args) => {
            let key = args.key.get();
            let client = context.client().await?;
            let thread = client.archive_thread(&args.thread, &key).await?;
            show(context, "archived", &thread)
        }
        ThreadCommand::Reopen(args) => {
            let key = args.key.get();
            let client = context.client().await?;
            let thread = client.reopen_thread(&args.thread, &key).await?;
            show(context, "reopened", &thread)
        }
        ThreadCommand::Rm(args) => {
            let key = args.key.get();
            let client = context.client().await?;
            let thread = client.remove_thread(&args.thread, &key).await?;
            show(context, "deleted", &thread)
        }
    }
}

fn show(context: &Context, done: &str, thread: &Thread) -> Result<(), UserError> {
    context.out.show(thread, |paint| {
        format!("{done} thread {}", view::thread_line(thread, paint))
    })
}

async fn ls(
    context: &Context,
    project: Option<String>,
    all: bool,
    page: PageArgs,
) -> Result<(), UserError> {
    let which = Threads {
        project: context.given_project(project).await?,
        state: all.then(|| "all".to_owned()),
        page: page.into(),
    };
    let list = context.client().await?.list_threads(&which).await?;
    context.out.list(
        &list,
        view::threads,
        "no threads; `skein thread new TITLE` or `skein spawn` opens one",
    )
}
