//! `skein token`

use clap::{Args, Subcommand};
use skein_wire::NewToken;

use crate::cli::{KeyArgs, PageArgs, reference};
use crate::context::Context;
use crate::duration::Seconds;
use crate::error::UserError;
use crate::text;
use crate::view;

/// Tokens: who may call over TCP, in which role
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    New(NewArgs),
    /// List tokens; secrets are never shown again
    Ls(PageArgs),
    /// Revoke a token at once
    Rm {
        /// Id
        #[arg(value_parser = reference)]
        token: String,
        #[command(flatten)]
        key: KeyArgs,
    },
}

/// Make a token; its secret is shown only once, alone on stdout
#[derive(Debug, Args)]
struct NewArgs {
    /// Its name
    name: String,
    /// What its holder may do
    #[arg(long, value_parser = ["read", "operate", "admin"], default_value = "operate")]
    role: String,
    /// What else its holder may do; `run`: start any program as the daemon's user
    #[arg(long, value_parser = ["run"], value_name = "RIGHT")]
    allow: Vec<String>,
    /// The holder acts as this actor, on sessions that this actor owns; with role `admin`, on any session
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Valid for this long, e.g. `30d` [default: until revoked]
    #[arg(long, value_name = "D")]
    expires: Option<Seconds>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: TokenArgs) -> Result<(), UserError> {
    match args.command {
        TokenCommand::New(args) => new(context, args).await,
        TokenCommand::Ls(page) => ls(context, page).await,
        TokenCommand::Rm { token, key } => {
            let key = key.get();
            let token = context.client().await?.remove_token(&token, &key).await?;
            context.out.show(&token, |_| {
                format!("revoked token {}", text::line(&token.name))
            })
        }
    }
}

async fn new(context: &Context, args: NewArgs) -> Result<(), UserError> {
    let body = NewToken {
        name: args.name,
        role: Some(args.role),
        allow: args.allow,
        actor: args.actor,
        expires_in_seconds: args.expires.map(|expires| expires.0),
    };
    let key = args.key.get();
    let made = context.client().await?.new_token(&body, &key).await?;
    let rights: String = made
        .token
        .allow
        .iter()
        .map(|r| format!(" and {r}"))
        .collect();
    context.out.note(&format!(
        "token {} ({}) may {}{rights}; keep the secret: it is not shown again",
        made.token.name, made.token.id, made.token.role
    ));
    context.out.show(&made, |_| text::line(&made.secret))
}

async fn ls(context: &Context, page: PageArgs) -> Result<(), UserError> {
    let list = context.client().await?.list_tokens(&page.into()).await?;
    context.out.list(
        &list,
        view::tokens,
        "no tokens; `skein token new NAME` makes one for the TCP listener",
    )
}
