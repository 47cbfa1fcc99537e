//! How the typed layer stores each kind of record.

use serde::Serialize;
use serde::de::DeserializeOwned;
use skein_domain::{
    Delivery, PhaseName, Project, Receipt, Saga, Session, Summary, Thread, ThreadState, Token,
};

use crate::backend::{Result, Row, RowIndex, Table};
use crate::error::Error;
use crate::record;

/// `Err` says which rule a record breaks.
type Check = std::result::Result<(), String>;

/// A record with an id and a version.
pub trait Entity: Serialize + DeserializeOwned {
    const TABLE: Table;
    /// The glossary's word for it, used in messages.
    const WHAT: &'static str;

    fn id(&self) -> &str;
    fn version(&self) -> u64;
    fn index(&self) -> RowIndex;
    fn encode(&self) -> Result<String> {
        record::encode(self)
    }
    /// Decodes a stored body; the error says what is wrong with it.
    fn from_body(body: &str) -> std::result::Result<Self, String> {
        record::decode(body)
    }
    fn decode(body: &str) -> Result<Self> {
        Self::from_body(body)
            .map_err(|why| Error::Bug(format!("a stored {} cannot be read: {why}", Self::WHAT)))
    }

    /// Checks a change between two versions; the error says which rule forbids it.
    fn check_change(before: &Self, after: &Self) -> Check;

    /// Tables that list some of these records.
    const SIDE_TABLES: &[Table] = &[];

    /// The record's row in one of [`Entity::SIDE_TABLES`], if it belongs there. The writer inserts and deletes these
    /// rows in the transaction that changes the record.
    fn side_row(&self, table: Table) -> Option<Row> {
        let _ = table;
        None
    }
}

fn unchanged<T: PartialEq>(what: &str, before: &T, after: &T) -> Check {
    if before == after {
        Ok(())
    } else {
        Err(format!("its {what} never changes"))
    }
}

/// What every entity has alike: its table, its word, its id, and its version unless that is fixed.
macro_rules! entity_of {
    ($table:ident, $what:literal) => {
        entity_of!(@named $table, $what);
        fn version(&self) -> u64 {
            self.version
        }
    };
    ($table:ident, $what:literal, $version:literal) => {
        entity_of!(@named $table, $what);
        fn version(&self) -> u64 {
            $version
        }
    };
    (@named $table:ident, $what:literal) => {
        const TABLE: Table = Table::$table;
        const WHAT: &'static str = $what;

        fn id(&self) -> &str {
            self.id.as_str()
        }
    };
}

impl Entity for Project {
    entity_of!(Project, "project");

    fn index(&self) -> RowIndex {
        RowIndex {
            live: self.removed_at.is_none(),
            touched_at: self.updated_at.as_micros(),
            ..RowIndex::default()
        }
    }
    fn check_change(before: &Self, after: &Self) -> Check {
        unchanged("prefix", &before.prefix, &after.prefix)?;
        unchanged("creation time", &before.created_at, &after.created_at)?;
        if before.removed_at.is_some() {
            Err("it is removed".into())
        } else {
            Ok(())
        }
    }
}

impl Entity for Thread {
    entity_of!(Thread, "thread");

    fn index(&self) -> RowIndex {
        RowIndex {
            project: Some(self.project.to_string()),
            live: self.state == ThreadState::Open,
            touched_at: self.updated_at.as_micros(),
            ..RowIndex::default()
        }
    }
    fn check_change(before: &Self, after: &Self) -> Check {
        unchanged("project", &before.project, &after.project)?;
        unchanged("creation time", &before.created_at, &after.created_at)
    }
}

impl Entity for Session {
    entity_of!(Session, "session");

    fn index(&self) -> RowIndex {
        RowIndex {
            project: Some(self.project.to_string()),
            thread: Some(self.thread.to_string()),
            parent: self.parent.as_ref().map(ToString::to_string),
            live: self.phase.is_live(),
            touched_at: self.last_activity_at.as_micros(),
        }
    }
    fn check_change(before: &Self, after: &Self) -> Check {
        unchanged("project", &before.project, &after.project)?;
        unchanged("thread", &before.thread, &after.thread)?;
        unchanged("parent", &before.parent, &after.parent)?;
        unchanged("depth", &before.depth, &after.depth)?;
        unchanged("creation time", &before.created_at, &after.created_at)?;
        unchanged("origin", &before.forked_from, &after.forked_from)?;
        if !before.phase.name().may_become(after.phase.name()) {
            return Err(format!(
                "{} cannot become {}",
                before.phase.name(),
                after.phase.name()
            ));
        }
        if after.owner_version < before.owner_version || after.run < before.run {
            return Err("its ownership version and run only grow".into());
        }
        if !after.previous_owners.starts_with(&before.previous_owners) {
            return Err("its former owners can only be extended".into());
        }
        if before.summary.is_some() && before.summary != after.summary {
            return Err("its summary is written only once".into());
        }
        match (&before.gear, &after.gear) {
            (Some(_), None) => Err("its gear cannot be removed".into()),
            // If a number were used twice, the runtime would drop the second message as a repetition.
            (Some(old), Some(new)) if before.run == after.run && new.input < old.input => {
                Err("its input number only grows within a run".into())
            }
            _ => Ok(()),
        }
    }

