//! What the typed layer knows of each kind of record.

use skein_domain::{
    Delivery, Fork, Handoff, PhaseName, Project, Receipt, Saga, Session, Summary, Thread,
    ThreadState, Token,
};

use crate::backend::{Index, Result, Row, Table};
use crate::record;

/// A record with an id and a version.
pub trait Entity: Sized {
    const TABLE: Table;
    /// The glossary's word for it, used in messages.
    const WHAT: &'static str;

    fn id(&self) -> &str;
    fn version(&self) -> u64;
    fn index(&self) -> Index;
    fn encode(&self) -> Result<String>;
    fn decode(body: &str) -> Result<Self>;

    /// What may change between two versions. The text says what may not.
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String>;

    /// What else must be kept up to date when the record changes, in the same transaction.
    fn aside(before: Option<&Self>, after: &Self) -> Aside {
        let _ = (before, after);
        Aside::Nothing
    }
}

/// An entry in a list of its own, kept beside the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aside {
    Nothing,
    Note(Table, Row),
    Forget(Table, String),
}

fn unchanged<T: PartialEq>(what: &str, before: &T, after: &T) -> std::result::Result<(), String> {
    if before == after {
        Ok(())
    } else {
        Err(format!("its {what} never changes"))
    }
}

/// Records that are written once.
fn write_once<T>(_: &T, _: &T) -> std::result::Result<(), String> {
    Err("it is written once".into())
}

impl Entity for Project {
    const TABLE: Table = Table::Project;
    const WHAT: &'static str = "project";

    fn id(&self) -> &str {
        self.id.as_str()
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn index(&self) -> Index {
        Index {
            live: self.removed_at.is_none(),
            touched_at: self.updated_at.as_micros(),
            ..Index::default()
        }
    }
    fn encode(&self) -> Result<String> {
        record::encode(&record::ProjectV1::from(self))
    }
    fn decode(body: &str) -> Result<Self> {
        record::decode::<record::ProjectV1, _>(Self::WHAT, body)
    }
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String> {
        unchanged("prefix", &before.prefix, &after.prefix)?;
        unchanged("creation time", &before.created_at, &after.created_at)?;
        if before.removed_at.is_some() {
            Err("it was removed".into())
        } else {
            Ok(())
        }
    }
}

impl Entity for Thread {
    const TABLE: Table = Table::Thread;
    const WHAT: &'static str = "thread";

    fn id(&self) -> &str {
        self.id.as_str()
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn index(&self) -> Index {
        Index {
            project: Some(self.project.to_string()),
            live: self.state == ThreadState::Open,
            touched_at: self.updated_at.as_micros(),
            ..Index::default()
        }
    }
    fn encode(&self) -> Result<String> {
        record::encode(&record::ThreadV1::from(self))
    }
    fn decode(body: &str) -> Result<Self> {
        record::decode::<record::ThreadV1, _>(Self::WHAT, body)
    }
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String> {
        unchanged("project", &before.project, &after.project)?;
        unchanged("creation time", &before.created_at, &after.created_at)
    }
}

impl Entity for Session {
    const TABLE: Table = Table::Session;
    const WHAT: &'static str = "session";

    fn id(&self) -> &str {
        self.id.as_str()
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn index(&self) -> Index {
        Index {
            project: Some(self.project.to_string()),
            thread: Some(self.thread.to_string()),
            parent: self.parent.as_ref().map(ToString::to_string),
            live: self.phase.is_live(),
            touched_at: self.last_activity_at.as_micros(),
        }
    }
    fn encode(&self) -> Result<String> {
        record::gear::encode(self)
    }
    fn decode(body: &str) -> Result<Self> {
        record::gear::decode(body)
    }
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String> {
        unchanged("project", &before.project, &after.project)?;
        unchanged("thread", &before.thread, &after.thread)?;
        unchanged("parent", &before.parent, &after.parent)?;
        unchanged("depth", &before.depth, &after.depth)?;
        unchanged("creation time", &before.created_at, &after.created_at)?;
        unchanged("origin", &before.forked_from, &after.forked_from)?;
        if !before.phase.name().may_become(after.phase.name()) {
            return Err(format!(
                "{} does not become {}",
                before.phase.name(),
                after.phase.name()
            ));
        }
        if after.owner_version < before.owner_version || after.run < before.run {
            return Err("its ownership version and run only grow".into());
        }
        if !after.previous_owners.starts_with(&before.previous_owners) {
            return Err("its former owners are only added to".into());
        }
        if before.summary.is_some() && before.summary != after.summary {
            return Err("its summary is written once".into());
        }
        match (&before.gear, &after.gear) {
            (Some(_), None) => Err("its gear never disappears".into()),
            // A number that is given out twice would let the runtime swallow a message.
            (Some(old), Some(new)) if before.run == after.run && new.input < old.input => {
                Err("its input number only grows within a run".into())
            }
            _ => Ok(()),
        }
    }

    /// Ended sessions are listed in the order of their ends, so that retention finds the oldest without
    /// reading the archived ones.
    fn aside(before: Option<&Self>, after: &Self) -> Aside {
        let is_ended = |s: &Self| s.phase.name() == PhaseName::Ended;
        match (before.is_some_and(is_ended), is_ended(after)) {
            (false, true) => {
                let index = Index {
                    project: Some(after.project.to_string()),
                    live: true,
                    touched_at: after.last_activity_at.as_micros(),
                    ..Index::default()
                };
                let row = Row {
                    id: after.id.to_string(),
                    version: 1,
                    index,
                    body: after.last_activity_at.as_micros().to_string(),
                };
                Aside::Note(Table::Ended, row)
            }
            (true, false) => Aside::Forget(Table::Ended, after.id.to_string()),
            (false, false) | (true, true) => Aside::Nothing,
        }
    }
}

impl Entity for Summary {
    const TABLE: Table = Table::Summary;
    const WHAT: &'static str = "summary";

