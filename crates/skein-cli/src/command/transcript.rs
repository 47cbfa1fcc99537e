//! `skein transcript`

mod append;
mod export;
mod retry;
mod search;
mod show;
mod state;
mod target;

use clap::{Args, Subcommand};
use skein_wire::{Compact, Flush, Rewind};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Transcripts: the conversation of a session
#[derive(Debug, Args)]
pub(crate) struct TranscriptArgs {
    #[command(subcommand)]
    command: TranscriptCommand,
}

#[derive(Debug, Subcommand)]
enum TranscriptCommand {
    Show(show::ShowArgs),
    Append(append::AppendArgs),
    Search(search::SearchArgs),
    Export(export::ExportArgs),
    Import(export::ImportArgs),
    Rewind(RewindArgs),
    Reply(retry::ReplyArgs),
    Repair(retry::RepairArgs),
    Compact(CompactArgs),
    State(state::StateArgs),
    /// Show the tokens and cost of a session's messages, and of all sessions below it
    Usage {
        /// Session id
        #[arg(value_parser = reference)]
        session: String,
    },
    Flush(FlushArgs),
    Hydrate(HydrateArgs),
}

/// Go back to just after a message
///
/// Refused while an agent works in the session. Forks keep the later messages that they share.
#[derive(Debug, Args)]
struct RewindArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The last message that stays
    #[arg(long, value_name = "MESSAGE", value_parser = reference)]
    to: String,
    /// Refuse unless this is the session's current run
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

/// Give models a summary in place of some messages
///
/// Nothing is deleted; only models do not see the messages.
#[derive(Debug, Args)]
struct CompactArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The first message that the summary replaces
    #[arg(long, value_name = "MESSAGE", value_parser = reference)]
    from: String,
    /// The last one
    #[arg(long, value_name = "MESSAGE", value_parser = reference)]
    through: String,
    /// The summary
    #[arg(long, value_name = "SUMMARY")]
    text: String,
    /// The id of the summary [default: derived from `--from` and `--through`]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Refuse unless this is the session's current run
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

/// Move a transcript to the cold tier
///
/// Writes only what is new. Archiving a thread also does this, and so does the setting `transcripts.idle_flush`.
#[derive(Debug, Args)]
struct FlushArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Keep the hot copy
    #[arg(long)]
    keep_hot: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// Bring a transcript back to the hot tier; the next append does this anyway
#[derive(Debug, Args)]
struct HydrateArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: TranscriptArgs) -> Result<(), UserError> {
    match args.command {
        TranscriptCommand::Show(args) => show::run(context, args).await,
        TranscriptCommand::Append(args) => append::run(context, args).await,
        TranscriptCommand::Search(args) => search::run(context, args).await,
        TranscriptCommand::Export(args) => export::run(context, args).await,
        TranscriptCommand::Import(args) => export::import(context, args).await,
        TranscriptCommand::Rewind(args) => rewind(context, args).await,
        TranscriptCommand::Reply(args) => retry::reply(context, args).await,
        TranscriptCommand::Repair(args) => retry::repair(context, args).await,
        TranscriptCommand::Compact(args) => compact(context, args).await,
        TranscriptCommand::State(args) => state::run(context, args).await,
        TranscriptCommand::Usage { session } => usage(context, &session).await,
        TranscriptCommand::Flush(args) => flush(context, args).await,
        TranscriptCommand::Hydrate(args) => hydrate(context, args).await,
    }
}

/// Hints for a message that does not exist, with the session that was searched.
pub(crate) fn of_session(error: skein_client::Error, session: &str) -> UserError {
    UserError::from(error).map_hints(|hint| hint.replace("SESSION", session))
}

async fn rewind(context: &Context, args: RewindArgs) -> Result<(), UserError> {
    let body = Rewind {
        to: args.to,
        run: args.run,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let done = client.rewind_transcript(&args.session, &body, &key).await;
    let done = done.map_err(|error| of_session(error, &args.session))?;
    context.out.show(&done, |_| {
        let dropped = match done.dropped {
            1 => "1 message is".to_owned(),
            n => format!("{} messages are", text::number(n)),
        };
        let (session, to) = (text::line(&done.session), text::line(&done.to));
        format!("{session} now ends at {to}; {dropped} no longer shown")
    })
}

async fn compact(context: &Context, args: CompactArgs) -> Result<(), UserError> {
    let body = Compact {
        from: args.from,
        through: args.through,
        text: args.text,
        id: args.id,
        run: args.run,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let done = client.compact(&args.session, &body, &key).await;
    let done = done.map_err(|error| of_session(error, &args.session))?;
    context.out.show(&done, |_| match done.added {
        0 => "the summary already exists".to_owned(),
        _ => "models now get the summary instead".to_owned(),
    })
}

async fn usage(context: &Context, session: &str) -> Result<(), UserError> {
    let usage = context.client().await?.transcript_usage(session).await?;
    context.out.show(&usage, |_| {
        let line = |name: &str, u: &skein_wire::MessageUsage| {
            format!(
                "{name:<6} {} in, {} out, {} read from and {} written to caches, {} reasoning, {}\n",
                text::number(u.input_tokens),
                text::number(u.output_tokens),
                text::number(u.cache_read_tokens),
                text::number(u.cache_write_tokens),
                text::number(u.reasoning_tokens),
                cost(u.cost_usd),
            )
        };
        let sessions = text::count(usize::try_from(usage.sessions).unwrap_or(0), "session");
        line("own", &usage.own) + &line("total", &usage.total) + &format!("of {sessions}")
    })
}

/// `–` where no message had a cost.
fn cost(usd: f64) -> String {
    if usd > 0.0 {
        text::dollars(usd)
    } else {
        "–".to_owned()
    }
}

async fn flush(context: &Context, args: FlushArgs) -> Result<(), UserError> {
    let body = Flush {
        keep_hot: args.keep_hot,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let done = client.flush(&args.session, &body, &key).await?;
    context.out.show(&done, |_| match done.entries {
        0 => "the cold tier already has everything".to_owned(),
        1 => "1 entry written to the cold tier".to_owned(),
        n => format!("{} entries written to the cold tier", text::number(n)),
    })
}

async fn hydrate(context: &Context, args: HydrateArgs) -> Result<(), UserError> {
    let key = args.key.get();
    let client = context.client().await?;
    let done = client.hydrate(&args.session, &key).await?;
    context.out.show(&done, |_| {
        if done.hydrated {
            "moved to the hot tier".to_owned()
        } else {
            "already in the hot tier".to_owned()
        }
    })
}
