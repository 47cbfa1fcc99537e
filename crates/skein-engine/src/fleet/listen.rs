//! How a keeper listens to what its agent writes to files, from its first word to its last.

use std::path::Path;

use skein_agent::agent::{Agent, Reach, Source};
use skein_domain::observed::Source as Voice;
use skein_domain::{Project, Session, Via};

use super::import::LAST_PATIENCE;
use super::keeper::Keeper;
use super::step::off;
use super::tail::{Hear, Room, process, was_read};
use crate::error::Error;

/// Between two looks at files that cannot be watched, in milliseconds.
const UNWATCHED: u64 = 2_000;

impl Keeper {
    /// What the agent wrote to its files before it ended, perhaps while nobody watched.
    pub(super) async fn read_last_words(&mut self) -> Result<(), Error> {
        let session = self.session().await?;
        if session.run != self.run || session.check_free().is_err() {
            return Ok(());
        }
        self.read_all(&session).await?;
        self.record(session).await?;
        Ok(())
    }

    /// The same of a run that a saga has ended, which records all but what was spent.
    pub(super) async fn record_spending(&mut self) -> Result<(), Error> {
        let session = self.session().await?;
        if session.run == self.run {
            self.read_all(&session).await?;
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
        let (files, bell) = (self.fleet.files.clone(), self.bell.clone());
        let mut sources: Vec<(Source, Hear)> = std::mem::take(&mut self.seen.watch)
            .into_iter()
            .map(|source| (source, Hear::All))
            .collect();
        let known = (process.map(|p| p.pid), gear.native.clone());
        if self.tailed.as_ref() != Some(&known)
            && let Some(settings) = &self.settings
        {
            let order = self
                .fleet
                .order(&self.member, session, gear, settings, &*agent);
            let own = agent.sources(&order);
            let is_own = |path: &str| own.iter().any(|source| source.path == Path::new(path));
            // A driver has a journal for each run. What other programs write goes on with the conversation.
            let hear = if self.driven {
                Hear::Spending
            } else {
                Hear::All
            };
            // What was said before comes first.
            let before = gear.read.iter().filter(|r| !is_own(&r.path));
            sources.extend(before.map(|r| {
                let source = Source {
                    path: r.path.clone().into(),
                    kind: r.kind.clone(),
                    reach: Reach::Added,
                };
                (source, hear)
            }));
            sources.extend(own.into_iter().map(|source| (source, Hear::All)));
            self.tailed = Some(known);
        }
        if sources.is_empty() && self.tails.is_empty() {
            return Ok(None);
        }
        let voice = match gear.launch.via {
            Via::Terminal => Voice::File,
            Via::Acp | Via::Native => Voice::Protocol,
        };
        let (mut tails, recorded) = (std::mem::take(&mut self.tails), gear.read.clone());
        let databases = self.fleet.databases.clone();
        let room = match self.import.has_room() {
            true => Room::Enough,
            false => Room::None,
        };
        // Transcripts are long, and others wait for this thread.
        let (tails, found) = off(move || {
            for source in &sources {
                tails.add(source, &*agent, process, &recorded, &files, &bell);
            }
            let found = tails.read(&*databases, room);
            (tails, found)
        })
        .await?;
        self.tails = tails;
        self.take_words(found.said);
        if !found.readings.is_empty() {
            self.seen.heard(found.readings, voice);
        }
        let pause = match (found.more || !self.seen.watch.is_empty(), found.unwatched) {
            (true, _) => 0,
            (false, true) => UNWATCHED,
            (false, false) => return Ok(None),
        };
        Ok(Some(self.now() + pause))
    }

    /// Whether a run that is driven by a protocol has told nothing yet. It has a journal of its own, whose first
    /// line comes when the program is there: until then the record is about the run before.
    pub(super) fn is_silent(
        &self,
        session: &Session,
        project: &Project,
        agent: &dyn Agent,
    ) -> bool {
        let Some(gear) = session.gear.as_deref() else {
            return false;
        };
        let Ok(settings) = self.fleet.settings_of(project) else {
            return false;
        };
        let order = self
            .fleet
            .order(&self.member, session, gear, &settings, agent);
        self.driven && !was_read(&agent.sources(&order), &gear.read)
    }
}
