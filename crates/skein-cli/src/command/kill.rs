//! `skein kill`

use clap::Args;
use skein_wire::{Kill, Session, TreeNode};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::settle::OperationWaiter;

/// End a session now; `skein restore` brings it back
///
/// Stops the agent. Removes a worktree or clone without uncommitted work; one with such work stays, and the work is
/// also saved under a git ref, which the command prints. With `--discard` both are removed.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Why, for the record
    #[arg(long)]
    reason: Option<String>,
    /// Also end all sessions below it, deepest first; without this they continue
    #[arg(long)]
    tree: bool,
    /// Drop uncommitted work instead of saving it; asks first
    #[arg(long)]
    discard: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: KillArgs) -> Result<(), UserError> {
    if args.discard && !args.yes {
        confirm(
            context,
            &format!("drop the uncommitted work of session {}?", args.session),
        )?;
    }
    let body = Kill {
        reason: args.reason,
        tree: args.tree,
        discard: args.discard,
    };
    let key = args.key.get();
    let mut waiter = OperationWaiter::open(context).await?;
    if args.discard {
        waiter = waiter.discarding();
    }
    let client = context.client().await?;
    let mut before = match args.tree {
        true => below(client.tree(&args.session).await?.root),
        false => vec![],
    };
    let begun = client.kill(&args.session, &body, &key).await?;
    let id = begun.id.clone();
    let mut under_way = match args.tree {
        // Sessions that had ended already need no waiting, unless they are being ended.
        true => below(client.tree(&id).await?.root),
        false => vec![],
    };
    under_way.retain(|s| s.id != id && s.saga.is_some());
    under_way.push(begun.clone());
    before.retain(|s| s.id != id);
    before.push(begun);
    let mut killed: Vec<Session> = vec![];
    for settled in waiter.settle(under_way).await? {
        killed.push(settled.session);
    }
    let Some(session) = killed.last() else {
        return Err(UserError::failed("no answer"));
    };
    context.show_session(session)?;
    for one in &killed {
        let known = before.iter().find(|s| s.id == one.id);
        print_backup(context, known, one);
    }
    print_orphans(context, session).await
}

/// A session and all sessions below it, deepest first.
fn below(node: TreeNode) -> Vec<Session> {
    let mut all: Vec<Session> = node.children.into_iter().flat_map(below).collect();
    all.push(node.session);
    all
}

/// Asks before work is dropped.
pub(crate) fn confirm(context: &Context, question: &str) -> Result<(), UserError> {
    match context.out.ask(question) {
        Some(true) => Ok(()),
        Some(false) => Err(UserError::refused("nothing was done")),
        None => Err(
            UserError::misuse("`--discard` drops work and needs a confirmation")
                .hint("add `--yes` to confirm without a terminal"),
        ),
    }
}

/// Prints where this kill saved uncommitted work, and how to get it back.
fn print_backup(context: &Context, before: Option<&Session>, session: &Session) {
    let workspace = &session.workspace;
    let known = before.map_or(&[][..], |before| &before.workspace.backups);
    let kept = workspace.backups.last();
    let saved = kept.filter(|backup| !known.contains(backup));
    if let Some(backup) = saved {
        context
            .out
            .note(&format!("uncommitted work is saved in {}", backup.name));
        if let Some(command) = way_back(session, backup) {
            context.out.note(&format!("`{command}` brings it back"));
        }
    }
    if saved.is_some() || workspace.state.as_deref() == Some("gone") {
        context.out.note(&format!(
            "`skein restore {}` brings the session back",
            session.id
        ));
    }
    if let Some(note) = &session.note {
        context.out.note(note);
    }
}

/// The command that checks out a backup.
pub(crate) fn way_back(session: &Session, backup: &skein_wire::Backup) -> Option<String> {
    let at: jiff::Timestamp = backup.at.parse().ok()?;
    let kept = skein_domain::Backup {
        n: backup.name.rsplit('/').next()?.parse().ok()?,
        commit: backup.commit.parse().ok()?,
        at: skein_domain::Timestamp::from_micros(at.as_microsecond()),
    };
    let repo = session.workspace.repo.as_ref()?.parse().ok()?;
    let id = session.id.parse().ok()?;
    Some(skein_workspace::how_to_get_back(&id, &kept, &repo))
}

/// Live children continue without their parent. This note is for people; programs see them in `skein tree`.
pub(crate) async fn print_orphans(context: &Context, session: &Session) -> Result<(), UserError> {
    if context.out.is_json() {
        return Ok(());
    }
    let tree = context.client().await?.tree(&session.id).await?;
    let live: Vec<_> = tree
        .root
        .children
        .iter()
        .filter(|child| !matches!(child.session.phase.as_str(), "ended" | "archived"))
        .map(|child| child.session.id.as_str())
        .collect();
    if !live.is_empty() {
        context.out.note(&format!(
            "still live: {}; `skein kill --tree ID` ends one and all sessions below it",
            live.join(", "),
        ));
    }
    Ok(())
}
