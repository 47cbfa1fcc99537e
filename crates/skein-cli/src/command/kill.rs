//! `skein kill`

use clap::Args;
use skein_wire::{Kill, Session};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// End a session now; `skein restore` brings it back
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Why, for the record
    #[arg(long)]
    reason: Option<String>,
    /// Its descendants too, deepest first; without this they go on
    #[arg(long)]
    tree: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: KillArgs) -> Result<(), UserError> {
    let body = Kill {
        reason: args.reason,
        tree: args.tree,
    };
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let session = client.kill(&args.session, &body, &key).await?;
    context
        .out
        .show(&session, |paint| view::session_line(&session, paint))?;
    tell_orphans(context, &session).await
}

/// Live children go on without their parent; people are told, programs see them in `skein tree`.
pub(crate) async fn tell_orphans(context: &Context, session: &Session) -> Result<(), UserError> {
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
            "{} on: {}; `skein kill --tree {}` ends {} and what is below",
            match live.len() {
                1 => "a live child goes".to_owned(),
                n => format!("{n} live children go"),
            },
            live.join(", "),
            live[0],
            if live.len() == 1 { "it" } else { "the first" },
        ));
    }
    Ok(())
}
