//! `skein session`

use clap::{Args, Subcommand, ValueEnum};
use skein_wire::{Ask, BeginTurn, EndSession, EndTurn, Session};

use super::{answer, kill};
use crate::cli::KeyArgs;
use crate::context::Context;
use crate::error::UserError;
use crate::view;

/// Drive the turns of a session without an agent, as a person or an external program
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// Begin a turn: the session is at work
    BeginTurn(TurnArgs),
    /// End a turn, telling what it used
    EndTurn(EndTurnArgs),
    /// Ask a question and wait for its answer
    Ask(AskArgs),
    Answer(answer::AnswerArgs),
    /// Take a question back
    Withdraw(TurnArgs),
    /// End a session for good; `skein restore` brings it back
    End(EndArgs),
}

#[derive(Debug, Args)]
struct TurnArgs {
    /// Session id
    session: String,
    /// Refuse unless ownership is still at this version
    #[arg(long, value_name = "N")]
    expect_owner_version: Option<u64>,
    #[command(flatten)]
    fence: FenceArgs,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Args)]
struct FenceArgs {
    /// Refuse unless this is the session's current run
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    /// Refuse unless this actor owns the session
    #[arg(long = "as", value_name = "ACTOR")]
    as_actor: Option<String>,
}

#[derive(Debug, Args)]
struct EndTurnArgs {
    /// Session id
    session: String,
    /// Tokens read in this turn
    #[arg(long, value_name = "N", default_value_t = 0)]
    input_tokens: u64,
    /// Tokens written in this turn
    #[arg(long, value_name = "N", default_value_t = 0)]
    output_tokens: u64,
    /// What this turn cost, in US dollars
    #[arg(long, value_name = "USD", default_value_t = 0.0)]
    cost_usd: f64,
    #[command(flatten)]
    fence: FenceArgs,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Args)]
struct AskArgs {
    /// Session id
    session: String,
    /// The question
    question: String,
    /// An answer to choose from; may be repeated
    #[arg(long = "option", value_name = "TEXT")]
    options: Vec<String>,
    #[command(flatten)]
    fence: FenceArgs,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Args)]
struct EndArgs {
    /// Session id
    session: String,
    /// How it went
    #[arg(long, value_enum, default_value_t = EndOutcome::Done)]
    outcome: EndOutcome,
    /// Why
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    fence: FenceArgs,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EndOutcome {
    Done,
    Failed,
}

pub(crate) async fn run(context: &Context, args: SessionArgs) -> Result<(), UserError> {
    match args.command {
        SessionCommand::BeginTurn(args) => begin_turn(context, args).await,
        SessionCommand::EndTurn(args) => end_turn(context, args).await,
        SessionCommand::Ask(args) => ask(context, args).await,
        SessionCommand::Answer(args) => answer::run(context, args).await,
        SessionCommand::Withdraw(args) => withdraw(context, args).await,
        SessionCommand::End(args) => end(context, args).await,
    }
}

impl TurnArgs {
    fn body(&self) -> BeginTurn {
        BeginTurn {
            run: self.fence.run,
            expect_owner_version: self.expect_owner_version,
            as_actor: self.fence.as_actor.clone(),
        }
    }
}

async fn begin_turn(context: &Context, args: TurnArgs) -> Result<(), UserError> {
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    show(
        context,
        &client.begin_turn(&args.session, &args.body(), &key).await?,
    )
}

async fn withdraw(context: &Context, args: TurnArgs) -> Result<(), UserError> {
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    show(
        context,
        &client.withdraw(&args.session, &args.body(), &key).await?,
    )
}

async fn end_turn(context: &Context, args: EndTurnArgs) -> Result<(), UserError> {
    if !args.cost_usd.is_finite() {
        return Err(UserError::misuse("the cost of a turn must be a number"));
    }
    let body = EndTurn {
        run: args.fence.run,
        as_actor: args.fence.as_actor,
        input_tokens: args.input_tokens,
        output_tokens: args.output_tokens,
        cost_usd: args.cost_usd,
    };
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    show(context, &client.end_turn(&args.session, &body, &key).await?)
}

async fn ask(context: &Context, args: AskArgs) -> Result<(), UserError> {
    let body = Ask {
        question: args.question,
        options: args.options,
        run: args.fence.run,
        as_actor: args.fence.as_actor,
    };
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    show(context, &client.ask(&args.session, &body, &key).await?)
}

async fn end(context: &Context, args: EndArgs) -> Result<(), UserError> {
    let body = EndSession {
        outcome: Some(
            match args.outcome {
                EndOutcome::Done => "done",
                EndOutcome::Failed => "failed",
            }
            .to_owned(),
        ),
        reason: args.reason,
        run: args.fence.run,
        as_actor: args.fence.as_actor,
    };
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let session = client.end_session(&args.session, &body, &key).await?;
    show(context, &session)?;
    kill::tell_orphans(context, &session).await
}

fn show(context: &Context, session: &Session) -> Result<(), UserError> {
    context
        .out
        .show(session, |paint| view::session_line(session, paint))
}
