//! `skein merge`

use clap::Args;
use skein_wire::Merge;

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;
use crate::view;

/// Record that a session took over the work of a child
///
/// Changes only the record: files and branches stay as they are. The command prints which branch to merge.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The session that takes it over: the child's parent
    #[arg(value_parser = reference)]
    session: String,
    /// The child whose work is taken over; it is idle or has ended
    #[arg(long, value_name = "CHILD", value_parser = reference)]
    from: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: MergeArgs) -> Result<(), UserError> {
    let key = args.key.get();
    let client = context.client().await?;
    let body = Merge { from: args.from };
    let session = client.merge(&args.session, &body, &key).await?;
    if context.out.is_json() {
        return context.out.document(&session);
    }
    let tree = client.tree(&session.id).await?;
    let child = session.merges.last().map_or("", |merge| &merge.child);
    let children = || tree.root.children.iter().map(|node| &node.session);
    let owner = children()
        .find(|found| found.id == child)
        .map_or_else(String::new, |found| {
            format!(" ({})", text::line(&found.owner))
        });
    let branch = children()
        .find(|found| found.id == child)
        .and_then(|found| found.workspace.branch.clone());
    context.out.show(&session, |paint| {
        format!(
            "recorded {}{owner} as merged into {}\n{}",
            text::line(child),
            text::line(&session.id),
            view::session_line(&session, paint)
        )
    })?;
    if let Some(branch) = branch {
        context.out.note(&format!(
            "no file was changed; run `git merge {branch}` in the folder of {} to get its commits",
            session.id
        ));
    }
    let live: Vec<String> = children()
        .filter(|found| !matches!(found.phase.as_str(), "ended" | "archived"))
        .map(|found| format!("{} ({})", found.id, found.owner))
        .collect();
    if !live.is_empty() {
        context.out.note(&format!(
            "still live: {}; `skein kill ID` ends one",
            live.join(", ")
        ));
    }
    Ok(())
}
