//! `skein session`

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use skein_client::{Client, EventStream, Events};
use skein_wire::{Ask, BeginTurn, EndSession, EndTurn};
use tokio::time::timeout;

use super::events::every_event;
use super::wait::follow;
use super::{answer, kill};
use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;
use crate::text;
use crate::view;

/// Drive the turns of a session without an agent, as a person or a program
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// Begin a turn; the session is at work
    BeginTurn(TurnArgs),
    /// End a turn and report its usage
    EndTurn(EndTurnArgs),
    /// Ask a question; the session waits for an answer (`skein answer`)
    Ask(AskArgs),
    Answer(answer::AnswerArgs),
    /// Withdraw a question; its turn ends
    Withdraw(TurnArgs),
    /// End a session as done or failed; `skein restore` brings it back
    End(EndArgs),
}

#[derive(Debug, Args)]
struct TurnArgs {
    /// Session id
    #[arg(value_parser = reference)]
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
    #[arg(value_parser = reference)]
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
    #[arg(value_parser = reference)]
    session: String,
    /// The question
    question: String,
    /// An answer to choose from; may be repeated
    #[arg(long = "option", value_name = "TEXT")]
    options: Vec<String>,
    /// Wait for the answer and print it
    #[arg(long)]
    wait: bool,
    /// Stop waiting after this long (exit code 7); the question stays
    #[arg(long, value_name = "D", requires = "wait")]
    timeout: Option<Seconds>,
    #[command(flatten)]
    fence: FenceArgs,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Args)]
struct EndArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// How it went
    #[arg(long, value_parser = ["done", "failed"], default_value = "done")]
    outcome: String,
    /// Why
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    fence: FenceArgs,
    #[command(flatten)]
    key: KeyArgs,
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
    let key = args.key.get();
    let client = context.client().await?;
    context.show_session(&client.begin_turn(&args.session, &args.body(), &key).await?)
}

async fn withdraw(context: &Context, args: TurnArgs) -> Result<(), UserError> {
    let key = args.key.get();
    let client = context.client().await?;
    context.show_session(&client.withdraw(&args.session, &args.body(), &key).await?)
}

async fn end_turn(context: &Context, args: EndTurnArgs) -> Result<(), UserError> {
    if !args.cost_usd.is_finite() {
        return Err(UserError::misuse("`--cost-usd` must be a number"));
    }
    let body = EndTurn {
        run: args.fence.run,
        as_actor: args.fence.as_actor,
        input_tokens: args.input_tokens,
        output_tokens: args.output_tokens,
        cost_usd: args.cost_usd,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let session = client.end_turn(&args.session, &body, &key).await?;
    context.show_session(&session)?;
    if let Some(over) = view::overspent(&session) {
        context.out.warn(
            &format!("{} has exceeded its budget by {over}", session.id),
            &format!("`skein show {}` shows its budget", session.id),
        );
    }
    Ok(())
}

async fn ask(context: &Context, args: AskArgs) -> Result<(), UserError> {
    let body = Ask {
        question: args.question,
        options: args.options,
        run: args.fence.run,
        as_actor: args.fence.as_actor,
    };
    let key = args.key.get();
    let client = context.client().await?;
    if !args.wait {
        return context.show_session(&client.ask(&args.session, &body, &key).await?);
    }
    // Subscribe before asking, so that no answer is missed.
    let id = client.get_session(&args.session).await?.id;
    let mut stream = follow(context, client, None, Some(&id));
    stream.open().await?;
    client.ask(&id, &body, &key).await?;
    context.out.note(&format!(
        "{id} waits for an answer: `skein answer {id} TEXT`"
    ));
    let answer = answered(context, client, &id, &mut stream);
    let answer = match args.timeout {
        None => answer.await?,
        Some(limit) => timeout(Duration::from_secs(limit.0), answer)
            .await
            .map_err(|_| {
                UserError::timed_out(format!("no answer to session `{id}` within {limit}")).hint(
                    format!("the question stays; `skein session withdraw {id}` withdraws it"),
                )
            })??,
    };
    context.out.show(
        &json!({ "session": id, "answer": answer["text"], "receipt": answer["receipt"] }),
        |_| text::block(answer["text"].as_str().unwrap_or_default()),
    )
}

/// The answer to the open question or, if the same call was made before, to the question of that call.
async fn answered(
    context: &Context,
    client: &Client,
    id: &str,
    stream: &mut EventStream<'_>,
) -> Result<Value, UserError> {
    if client.get_session(id).await?.question.is_none()
        && let Some(answer) = last_answer(client, id).await?
    {
        return Ok(answer);
    }
    loop {
        let event = match stream.next().await {
            Ok(event) => event,
            Err(error) => {
                context.reconnect(client, error).await?;
                continue;
            }
        };
        match event.kind.as_str() {
            "session.answered" => return Ok(event.data),
            "session.withdrawn" | "session.ended" => {
                return Err(UserError::conflict(format!(
                    "the question of session `{id}` was not answered"
                ))
                .cause(match event.kind.as_str() {
                    "session.ended" => "the session ended",
                    _ => "it was withdrawn",
                }));
            }
            _ => {}
        }
    }
}

async fn last_answer(client: &Client, id: &str) -> Result<Option<Value>, UserError> {
    let which = Events {
        session: Some(id.to_owned()),
        ..Events::default()
    };
    let mut answer = None;
    every_event(client, which, |event| {
        match event.kind.as_str() {
            "session.asked" => answer = None,
            "session.answered" => answer = Some(event.data),
            _ => {}
        }
        Ok(())
    })
    .await?;
    Ok(answer)
}

async fn end(context: &Context, args: EndArgs) -> Result<(), UserError> {
    let body = EndSession {
        outcome: Some(args.outcome),
        reason: args.reason,
        run: args.fence.run,
        as_actor: args.fence.as_actor,
    };
    let key = args.key.get();
    let client = context.client().await?;
    let session = client.end_session(&args.session, &body, &key).await?;
    context.show_session(&session)?;
    kill::print_orphans(context, &session).await
}
