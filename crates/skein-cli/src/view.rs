//! How things look to people. Everything from the daemon is cleaned on its way through `text`.

mod event;
mod facts;
mod fleet;
mod ledger;
mod more;
mod session;
mod transcript;

pub(crate) use event::{Time, event_line};
pub(crate) use fleet::{agent_notes, agents, gc, receipt, why};
pub(crate) use ledger::{
    daemon, project, project_line, projects, summary, thread, thread_line, threads, tokens,
};
pub(crate) use more::more;
pub(crate) use session::{Around, overspent, session, session_line, sessions, tree};
pub(crate) use transcript::{Fold, Telling};
