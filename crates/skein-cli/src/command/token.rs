//! `skein token`

use clap::{Args, Subcommand, ValueEnum};
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
    #[arg(long, value_enum, default_value_t = Role::Operate)]
    role: Role,
    /// What else its holder may do; `run`: start any program as the daemon's user
    #[arg(long, value_enum, value_name = "RIGHT")]
    allow: Vec<Right>,
    /// The holder acts as this actor, on sessions that this actor owns
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Valid for this long, e.g. `30d` [default: until revoked]
    #[arg(long, value_name = "D")]
    expires: Option<Seconds>,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Read,
    Operate,
    Admin,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Right {
    Run,
}

impl Right {
    fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
        }
    }
}

pub(crate) async fn run(context: &Context, args: TokenArgs) -> Result<(), UserError> {
    match args.command {
        TokenCommand::New(args) => new(context, args).await,
        TokenCommand::Ls(page) => ls(context, page).await,
        TokenCommand::Rm { token, key } => {
            let key = context.key(key.key.as_deref());
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
        role: Some(args.role.as_str().to_owned()),
        allow: args.allow.iter().map(|r| r.as_str().to_owned()).collect(),
        actor: args.actor,
        expires_in_seconds: args.expires.map(|expires| expires.0),
    };
    let key = context.key(args.key.key.as_deref());
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
        list.data.len(),
        || view::tokens(&list.data),
        "no tokens; `skein token new NAME` makes one for the TCP listener",
    )?;
    view::more(&context.out, list.next.as_deref());
    Ok(())
}
