//! `skein spawn`

mod tasks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use skein_client::{Client, ErrorKind, IdempotencyKey};
use skein_wire::{BudgetAsked, List, Session, Spawn};
use tokio::time::{Instant, timeout_at};

use crate::budget;
use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::output::BOLD;
use crate::settle::{OperationWaiter, Settled};
use crate::text;
use crate::view;
pub(crate) use tasks::read;

/// Concurrent requests; the daemon decides how many spawns run at once.
const AT_ONCE: usize = 8;
/// Do not wait longer for one answer before sending the next request.
const SOON: Duration = Duration::from_millis(500);

/// Start a session for each task
///
/// With an agent, each session gets its own workspace and terminal, and the command returns when all agents have
/// started. Without an agent, people or programs drive the session with `skein session`.
#[derive(Debug, Args)]
pub(crate) struct SpawnArgs {
    /// What to do; several tasks make several sessions
    #[arg(value_name = "TASK", required_unless_present = "from")]
    tasks: Vec<String>,
    /// Read tasks from a file (`-`: stdin), one per line; empty lines and `#` comments are skipped
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    launch: LaunchArgs,
    /// Where its files are: `worktree`, `clone`, `dir` or `none`
    /// [default: the project's, else `worktree` in a repository]
    #[arg(long, value_name = "KIND")]
    workspace: Option<String>,
    /// The branch; an existing one is used as it is [default: `skein/SESSION`]
    #[arg(long, value_name = "B")]
    branch: Option<String>,
    /// What a new branch starts from [default: the project's, else the default branch]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Attach to its terminal when it runs; for one task
    #[arg(long, conflicts_with = "no_wait")]
    attach: bool,
    /// Do not wait for the agents to start; `skein wait` waits later
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// Owner, project, thread and parent of a session.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PlaceArgs {
    /// Who owns it: `user:NAME`, `agent:NAME` or `system` [default: its agent, else you]
    #[arg(long, value_name = "ACTOR")]
    owner: Option<String>,
    /// The project: id, name, or a folder in it; an id or name wins over a folder
    /// [default: the parent's, the thread's, or that of the current folder; for `adopt`, of the worktree]
    #[arg(long, value_name = "P", value_parser = reference)]
    pub(crate) project: Option<String>,
    /// The thread to work on [default: the parent's, or one of its own]
    #[arg(long, value_name = "T", value_parser = reference)]
    thread: Option<String>,
    /// The session that delegates the task to this one
    #[arg(long, value_name = "S", value_parser = reference)]
    parent: Option<String>,
    /// How much it may spend: `200000`, `200k tokens`, `5usd` or `200k,5usd`. Enforced for sessions without an agent;
    /// what an agent spends is counted and shown, but does not stop it
    #[arg(long, value_name = "N", value_parser = budget::parse)]
    budget: Option<BudgetAsked>,
}

/// The agent and how to start it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LaunchArgs {
    /// The agent; `none`: people or programs drive the session with `skein session`
    /// [default: the project's, else `none`]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Start this command line instead of the agent's own; alone it means `--agent custom`
    #[arg(long, value_name = "CMD")]
    command: Option<String>,
    /// How the agent gets its task: `typed`, `argv` or `stdin` [default: the agent's preferred way]
    #[arg(long, value_name = "WAY")]
    prompt_via: Option<String>,
    /// `pty`, or `tmux` to show the agent in a tmux window as well [default: the project's, else `pty`]
    #[arg(long, value_name = "KIND")]
    runtime: Option<String>,
    /// How to drive the agent: `terminal`, `acp` or `native`, its own protocol [default: terminal]
    #[arg(long, value_name = "WAY")]
    via: Option<String>,
    /// Set a variable in the agent's environment; may be repeated
    #[arg(long, value_name = "K=V", value_parser = assignment)]
    env: Vec<(String, String)>,
    /// The model, as the agent calls it
    #[arg(long, value_name = "M")]
    model: Option<String>,
    /// What the agent may do without asking: `ask`, `edits` or `full`
    #[arg(long, value_name = "HOW")]
    permission: Option<String>,
    /// Tell the agent to continue when a limit of its provider is over
    #[arg(long)]
    resume_after_limit: bool,
}

