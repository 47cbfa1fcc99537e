//! `skein hook`

use std::io::Read as _;
use std::time::Duration;

use clap::Args;
use skein_wire::{Hook, HookTaken};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::cli::reference;
use crate::context::{Context, utf8};
use crate::error::UserError;

/// In all, reading included: an agent waits for its hooks.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest payload that is passed on.
const LONGEST: u64 = 1 << 20;

/// Tell the daemon what an agent's own hook says; called by agents
///
/// Reads the hook's payload from stdin. Session, run and credential are taken from the environment that Skein
/// gives its agents; the daemon refuses a hook without the credential of that run. It never fails and takes at most 2 s, so that no agent is held up.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// What happened, in the agent's words
    event: String,
    /// Speak for this session instead of $SKEIN_SESSION
    #[arg(long, value_name = "S", value_parser = reference)]
    session: Option<String>,
    /// Speak for this run instead of $SKEIN_RUN
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    /// Fail when the daemon could not be told
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(context: &Context, args: HookArgs) -> Result<(), UserError> {
    let strict = args.strict;
    let told = timeout(PATIENCE, tell(context, args))
        .await
        .unwrap_or_else(|_| {
            Err(UserError::new(
                skein_client::Kind::TimedOut,
                format!("the daemon was not told within {} s", PATIENCE.as_secs()),
            ))
        });
    match told {
        Ok(()) => Ok(()),
        Err(error) if strict => Err(error),
        Err(error) => {
            context.out.detail(error.message());
            if context.out.is_json() {
                context.out.document(&HookTaken { ok: false })?;
            }
            Ok(())
        }
    }
}

async fn tell(context: &Context, args: HookArgs) -> Result<(), UserError> {
    let session = match &args.session {
        Some(session) => session.as_str(),
        None => context.inside()?.ok_or_else(|| missing("SKEIN_SESSION"))?,
    };
    let run = match args.run {
        Some(run) => run,
        None => utf8("SKEIN_RUN", context.environment.run.as_deref())?
            .ok_or_else(|| missing("SKEIN_RUN"))?
            .parse()
            .map_err(|_| UserError::misuse("SKEIN_RUN is no number"))?,
    };
    let payload = payload().await?;
    // A daemon that is away is not started for this: what it starts with, it looks at itself.
    let client = context.new_client().with_deadlines(PATIENCE, PATIENCE);
    let body = Hook {
        run,
        event: args.event,
        payload,
    };
    let taken = client.hook(session, &body).await?;
    // Agents read what their hooks print, so nothing is printed unless somebody asks.
    if context.out.is_json() {
        context.out.document(&taken)?;
    }
    Ok(())
}

fn missing(name: &str) -> UserError {
    UserError::misuse(format!("{name} is not set"))
        .hint("agents that Skein starts have it; `--session` and `--run` name another")
}

/// Read on a thread of its own, which nobody waits for: who started us may never close the pipe.
async fn payload() -> Result<String, UserError> {
    let (send, receive) = oneshot::channel();
    std::thread::spawn(move || {
        let mut bytes = vec![];
        let read = std::io::stdin().take(LONGEST + 1).read_to_end(&mut bytes);
        let _ = send.send(read.map(|_| bytes));
    });
    let bytes = receive
        .await
        .map_err(|_| UserError::failed("stdin could not be read"))?
        .map_err(|error| UserError::failed("stdin could not be read").caused_by(&error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(UserError::misuse("the payload is longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| UserError::misuse("the payload is not UTF-8"))
}
