//! `skein adopt`

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use skein_wire::Spawn;

use super::spawn::{LaunchArgs, PlaceArgs};
use crate::cli::KeyArgs;
use crate::context::Context;
use crate::error::UserError;
use crate::settle::OperationWaiter;
use crate::view;

/// Start a session in a worktree that you made yourself
///
/// The folder stays yours: no command removes it.
#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// The worktree
    path: PathBuf,
    /// What to do [default: continue the work on its branch]
    #[arg(long, value_name = "T")]
    task: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    launch: LaunchArgs,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: AdoptArgs) -> Result<(), UserError> {
    let path = super::project::folder(Some(&args.path))?;
    let mut body = Spawn {
        task: args.task.clone().unwrap_or_else(|| task(&path)),
        adopt: Some(path.clone()),
        ..args.launch.body(context, &args.place)
    };
    body.project = context.given_project(body.project).await?;
    if body.project.is_none() && body.thread.is_none() && body.parent.is_none() {
        body.project = Some(project(context, &path).await?);
    }
    let key = args.key.get();
    let waiter = OperationWaiter::open(context).await?;
    let begun = context.client().await?.spawn(&body, &key).await?;
    let Some(settled) = waiter.settle(vec![begun]).await?.pop() else {
        return Err(UserError::failed("no answer"));
    };
    match settled.failure {
        Some(failure) => Err(failure),
        None => context.out.show(&settled.session, |paint| {
            format!("adopted {}", view::session_line(&settled.session, paint))
        }),
    }
}

fn task(path: &str) -> String {
    match git(path, &["branch", "--show-current"]) {
        Some(branch) if !branch.is_empty() => format!("Continue the work on branch {branch}"),
        _ => format!("Continue the work in {path}"),
    }
}

/// The project of the worktree's repository; the worktree itself may be anywhere.
async fn project(context: &Context, path: &str) -> Result<String, UserError> {
    let client = context.client().await?;
    let common = git(
        path,
        &["rev-parse", "--path-format=absolute", "--git-common-dir"],
    );
    let main = common
        .as_deref()
        .and_then(|common| Path::new(common).parent())
        .and_then(Path::to_str);
    for place in main.into_iter().chain([path]) {
        if let Some(project) = client.find_project_at(place).await? {
            return Ok(project.id);
        }
    }
    Err(
        UserError::not_found(format!("no project has the repository of `{path}`"))
            .hint("`skein project add FOLDER` adds it")
            .hint("`--project NAME` chooses one"),
    )
}

/// The output of a git command, if it succeeds.
pub(super) fn git(folder: &str, args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