    /// Ended sessions by their end, so that retention finds the oldest without reading archived ones; and those with a
    /// process.
    const SIDE_TABLES: &[Table] = &[Table::Ended, Table::Running];

    fn side_row(&self, table: Table) -> Option<Row> {
        let is_in = match table {
            Table::Ended => self.phase.name() == PhaseName::Ended,
            Table::Running => self.phase.is_live() && self.has_run(),
            _ => false,
        };
        is_in.then(|| side_row_of(self))
    }
}

/// The row of a session in a table that lists some sessions.
fn side_row_of(session: &Session) -> Row {
    let touched_at = session.last_activity_at.as_micros();
    Row {
        id: session.id.to_string(),
        version: 1,
        index: RowIndex {
            project: Some(session.project.to_string()),
            live: true,
            touched_at,
            ..RowIndex::default()
        },
        body: touched_at.to_string(),
    }
}

impl Entity for Summary {
    entity_of!(Summary, "summary", 1);

    fn index(&self) -> RowIndex {
        RowIndex {
            live: true,
            touched_at: self.at.as_micros(),
            ..RowIndex::default()
        }
    }
    fn check_change(_: &Self, _: &Self) -> Check {
        Err("it is written only once".into())
    }
}

fn check_last_state(receipt: &Receipt) -> Check {
    match receipt.history.last() {
        Some((state, _)) if *state == receipt.state => Ok(()),
        _ => Err(format!(
            "the state of receipt `{}` is not the last one of its history",
            receipt.id
        )),
    }
}

impl Entity for Receipt {
    entity_of!(Receipt, "receipt");

    /// Live while its delivery is not complete, so that the courier finds its work in order.
    fn index(&self) -> RowIndex {
        RowIndex {
            parent: Some(self.session.to_string()),
            live: self.is_open(),
            touched_at: self.history.last().map_or(0, |(_, at)| at.as_micros()),
            ..RowIndex::default()
        }
    }
    fn encode(&self) -> Result<String> {
        check_last_state(self).map_err(Error::Bug)?;
        record::encode(self)
    }
    fn from_body(body: &str) -> std::result::Result<Self, String> {
        let receipt = record::decode(body)?;
        check_last_state(&receipt)?;
        Ok(receipt)
    }
    fn check_change(before: &Self, after: &Self) -> Check {
        unchanged("session", &before.session, &after.session)?;
        unchanged("key", &before.key, &after.key)?;
        unchanged("purpose", &before.purpose, &after.purpose)?;
        unchanged("sender", &before.from, &after.from)?;
        unchanged("text", &before.text, &after.text)?;
        unchanged("question", &before.question, &after.question)?;
        // The writer may take an input number back while nothing is written with it.
        let given_back = after.written.is_none() && after.state == Delivery::Accepted;
        if before.written.is_some() && !given_back {
            unchanged("input number", &before.written, &after.written)?;
        }
        let Some(added) = after.history.strip_prefix(before.history.as_slice()) else {
            return Err("its history can only be extended".into());
        };
        // A call that no driver acted on goes back, and becomes the call of another run.
        let returned = before.is_unaccepted_call() && after.state == Delivery::Accepted;
        if before.call.is_some() && !returned {
            unchanged("call", &before.call, &after.call)?;
        }
        if returned && after.call.is_some() {
            return Err("a call that went back is no run's".into());
        }
        let mut state = before.state;
        for (next, _) in added {
            let goes_back = returned && *next == Delivery::Accepted;
            if !state.may_become(*next) && !goes_back {
                return Err(format!(
                    "{} cannot become {}",
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
    entity_of!(Token, "token");

    fn index(&self) -> RowIndex {
        RowIndex {
            live: self.revoked_at.is_none(),
            touched_at: self.created_at.as_micros(),
            ..RowIndex::default()
        }
    }
    fn check_change(before: &Self, after: &Self) -> Check {
        unchanged("role", &before.role, &after.role)?;
        unchanged("rights", &before.rights, &after.rights)?;
        unchanged("secret", &before.secret_hash, &after.secret_hash)?;
        if before.revoked_at.is_some() {
            Err("it is revoked".into())
        } else {
            Ok(())
        }
    }
}

impl Entity for Saga {
    entity_of!(Saga, "saga");

    fn index(&self) -> RowIndex {
        RowIndex {
            parent: Some(self.session.to_string()),
            live: true,
            touched_at: self.at.as_micros(),
            ..RowIndex::default()
        }
    }
    fn check_change(before: &Self, after: &Self) -> Check {
        unchanged("session", &before.session, &after.session)?;
        unchanged("request", &before.request, &after.request)?;
        unchanged("actor", &before.actor, &after.actor)?;
        unchanged("beginning", &before.at, &after.at)
    }
}