    fn id(&self) -> &str {
        self.id.as_str()
    }
    fn version(&self) -> u64 {
        1
    }
    fn index(&self) -> Index {
        Index {
            live: true,
            touched_at: self.at.as_micros(),
            ..Index::default()
        }
    }
    fn encode(&self) -> Result<String> {
        record::encode(&record::SummaryV1::from(self))
    }
    fn decode(body: &str) -> Result<Self> {
        record::decode::<record::SummaryV1, _>(Self::WHAT, body)
    }
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String> {
        write_once(before, after)
    }
}

impl Entity for Receipt {
    const TABLE: Table = Table::Receipt;
    const WHAT: &'static str = "receipt";

    fn id(&self) -> &str {
        self.id.as_str()
    }
    fn version(&self) -> u64 {
        self.version
    }
    /// Live while something is to be done for it, so that the courier finds its work in order.
    fn index(&self) -> Index {
        Index {
            parent: Some(self.session.to_string()),
            live: self.is_open(),
            touched_at: self.history.last().map_or(0, |(_, at)| at.as_micros()),
            ..Index::default()
        }
    }
    fn encode(&self) -> Result<String> {
        record::receipt::encode(self)
    }
    fn decode(body: &str) -> Result<Self> {
        record::receipt::decode(body)
    }
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String> {
        unchanged("session", &before.session, &after.session)?;
        unchanged("key", &before.key, &after.key)?;
        unchanged("purpose", &before.purpose, &after.purpose)?;
        unchanged("sender", &before.from, &after.from)?;
        unchanged("text", &before.text, &after.text)?;
        unchanged("question", &before.question, &after.question)?;
        // A right that was not used may be given back, before anything is known to be written.
        let given_back = after.written.is_none() && after.state == Delivery::Accepted;
        if before.written.is_some() && !given_back {
            unchanged("input number", &before.written, &after.written)?;
        }
        let Some(added) = after.history.strip_prefix(before.history.as_slice()) else {
            return Err("its history is only added to".into());
        };
        let mut state = before.state;
        for (next, _) in added {
            if !state.may_become(*next) {
                return Err(format!(
                    "{} does not become {}",
                    state.as_str(),
                    next.as_str()
                ));
            }
            state = *next;
        }
        unchanged("state without a line of history", &state, &after.state)
    }
}

impl Entity for Token {
    const TABLE: Table = Table::Token;
    const WHAT: &'static str = "token";

    fn id(&self) -> &str {
        self.id.as_str()
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn index(&self) -> Index {
        Index {
            live: self.revoked_at.is_none(),
            touched_at: self.created_at.as_micros(),
            ..Index::default()
        }
    }
    fn encode(&self) -> Result<String> {
        record::encode(&record::TokenV1::from(self))
    }
    fn decode(body: &str) -> Result<Self> {
        record::decode::<record::TokenV1, _>(Self::WHAT, body)
    }
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String> {
        unchanged("role", &before.role, &after.role)?;
        unchanged("rights", &before.rights, &after.rights)?;
        unchanged("secret", &before.secret_hash, &after.secret_hash)?;
        if before.revoked_at.is_some() {
            Err("it was revoked".into())
        } else {
            Ok(())
        }
    }
}

impl Entity for Handoff {
    const TABLE: Table = Table::Handoff;
    const WHAT: &'static str = "handoff";

    fn id(&self) -> &str {
        self.id.as_str()
    }
    fn version(&self) -> u64 {
        1
    }
    fn index(&self) -> Index {
        Index {
            live: true,
            touched_at: self.at.as_micros(),
            ..Index::default()
        }
    }
    fn encode(&self) -> Result<String> {
        record::encode(&record::HandoffV1::from(self))
    }
    fn decode(body: &str) -> Result<Self> {
        record::decode::<record::HandoffV1, _>(Self::WHAT, body)
    }
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String> {
        write_once(before, after)
    }
}

impl Entity for Fork {
    const TABLE: Table = Table::Fork;
    const WHAT: &'static str = "fork";

    fn id(&self) -> &str {
        self.session.as_str()
    }
    fn version(&self) -> u64 {
        1
    }
    fn index(&self) -> Index {
        Index {
            parent: Some(self.source.to_string()),
            live: true,
            touched_at: self.at.as_micros(),
            ..Index::default()
        }
    }
    fn encode(&self) -> Result<String> {
        record::encode(&record::ForkV1::from(self))
    }
    fn decode(body: &str) -> Result<Self> {
        record::decode::<record::ForkV1, _>(Self::WHAT, body)
    }
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String> {
        write_once(before, after)
    }
}

impl Entity for Saga {
    const TABLE: Table = Table::Saga;
    const WHAT: &'static str = "saga";

    fn id(&self) -> &str {
        self.id.as_str()
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn index(&self) -> Index {
        Index {
            parent: Some(self.session.to_string()),
            live: true,
            touched_at: self.at.as_micros(),
            ..Index::default()
        }
    }
    fn encode(&self) -> Result<String> {
        record::saga::encode(self)
    }
    fn decode(body: &str) -> Result<Self> {
        record::saga::decode(body)
    }
    fn check_change(before: &Self, after: &Self) -> std::result::Result<(), String> {
        unchanged("session", &before.session, &after.session)?;
        unchanged("kind", &before.kind, &after.kind)?;
        unchanged("order", &before.order, &after.order)?;
        unchanged("actor", &before.actor, &after.actor)?;
        unchanged("beginning", &before.at, &after.at)
    }
}
