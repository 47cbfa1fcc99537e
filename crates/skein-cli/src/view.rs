//! How values look to people. Everything from the daemon goes through `text`, which makes it safe.

mod event;
mod facts;
mod fleet;
mod ledger;
mod session;
mod transcript;

pub(crate) use event::{Time, event_line};
pub(crate) use fleet::{agent_notes, agents, gc, receipt, screen_explanation, why};
pub(crate) use ledger::{
    daemon, project, project_line, projects, summary, thread, thread_line, threads, tokens,
};
pub(crate) use session::{
    RelatedNames, overspent, session, session_line, sessions, status_style, tree, used,
};
pub(crate) use transcript::{Fold, MessageRenderer};
