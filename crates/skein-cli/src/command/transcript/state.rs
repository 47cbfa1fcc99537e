//! `skein transcript state`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;
use skein_wire::{SetState, State, Task};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Tasks and your own JSON, kept beside the messages and forked with them
#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    /// Show the state
    Show {
        /// Session id
        #[arg(value_parser = reference)]
        session: String,
    },
    Set(SetArgs),
}

/// Replace the state with `{"tasks": {…}, "custom": {…}}`
#[derive(Debug, Args)]
struct SetArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The file; `-` is stdin
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Refuse unless the state is at this version [default: the current one]
    #[arg(long, value_name = "N")]
    expect: Option<u64>,
    /// Refuse unless this is the session's current run
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slice {
    #[serde(default)]
    tasks: BTreeMap<String, Task>,
    #[serde(default)]
    custom: BTreeMap<String, Value>,
}

pub(crate) async fn run(context: &Context, args: StateArgs) -> Result<(), UserError> {
    match args.command {
        StateCommand::Show { session } => {
            let state = context.client().await?.get_state(&session).await?;
            context.out.show(&state, |_| shown(&state))
        }
        StateCommand::Set(args) => set(context, args).await,
    }
}

async fn set(context: &Context, args: SetArgs) -> Result<(), UserError> {
    let text = crate::command::spawn::read(Path::new(&args.file))?;
    let slice: Slice = serde_json::from_str(&text).map_err(|error| {
        UserError::misuse("this is not a state")
            .cause(error.to_string())
            .hint("expected `{\"tasks\": {…}, \"custom\": {…}}`; `skein transcript state show` prints one")
    })?;
    let client = context.client().await?;
    let expect = match args.expect {
        Some(expect) => expect,
        None => client.get_state(&args.session).await?.version,
    };
    let body = SetState {
        expect,
        tasks: slice.tasks,
        custom: slice.custom,
        run: args.run,
    };
    let key = args.key.get();
    let done = client.set_state(&args.session, &body, &key).await?;
    context.out.show(&done, |_| {
        format!("the state is at version {}", done.version)
    })
}

fn shown(state: &State) -> String {
    let mut out = format!("version {}\n", state.version);
    for (id, task) in &state.tasks {
        let waits = match task.blocked_by.as_slice() {
            [] => String::new(),
            tasks => format!(" (waits for {})", tasks.join(", ")),
        };
        let line = format!("{:<12} {id}  {}{waits}", task.status, task.subject);
        out.push_str(&text::line(&line));
        out.push('\n');
    }
    for (name, value) in &state.custom {
        out.push_str(&text::line(&format!("{name} = {value}")));
        out.push('\n');
    }
    out
}
