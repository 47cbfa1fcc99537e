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

use clap::Subcommand;

use crate::context::Context;
use crate::error::UserError;

/// Every command with its arguments, in the order of the help, and the function that runs it.
macro_rules! commands {
    ($($name:ident($module:ident::$arguments:ident),)+) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($name($module::$arguments),)+
        }

        pub(crate) async fn dispatch(context: &Context, command: Command) -> Result<(), UserError> {
            match command {
                $(Command::$name(arguments) => Box::pin($module::run(context, arguments)).await,)+
            }
        }
    };
}

commands! {
    Init(init::InitArgs),
    Project(project::ProjectArgs),
    Thread(thread::ThreadArgs),
    Spawn(spawn::SpawnArgs),
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Why(why::WhyArgs),
    Tree(tree::TreeArgs),
    Wait(wait::WaitArgs),
    Attach(attach::AttachArgs),
    Screen(screen::ScreenArgs),
    Logs(logs::LogsArgs),
    Diff(diff::DiffArgs),
    Send(send::SendArgs),
    Answer(answer::AnswerArgs),
    Interrupt(interrupt::InterruptArgs),
    Kill(kill::KillArgs),
    Restore(restore::RestoreArgs),
    Adopt(adopt::AdoptArgs),
    Gc(gc::GcArgs),
    Session(session::SessionArgs),
    Handoff(handoff::HandoffArgs),
    Broadcast(broadcast::BroadcastArgs),
    Merge(merge::MergeArgs),
    Fork(fork::ForkArgs),
    Transcript(transcript::TranscriptArgs),
    Summary(summary::SummaryArgs),
    Events(events::EventsArgs),
    Agent(agent::AgentArgs),
    Hook(hook::HookArgs),
    Token(token::TokenArgs),
    Retention(retention::RetentionArgs),
    Daemon(daemon::DaemonArgs),
    Doctor(doctor::DoctorArgs),
    Config(config::ConfigArgs),
    Demo(demo::DemoArgs),
    ModelServer(model_server::ModelServerArgs),
    Completion(completion::CompletionArgs),
    Man(man::ManArgs),
}
