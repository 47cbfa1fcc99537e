//! `skein summary`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use skein_wire::{Deliverable, SetSummary};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// Summaries: what a session leaves for others
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    #[command(subcommand)]
    command: SummaryCommand,
}

#[derive(Debug, Subcommand)]
enum SummaryCommand {
    Set(SetArgs),
    /// Show a session's summary
    Show {
        /// Session id
        #[arg(value_parser = reference)]
        session: String,
    },
}

/// Write a session's summary; once per session
#[derive(Debug, Args)]
struct SetArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The summary; `-` reads it from stdin
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    text: Option<String>,
    /// Read the summary from a file
    #[arg(long, value_name = "F")]
    file: Option<PathBuf>,
    /// How the work went
    #[arg(long, value_parser = ["succeeded", "partial", "failed"], default_value = "succeeded")]
    outcome: String,
    /// A key decision; may be repeated
    #[arg(long = "decision", value_name = "TEXT")]
    decisions: Vec<String>,
    /// `file:PATH`, `message:SESSION/MESSAGE`, `summary:SESSION` or `blob:REFERENCE`; may be repeated
    #[arg(long = "deliverable", value_name = "KIND:…", value_parser = deliverable)]
    deliverables: Vec<Deliverable>,
    /// The session whose summary this work started from
    #[arg(long, value_name = "S", value_parser = reference)]
    based_on: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: SummaryArgs) -> Result<(), UserError> {
    match args.command {
        SummaryCommand::Set(args) => set(context, args).await,
        SummaryCommand::Show { session } => {
            let summary = context.client().await?.get_summary(&session).await?;
            context.out.show_wide(&summary, view::summary)
        }
    }
}

async fn set(context: &Context, args: SetArgs) -> Result<(), UserError> {
    let text = match (args.text, &args.file) {
        (_, Some(file)) => super::spawn::read(file)?,
        (Some(text), None) if text != "-" => text,
        _ => super::spawn::read(Path::new("-"))?,
    };
    let body = SetSummary {
        text,
        outcome: Some(args.outcome),
        key_decisions: args.decisions,
        deliverables: args.deliverables,
        based_on: args.based_on,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let summary = client.set_summary(&args.session, &body, &key).await?;
    context.out.show_wide(&summary, view::summary)
}

fn deliverable(text: &str) -> Result<Deliverable, String> {
    let refuse = || {
        format!(
            "`{}` is not a deliverable; write `file:PATH`, `message:SESSION/MESSAGE`, `summary:SESSION` or `blob:REFERENCE`",
            crate::text::line(text)
        )
    };
    let (kind, rest) = text.split_once(':').ok_or_else(refuse)?;
    if rest.is_empty() {
        return Err(refuse());
    }
    let rest = rest.to_owned();
    match kind {
        "file" => Ok(Deliverable::File {
            path: rest,
            sha256: None,
            size: None,
        }),
        "message" => {
            let (session, message) = rest.split_once('/').ok_or_else(refuse)?;
            Ok(Deliverable::Message {
                session: session.to_owned(),
                message: message.to_owned(),
            })
        }
        "summary" => Ok(Deliverable::Summary { session: rest }),
        "blob" => Ok(Deliverable::Blob {
            reference: rest,
            media_type: None,
        }),
        _ => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliverables_name_their_kind() {
        assert_eq!(
            deliverable("file:src/a:b.rs"),
            Ok(Deliverable::File {
                path: "src/a:b.rs".into(),
                sha256: None,
                size: None
            })
        );
        assert_eq!(
            deliverable("message:api-1/m7"),
            Ok(Deliverable::Message {
                session: "api-1".into(),
                message: "m7".into()
            })
        );
        for bad in ["", "file", "file:", "message:api-1", "thing:x"] {
            assert!(deliverable(bad).is_err(), "{bad:?}");
        }
    }
}
