//! `skein spawn`

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use skein_client::Key;
use skein_wire::{BudgetAsked, List, Session, Spawn};

use crate::budget;
use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::output::BOLD;
use crate::text;
use crate::view;

/// Longest task file that is read.
const LONGEST: u64 = 4 << 20;

/// Start a session for each task
#[derive(Debug, Args)]
pub(crate) struct SpawnArgs {
    /// What is to be done; several tasks make several sessions
    #[arg(value_name = "TASK", required_unless_present = "from")]
    tasks: Vec<String>,
    /// Which agent works on it; `none`: people or programs drive it with `skein session`
    #[arg(long, value_name = "NAME", default_value = "none")]
    agent: String,
    /// Who owns it: `user:NAME` or `agent:NAME` [default: you]
    #[arg(long, value_name = "ACTOR")]
    owner: Option<String>,
    /// Id or name of the project [default: the parent's, the thread's or the current folder's]
    #[arg(long, value_name = "P", value_parser = reference)]
    project: Option<String>,
    /// The thread to work on [default: the parent's, or one of its own]
    #[arg(long, value_name = "T", value_parser = reference)]
    thread: Option<String>,
    /// The session that delegates the task
    #[arg(long, value_name = "S", value_parser = reference)]
    parent: Option<String>,
    /// Where its files are
    #[arg(long, value_name = "KIND", default_value = "none")]
    workspace: String,
    /// What it may spend: `200000`, `200k tokens`, `5usd` or `200k,5usd`
    #[arg(long, value_name = "N", value_parser = budget::parse)]
    budget: Option<BudgetAsked>,
    /// Take tasks from a file (`-`: stdin), one per line; empty lines and `#` comments are skipped
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: SpawnArgs) -> Result<(), UserError> {
    let words = args.from.is_none()
        && args.tasks.len() > 1
        && !args
            .tasks
            .iter()
            .any(|task| task.trim().contains(char::is_whitespace));
    let tasks = tasks(&args)?;
    let project = match (&args.project, &args.thread, &args.parent) {
        (None, None, None) => Some(context.project(None).await?),
        _ => args.project.clone(),
    };
    let one = args.from.is_none() && tasks.len() == 1;
    let mut made = Vec::with_capacity(tasks.len());
    for (n, task) in tasks.into_iter().enumerate() {
        let body = Spawn {
            task,
            project: project.clone(),
            thread: args.thread.clone(),
            parent: args.parent.clone(),
            owner: args.owner.clone(),
            agent: Some(args.agent.clone()),
            workspace: Some(args.workspace.clone()),
            budget: args.budget.clone(),
        };
        let key = key(context, args.key.key.as_deref(), one, n);
        match context.client().await?.spawn(&body, &key).await {
            Ok(session) => made.push(session),
            // What was made is told before what was not.
            Err(error) => {
                let error = UserError::from(error);
                return Err(if made.is_empty() {
                    error
                } else {
                    let ids: Vec<_> = made.iter().map(|s| s.id.clone()).collect();
                    list(context, made)?;
                    error.detail("spawned", ids)
                });
            }
        }
    }
    match made.pop() {
        Some(session) if one => context.out.show(&session, |paint| {
            format!("spawned {}", view::session_line(&session, paint))
        }),
        last => {
            made.extend(last);
            let count = made.len();
            list(context, made)?;
            if words {
                context.out.note(&format!(
                    "made {count} sessions; quote a task of several words"
                ));
            }
            Ok(())
        }
    }
}

fn list(context: &Context, made: Vec<Session>) -> Result<(), UserError> {
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

fn key(context: &Context, given: Option<&str>, one: bool, n: usize) -> Key {
    match given {
        Some(key) if !one => Key::new(format!("{key}/{}", n + 1)),
        given => context.key(given),
    }
}

fn tasks(args: &SpawnArgs) -> Result<Vec<String>, UserError> {
    let mut tasks = args.tasks.clone();
    if let Some(path) = &args.from {
        let before = tasks.len();
        tasks.extend(
            read(path)?
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(str::to_owned),
        );
        if tasks.len() == before {
            return Err(UserError::misuse(format!(
                "there is no task in `{}`",
                path.display()
            )));
        }
    }
    Ok(tasks)
}

/// A whole text file, or stdin for `-`.
pub(crate) fn read(path: &Path) -> Result<String, UserError> {
    let mut bytes = Vec::new();
    let result = if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(LONGEST + 1)
            .read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
    };
    let refuse = |why: &str| UserError::misuse(format!("cannot read `{}`: {why}", path.display()));
    result.map_err(|error| refuse(&error.to_string()))?;
    if bytes.len() as u64 > LONGEST {
        return Err(refuse("it is longer than 4 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8"))
}
