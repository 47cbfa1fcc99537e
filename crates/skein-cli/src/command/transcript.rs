//! `skein transcript`

mod append;
mod export;
mod place;
mod retry;
mod search;
mod show;
mod state;

use clap::{Args, Subcommand};
use skein_wire::{Compact, Flush, Rewind};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Transcripts: what was said in a session
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
    /// Show what a session's messages cost, and those of everything delegated below it
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
/// For sessions without an agent at work. What came later stays in forks that share it.
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

/// Let a summary stand for some messages when a model is shown the transcript
///
/// Nothing is deleted: the messages are hidden from models only.
#[derive(Debug, Args)]
struct CompactArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The first message it stands for
    #[arg(long, value_name = "MESSAGE", value_parser = reference)]
    from: String,
    /// The last one
    #[arg(long, value_name = "MESSAGE", value_parser = reference)]
    through: String,
    /// The summary
    #[arg(long, value_name = "SUMMARY")]
    text: String,
    /// The summary's own id [default: one that follows from `--from` and `--through`]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Refuse unless this is the session's current run
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

/// Put a transcript into the cold tier
///
/// Writes only what is not there yet. Archiving a thread does it by itself, and so does the setting
/// `transcripts.idle_flush`.
#[derive(Debug, Args)]
struct FlushArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// Leave the hot copy where it is
    #[arg(long)]
    keep_hot: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// Bring a transcript into the hot tier; whoever writes to it does so anyway
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

/// The daemon's hints for a message that is not there, with the session it was looked for in.
pub(crate) fn of_session(error: skein_client::Error, session: &str) -> UserError {
    UserError::from(error).map_hints(|hint| hint.replace("SESSION", session))
}

async fn rewind(context: &Context, args: RewindArgs) -> Result<(), UserError> {
    let body = Rewind {
        to: args.to,
        run: args.run,
    };
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let done = client.rewind_transcript(&args.session, &body, &key).await;
    let done = done.map_err(|error| of_session(error, &args.session))?;
    context.out.show(&done, |_| {
        let dropped = match done.dropped {
            1 => "1 message is".to_owned(),
            n => format!("{} messages are", text::number(n)),
        };
        let (session, to) = (text::line(&done.session), text::line(&done.to));
        format!("{session} ends at {to}; {dropped} no longer shown")
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
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let done = client.compact(&args.session, &body, &key).await;
    let done = done.map_err(|error| of_session(error, &args.session))?;
    context.out.show(&done, |_| match done.added {
        0 => "the summary was there already".to_owned(),
        _ => "a summary stands for them".to_owned(),
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

/// Nobody told a cost where it is none at all.
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
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let done = client.flush(&args.session, &body, &key).await?;
    context.out.show(&done, |_| match done.entries {
        0 => "the cold tier had everything already".to_owned(),
        1 => "one entry is new in the cold tier".to_owned(),
        n => format!("{} entries are new in the cold tier", text::number(n)),
    })
}

async fn hydrate(context: &Context, args: HydrateArgs) -> Result<(), UserError> {
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let done = client.hydrate(&args.session, &key).await?;
    context.out.show(&done, |_| {
        if done.hydrated {
            "it is in the hot tier again".to_owned()
        } else {
            "it was in the hot tier already".to_owned()
        }
    })
}
