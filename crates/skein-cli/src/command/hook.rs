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

/// In total, reading included: the agent waits for its hooks.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest payload.
const LONGEST: u64 = 1 << 20;

/// Report an agent's hook event to the daemon; called by agents
///
/// Reads the hook's payload from stdin. Session, run and credential come from the environment that Skein gives its
/// agents; the daemon refuses a hook without the credential of that run. It takes at most 2 s and, without `--strict`, never
/// fails, so that it does not disturb the agent.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// The event
    event: String,
    /// Report for this session instead of $SKEIN_SESSION
    #[arg(long, value_name = "S", value_parser = reference)]
    session: Option<String>,
    /// Report for this run instead of $SKEIN_RUN
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    /// Fail if the event cannot be reported
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(context: &Context, args: HookArgs) -> Result<(), UserError> {
    let strict = args.strict;
    let reported = timeout(PATIENCE, report(context, args))
        .await
        .unwrap_or_else(|_| {
            Err(UserError::timed_out(format!(
                "the daemon did not take the event within {} s",
                PATIENCE.as_secs()
            )))
        });
    match reported {
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

async fn report(context: &Context, args: HookArgs) -> Result<(), UserError> {
    let session = match &args.session {
        Some(session) => session.as_str(),
        None => context.inside()?.ok_or_else(|| missing("SKEIN_SESSION"))?,
    };
    let run = match args.run {
        Some(run) => run,
        None => utf8("SKEIN_RUN", context.environment.run.as_deref())?
            .ok_or_else(|| missing("SKEIN_RUN"))?
            .parse()
            .map_err(|_| UserError::misuse("SKEIN_RUN is not a number"))?,
    };
    let payload = payload().await?;
    // An absent daemon is not started for a hook: at its start it looks at the agent itself.
    let client = context.new_client().with_deadlines(PATIENCE, PATIENCE);
    let body = Hook {
        run,
        event: args.event,
        payload,
    };
    let taken = client.hook(session, &body).await?;
    // Agents read what their hooks print, so print nothing unless asked to.
    if context.out.is_json() {
        context.out.document(&taken)?;
    }
    Ok(())
}

fn missing(name: &str) -> UserError {
    UserError::misuse(format!("{name} is not set"))
        .hint("Skein sets it for its agents; elsewhere use `--session` and `--run`")
}

/// Reads on a thread that is never joined: the agent may keep the pipe open.
async fn payload() -> Result<String, UserError> {
    let (send, receive) = oneshot::channel();
    std::thread::spawn(move || {
        let mut bytes = vec![];
        let read = std::io::stdin().take(LONGEST + 1).read_to_end(&mut bytes);
        let _ = send.send(read.map(|_| bytes));
    });
    let bytes = receive
        .await
        .map_err(|_| UserError::failed("cannot read stdin"))?
        .map_err(|error| UserError::failed("cannot read stdin").caused_by(&error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(UserError::misuse("the payload is longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| UserError::misuse("the payload is not UTF-8"))
}