/// The value may be a secret, so the error does not repeat it.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err("expected NAME=VALUE".to_owned()),
    }
}

impl LaunchArgs {
    /// The fields that all tasks share.
    pub(crate) fn body(&self, context: &Context, place: &PlaceArgs) -> Spawn {
        let custom = self.command.is_some() && self.agent.is_none();
        Spawn {
            owner: place.owner.clone(),
            project: place.project.clone(),
            thread: place.thread.clone(),
            parent: place.parent.clone(),
            budget: place.budget.clone(),
            agent: custom.then(|| "custom".to_owned()).or(self.agent.clone()),
            command: self.command.clone(),
            prompt_via: self.prompt_via.clone(),
            runtime: self.runtime.clone(),
            via: self.via.clone(),
            env: self.env.iter().cloned().collect(),
            model: self.model.clone(),
            permission: self.permission.clone(),
            resume_after_limit: self.resume_after_limit,
            path: context.search_path_for_daemon(),
            ..Spawn::default()
        }
    }
}

pub(crate) async fn run(context: &Context, args: SpawnArgs) -> Result<(), UserError> {
    let words = args.from.is_none()
        && args.tasks.len() > 1
        && !args
            .tasks
            .iter()
            .any(|task| task.trim().contains(char::is_whitespace));
    let tasks = tasks::tasks(&args.tasks, args.from.as_deref())?;
    let one = args.from.is_none() && tasks.len() == 1;
    if args.attach && !one {
        return Err(UserError::misuse("`--attach` works with one task only"));
    }
    if args.attach && context.out.is_json() {
        return Err(UserError::misuse("`--attach` has no JSON output"));
    }
    let mut common = Spawn {
        workspace: args.workspace.clone(),
        branch: args.branch.clone(),
        base: args.base.clone(),
        ..args.launch.body(context, &args.place)
    };
    common.project = context.given_project(common.project).await?;
    if common.project.is_none() && common.thread.is_none() && common.parent.is_none() {
        common.project = Some(context.project(None).await?);
    }
    let bodies: Vec<(Spawn, IdempotencyKey)> = tasks
        .into_iter()
        .enumerate()
        .map(|(n, task)| {
            let body = Spawn {
                task,
                ..common.clone()
            };
            (body, if one { args.key.get() } else { args.key.nth(n) })
        })
        .collect();
    let waiter = match args.no_wait {
        true => None,
        false => Some(OperationWaiter::open(context).await?),
    };
    let (begun, refused) = post(context, context.client().await?, bodies).await;
    let settled = match waiter {
        Some(waiter) => waiter.settle(begun).await?,
        None => begun
            .into_iter()
            .map(|session| Settled {
                session,
                failure: None,
            })
            .collect(),
    };
    if args.attach
        && refused.is_none()
        && let [
            Settled {
                session,
                failure: None,
            },
        ] = settled.as_slice()
    {
        return super::attach::show(context, &session.id, super::attach::AttachFlags::default())
            .await;
    }
    let unasked = args.launch.agent.is_none();
    answer(context, settled, refused, one, words, unasked)
}

