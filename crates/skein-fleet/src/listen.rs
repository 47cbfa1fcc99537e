//! How a supervisor reads the files that its agent writes, from the first line to the last.

use std::path::Path;
use std::sync::Arc;

use skein_agent::agent::{ReadRange, WatchedFile};
use skein_domain::observed::EvidenceSource;
use skein_domain::{NativeId, Session, Spent};
use tokio::sync::Notify;

use super::commands::off;
use super::hook_journal;
use super::import::{Import, LAST_PATIENCE};
use super::settings::ProjectSettings;
use super::supervisor::Supervisor;
use super::tail::{Hear, Room, Tails, process, was_read};
use crate::error::Error;

/// Between two looks at files that cannot be watched, in milliseconds.
const UNWATCHED: u64 = 2_000;

/// What the agent writes to files, and how far that was read and recorded.
#[derive(Debug, Default)]
pub(super) struct AgentFiles {
    pub(super) tails: Tails,
    /// The process and the conversation that the files were found by.
    found_by: Option<(Option<u32>, Option<NativeId>)>,
    pub(super) settings: Option<ProjectSettings>,
    /// What the agent said, on its way to the transcript.
    pub(super) import: Import,
    /// What this run has spent, as far as this process knows.
    pub(super) spent: Option<Spent>,
    /// Notified when one of the files changes.
    pub(super) changed: Arc<Notify>,
}

impl Supervisor {
    /// Reads and records what the agent wrote to its files before it ended, perhaps while no daemon ran.
    pub(super) async fn read_last_words(&mut self) -> Result<(), Error> {
        let session = self.session().await?;
        if session.run != self.run || session.check_free().is_err() {
            return Ok(());
        }
        self.read_all(&session).await?;
        self.record(session).await?;
        Ok(())
    }

    /// The same for a run that a saga has ended: the saga records the end, this what was spent and which calls the
    /// driver accepted.
    pub(super) async fn record_rest(&mut self) -> Result<(), Error> {
        let session = self.session().await?;
        if session.run == self.run {
            self.read_all(&session).await?;
            let session = self.record_calls(session).await?;
            self.note(session, vec![]).await?;
        }
        Ok(())
    }

    async fn read_all(&mut self, session: &Session) -> Result<(), Error> {
        self.know_agent(session).await;
        loop {
            let again = self.read_files(session).await?;
            let unsaid = self.import(LAST_PATIENCE).await;
            let again = again.into_iter().chain(unsaid).min();
            if again.is_none_or(|at| at > self.now()) {
                return Ok(());
            }
        }
    }

    /// Reads what the agent wrote to its files. Returns when to look again although nothing rings.
    pub(super) async fn read_files(&mut self, session: &Session) -> Result<Option<u64>, Error> {
        let (Some(agent), Some(gear)) = (self.agent.clone(), session.gear.as_deref()) else {
            return Ok(None);
        };
        let process = self.sight.pid.and_then(process);
        let (files, bell) = (self.parts.files.clone(), self.files.changed.clone());
        let mut sources: Vec<(WatchedFile, Hear)> = std::mem::take(&mut self.evidence.watch)
            .into_iter()
            .map(|source| (source, Hear::All))
            .collect();
        let known = (process.map(|p| p.pid), gear.native.clone());
        if self.files.found_by.as_ref() != Some(&known)
            && let Some(settings) = &self.files.settings
        {
            let order = self.parts.programs.launch_request(
                &self.session_key,
                session,
                gear,
                settings,
                &*agent,
            );
            let own = agent.sources(&order);
            let hooks = hook_journal::source(
                &self.parts.programs.folders.private(&self.session_key),
                self.run,
            );
            let is_own = |path: &str| {
                let path = Path::new(path);
                hooks.path == path || own.iter().any(|source| source.path == path)
            };
            // A driver has a journal for each run. What other programs write goes on with the conversation.
            let hear = if self.turns.is_some() {
                Hear::Spending
            } else {
                Hear::All
            };
            // What was said before comes first.
            let before = gear.read.iter().filter(|r| !is_own(&r.path));
            sources.extend(before.map(|r| {
                let source = WatchedFile {
                    path: r.path.clone().into(),
                    kind: r.kind.clone(),
                    reach: ReadRange::Added,
                };
                (source, hear)
            }));
            // A program waits for its hooks: what it wrote to its files since then comes after what they said.
            sources.push((hooks, Hear::All));
            sources.extend(own.into_iter().map(|source| (source, Hear::All)));
            self.files.found_by = Some(known);
        }
        if sources.is_empty() && self.files.tails.is_empty() {
            return Ok(None);
        }
        let kind = match self.turns.is_some() {
            false => EvidenceSource::File,
            true => EvidenceSource::Protocol,
        };
        let (mut tails, recorded) = (std::mem::take(&mut self.files.tails), gear.read.clone());
        let databases = self.parts.databases.clone();
        let room = match self.files.import.has_room() {
            true => Room::Enough,
            false => Room::None,
        };
        // Transcripts are long, and others wait for this thread.
        let (tails, found) = off(move || {
            for source in &sources {
                tails.add(source, &agent, process, &recorded, &files, &bell);
            }
            let found = tails.read(&*databases, room, kind);
            (tails, found)
        })
        .await?;
        self.files.tails = tails;
        self.take_words(found.said);
        for (source, readings) in found.readings {
            self.evidence.heard(readings, source);
        }
        let pause = match (
            found.more || !self.evidence.watch.is_empty(),
            found.unwatched,
        ) {
            (true, _) => 0,
            (false, true) => UNWATCHED,
            (false, false) => return Ok(None),
        };
        Ok(Some(self.now() + pause))
    }

    /// Whether the run's driver has reported nothing yet. Its journal's first line comes when its program is there: until
    /// then the record is about the run before.
    pub(super) fn is_silent(&self, session: &Session) -> bool {
        let read = session.gear.as_deref().map(|gear| gear.read.as_slice());
        let journal = self.turns.as_ref().map(|turns| [turns.events()]);
        journal.is_some_and(|journal| !was_read(&journal, read.unwrap_or_default()))
    }
}
