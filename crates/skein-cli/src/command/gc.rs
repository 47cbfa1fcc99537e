//! `skein gc`

use clap::Args;
use skein_wire::{Gc, GcItem, Session};

use super::kill::confirm;
use crate::cli::KeyArgs;
use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;
use crate::settle::OperationWaiter;
use crate::view;

/// Remove what ended sessions left: workspaces, logs, files of agents, old backups, stray processes
///
/// Removes only what Skein made, and saves uncommitted work under a git ref first. What a restore needs stays until its
/// session is archived. Lists old backups; `--discard` drops them.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Only sessions that ended at least this long ago
    #[arg(long, value_name = "D", default_value = "1d")]
    older_than: Seconds,
    /// Backups of this age are old
    #[arg(long, value_name = "D", default_value = "30d")]
    backups_older_than: Seconds,
    /// Drop old backups and the work in them; asks first
    #[arg(long)]
    discard: bool,
    /// With `--discard`: do not ask
    #[arg(long, requires = "discard")]
    yes: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: GcArgs) -> Result<(), UserError> {
    let body = Gc {
        dry_run: args.dry_run,
        ended_for_seconds: Some(args.older_than.0),
        backups_older_than_seconds: Some(args.backups_older_than.0),
        discard: args.discard,
    };
    if args.discard && !args.yes && !args.dry_run {
        let question = format!(
            "drop backups older than {} and the work in them?",
            args.backups_older_than
        );
        confirm(context, &question)?;
    }
    let key = args.key.get();
    let waiter = OperationWaiter::open(context).await?;
    let client = context.client().await?;
    let mut report = client.gc(&body, &key).await?;
    if !report.dry_run {
        // Many workspaces take longer than one call.
        let mut under_way = vec![];
        for item in report.data.iter().filter(|item| item.what == "workspace") {
            let session = client.get_session(&item.id).await?;
            under_way.extend(session.saga.is_some().then_some(session));
        }
        for settled in waiter.settle(under_way).await? {
            correct(&mut report.data, &settled.session);
        }
    }
    context
        .out
        .rows(&report, &report.data, view::gc, "nothing to remove")?;
    if report.dry_run && !report.data.is_empty() {
        context.out.note("dry run: nothing was removed");
    }
    Ok(())
}

/// Updates the report with how a removal ended that was still running.
fn correct(items: &mut [GcItem], session: &Session) {
    let of_it = |item: &&mut GcItem| item.what == "workspace" && item.id == session.id;
    let Some(item) = items.iter_mut().find(of_it) else {
        return;
    };
    if session.workspace.state.as_deref() == Some("gone") {
        item.reason = "its session has ended; uncommitted work is kept under a backup ref".into();
    } else {
        item.action = "keep".into();
        item.reason = match &session.note {
            Some(note) => note.clone(),
            None => "it could not be removed; `skein gc` tries again".into(),
        };
    }
}
