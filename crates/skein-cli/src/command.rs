//! One file per command: an `Args` whose doc comment is the help text, and `run`.

pub(crate) mod adopt;
pub(crate) mod agent;
pub(crate) mod answer;
pub(crate) mod attach;
pub(crate) mod broadcast;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod daemon;
mod delivery;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod fork;
pub(crate) mod gc;
pub(crate) mod handoff;
pub(crate) mod hook;
pub(crate) mod init;
pub(crate) mod interrupt;
pub(crate) mod kill;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod model_server;
pub(crate) mod project;
pub(crate) mod restore;
pub(crate) mod retention;
pub(crate) mod screen;
pub(crate) mod send;
pub(crate) mod session;
pub(crate) mod show;
pub(crate) mod spawn;
pub(crate) mod summary;
pub(crate) mod thread;
pub(crate) mod token;
pub(crate) mod transcript;
pub(crate) mod tree;
pub(crate) mod wait;
pub(crate) mod why;

use crate::cli::Command;
use crate::context::Context;
use crate::error::UserError;

pub(crate) async fn dispatch(context: &Context, command: Command) -> Result<(), UserError> {
    match command {
        Command::Init(args) => init::run(context, args).await,
        Command::Why(args) => why::run(context, args).await,
        Command::Attach(args) => attach::run(context, args).await,
        Command::Screen(args) => screen::run(context, args).await,
        Command::Logs(args) => logs::run(context, args).await,
        Command::Diff(args) => diff::run(context, args).await,
        Command::Send(args) => send::run(context, args).await,
        Command::Interrupt(args) => interrupt::run(context, args).await,
        Command::Adopt(args) => adopt::run(context, args).await,
        Command::Gc(args) => gc::run(context, args).await,
        Command::Agent(args) => agent::run(context, args).await,
        Command::Hook(args) => hook::run(context, args).await,
        Command::Project(args) => project::run(context, args).await,
        Command::Thread(args) => thread::run(context, args).await,
        Command::Spawn(args) => spawn::run(context, args).await,
        Command::Ls(args) => ls::run(context, args).await,
        Command::Show(args) => show::run(context, args).await,
        Command::Tree(args) => tree::run(context, args).await,
        Command::Wait(args) => wait::run(context, args).await,
        Command::Session(args) => session::run(context, args).await,
        Command::Answer(args) => answer::run(context, args).await,
        Command::Kill(args) => kill::run(context, args).await,
        Command::Restore(args) => restore::run(context, args).await,
        Command::Handoff(args) => handoff::run(context, args).await,
        Command::Broadcast(args) => broadcast::run(context, args).await,
        Command::Merge(args) => merge::run(context, args).await,
        Command::Fork(args) => fork::run(context, args).await,
        Command::Transcript(args) => transcript::run(context, args).await,
        Command::Summary(args) => summary::run(context, args).await,
        Command::Events(args) => events::run(context, args).await,
        Command::Token(args) => token::run(context, args).await,
        Command::Retention(args) => retention::run(context, args).await,
        Command::Daemon(args) => daemon::run(context, args).await,
        Command::Doctor(args) => doctor::run(context, args).await,
        Command::Config(args) => config::run(context, args).await,
        Command::Demo(args) => Box::pin(demo::run(context, args)).await,
        Command::ModelServer(args) => model_server::run(context, args).await,
        Command::Completion(args) => completion::run(context, args).await,
        Command::Man(args) => man::run(context, args).await,
    }
}