/// Requests all spawns so that ids follow the order of tasks as far as possible: the next request is sent when the one
/// before was answered or is slow. The first is sent alone, because its answer shows whether the sessions have agents,
/// whose workspaces take time to plan. After a refusal no new request is sent; running ones are awaited.
async fn post(
    context: &Context,
    client: &Client,
    bodies: Vec<(Spawn, IdempotencyKey)>,
) -> (Vec<Session>, Option<UserError>) {
    let mut answers: BTreeMap<usize, Result<Session, UserError>> = BTreeMap::new();
    let mut running = FuturesUnordered::new();
    let mut at_once = 1;
    for (n, (body, key)) in bodies.into_iter().enumerate() {
        while running.len() >= at_once
            && let Some((m, answer)) = running.next().await
        {
            answers.insert(m, answer);
        }
        if answers.values().any(Result::is_err) {
            break;
        }
        if let Some(Ok(first)) = answers.get(&0)
            && first.agent != "none"
        {
            at_once = AT_ONCE;
        }
        running.push(async move { (n, ask(context, client, &body, &key).await) });
        let soon = Instant::now() + SOON;
        while let Ok(Some((m, answer))) = timeout_at(soon, running.next()).await {
            answers.insert(m, answer);
            if m == n {
                break;
            }
        }
    }
    while let Some((m, answer)) = running.next().await {
        answers.insert(m, answer);
    }
    drop(running);
    let (mut begun, mut first) = (vec![], None);
    for answer in answers.into_values() {
        match answer {
            Ok(session) => begun.push(session),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    (begun, first)
}

/// Requests one spawn. If the daemon died meanwhile, asks the next daemon with the same key, so that nothing is spawned
/// twice.
async fn ask(
    context: &Context,
    client: &Client,
    body: &Spawn,
    key: &IdempotencyKey,
) -> Result<Session, UserError> {
    match client.spawn(body, key).await {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            context.revive(client, error).await?;
            Ok(client.spawn(body, key).await?)
        }
        answer => Ok(answer?),
    }
}

/// Prints the sessions that were made before the error about those that were not.
fn answer(
    context: &Context,
    settled: Vec<Settled>,
    refused: Option<UserError>,
    one: bool,
    words: bool,
    unasked: bool,
) -> Result<(), UserError> {
    let ids: Vec<String> = settled.iter().map(|s| s.session.id.clone()).collect();
    let mut failures = 0;
    let mut first = refused;
    let mut sessions = vec![];
    for Settled { session, failure } in settled {
        if let Some(failure) = failure {
            failures += 1;
            first.get_or_insert(failure);
        }
        sessions.push(session);
    }
    match (first, one) {
        (Some(error), true) => Err(error),
        (Some(error), false) if ids.is_empty() => Err(error),
        (Some(error), false) => {
            list(context, sessions)?;
            if failures > 1 {
                context
                    .out
                    .note(&format!("{failures} sessions could not be started"));
            }
            Err(error.detail("spawned", ids))
        }
        (None, true) => {
            let session = sessions
                .pop()
                .ok_or_else(|| UserError::failed("no answer"))?;
            context.out.show(&session, |paint| {
                format!("spawned {}", view::session_line(&session, paint))
            })?;
            print_window(context, &session);
            if unasked && session.agent == "none" {
                context.out.note(
                    "the session has no agent: drive it with `skein session`, or spawn with `--agent NAME` \
                     (default: `agent` in skein.toml)",
                );
            }
            Ok(())
        }
        (None, false) => {
            let count = sessions.len();
            list(context, sessions)?;
            if words {
                context.out.note(&format!(
                    "made {count} sessions, one per word; quote a task of several words"
                ));
            }
            Ok(())
        }
    }
}

/// Prints how to show the tmux window of a session, or why it could not be opened.
fn print_window(context: &Context, session: &Session) {
    let Some(window) = &session.runtime.window else {
        return;
    };
    match &window.problem {
        None => context.out.note(&format!("`{}` shows it", window.command)),
        Some(problem) => context.out.warn(
            problem,
            &format!(
                "the agent runs anyway; `skein attach {}` shows it",
                session.id
            ),
        ),
    }
}

pub(crate) fn list(context: &Context, made: Vec<Session>) -> Result<(), UserError> {
    let list = List {
        data: made,
        next: None,
    };
    context.out.show(&list, |paint| {
        let mut out = format!(
            "spawned {}\n",
            paint.apply(BOLD, &text::count(list.data.len(), "session"))
        );
        for session in &list.data {
            out.push_str(&format!("  {}\n", view::session_line(session, paint)));
        }
        out
    })
}
