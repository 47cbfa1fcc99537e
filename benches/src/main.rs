//! The load driver: runs the released `skein` on homes of its own and prints what it measured as a table.
//!
//! Each measurement is a module with one `measure`; each row compares with a limit or a peer that was measured
//! beside it. How to repeat it: `docs/benchmarks.md`.

mod agents;
mod cold;
mod daemon;
mod durable;
mod fleet;
mod hot_redis;
mod latency;
mod list;
mod peer;
mod place;
mod startup;
mod stats;
mod table;
mod transcript;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tokio::runtime::Builder;

use crate::daemon::Program;
use crate::table::Row;

/// Measures Skein against physical limits and peers
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure; default: the `skein` beside this one
    #[arg(long, value_name = "PATH")]
    skein: Option<PathBuf>,
    /// Sessions in the largest home
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    most: u64,
    /// Messages in the longest transcript
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    messages: u64,
    /// Where the real agent programs are, as `./test --agents` installs them
    #[arg(
        long,
        value_name = "PATH",
        env = "SKEIN_TEST_AGENTS",
        default_value = ".cache/agents-1"
    )]
    agents: PathBuf,
    /// Of the real agents only this one; may be repeated
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// How often each thing is done with a real agent
    #[arg(long, value_name = "N", default_value_t = 10)]
    turns: usize,
    /// A Python that has `langgraph` and `langgraph-checkpoint-sqlite`, to compare with
    #[arg(long, value_name = "PATH")]
    langgraph: Option<PathBuf>,
    /// Measure only these
    #[arg(value_enum)]
    only: Vec<What>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Durable changes, in this process and through the API
    Durable,
    /// Transcripts to the cold tier and back
    Cold,
    /// Lists, memory, restart and idling with few and many sessions
    List,
    /// From an answer to a hundred subscribers
    Latency,
    /// Transcripts in this process: durable appends
    Append,
    /// Transcripts in this process: forks and words, at any length
    Transcript,
    /// Starting the command line
    Startup,
    /// Starting agents, beside the same by hand
    Spawn,
    /// The same in a large repository
    Large,
    /// Agents: holding, finding again and talking to them
    Fleet,
    /// Transcripts in Redis, for which a server is started
    Redis,
    /// The real agent programs, in their terminals, by protocols and by hand
    Agents,
}

type Failure = Box<dyn std::error::Error>;

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the driver's table is its output"
)]
fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(rows) => {
            print!("{}", table::render(&rows));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<Vec<Row>, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let wanted = |what| args.only.is_empty() || args.only.contains(&what);
    let mut rows = vec![];
    if wanted(What::Append) {
        rows.extend(runtime.block_on(transcript::measure_appends())?);
    }
    if wanted(What::Transcript) {
        rows.extend(runtime.block_on(transcript::measure(args.messages))?);
    }
    if let Some(python) = &args.langgraph {
        rows.extend(runtime.block_on(peer::measure(python))?);
    }
    let in_process = |what: &What| matches!(what, What::Append | What::Transcript);
    if !args.only.is_empty() && args.only.iter().all(in_process) {
        // Measured in this process; no program need be built for it.
        return Ok(rows);
    }
    let program = Program::new(args.skein.clone())?;
    if wanted(What::Startup) {
        rows.extend(startup::measure(&program)?);
    }
    if wanted(What::Durable) {
        rows.extend(runtime.block_on(durable::measure(&program))?);
    }
    if wanted(What::Cold) {
        rows.extend(runtime.block_on(cold::measure())?);
    }
    if wanted(What::Latency) {
        rows.extend(runtime.block_on(latency::measure(&program))?);
    }
    if wanted(What::List) {
        rows.extend(runtime.block_on(list::measure(&program, args.most))?);
    }
    if wanted(What::Spawn) {
        rows.extend(runtime.block_on(fleet::measure_spawns(&program))?);
    }
    if wanted(What::Large) {
        rows.extend(runtime.block_on(fleet::measure_large(&program))?);
    }
    if wanted(What::Fleet) {
        rows.extend(runtime.block_on(fleet::measure(&program))?);
    }
    if wanted(What::Redis) {
        rows.extend(runtime.block_on(hot_redis::measure())?);
    }
    if wanted(What::Agents) {
        match agents::Programs::new(&args.agents, &args.agent, args.turns) {
            Ok(programs) => {
                rows.extend(runtime.block_on(agents::measure(&program, &programs))?);
            }
            // They are not part of the project; whoever wants everything else need not install them.
            Err(why) if args.only.is_empty() => {
                rows.push(Row::fact("real agents", format!("not measured: {why}")));
            }
            Err(why) => return Err(why),
        }
    }
    Ok(rows)
}
