//! How a keeper listens to what its agent writes to files, from its first word to its last.

use skein_agent::agent::{Agent, Reach, Source};
use skein_domain::observed::Source as Voice;
use skein_domain::{Project, Session, Via};

use super::keeper::Keeper;
use super::tail::{process, was_read};
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
        self.know_agent(&session).await;
        while self.read_files(&session).is_some_and(|at| at <= self.now()) {}
        self.record(session).await?;
        Ok(())
    }

    /// Reads what the agent wrote to its files. Returns when to look again although nothing rings.
    pub(super) fn read_files(&mut self, session: &Session) -> Option<u64> {
        let (Some(agent), Some(gear)) = (self.agent.clone(), session.gear.as_deref()) else {
            return None;
        };
        if !agent.abilities().files && gear.read.is_empty() && self.seen.watch.is_empty() {
            return None;
        }
        let process = self.sight.pid.and_then(process);
        let (files, bell) = (self.fleet.files.clone(), self.bell.clone());
        let mut sources = std::mem::take(&mut self.seen.watch);
        let known = (process.map(|p| p.pid), gear.native.clone());
        if self.tailed.as_ref() != Some(&known)
            && let Some(settings) = &self.settings
        {
            let order = self
                .fleet
                .order(&self.member, session, gear, settings, &*agent);
            sources.extend(agent.sources(&order));
            sources.extend(gear.read.iter().map(|r| Source {
                path: r.path.clone().into(),
                kind: r.kind.clone(),
                reach: Reach::Added,
            }));
            self.tailed = Some(known);
        }
        for source in &sources {
            self.tails
                .add(source, &*agent, process, &gear.read, &files, &bell);
        }
        let voice = match gear.launch.via {
            Via::Terminal => Voice::File,
            Via::Acp | Via::Native => Voice::Protocol,
        };
        let found = self.tails.read(&*agent, process);
        if !found.readings.is_empty() {
            self.seen.heard(found.readings, voice);
        }
        let pause = match (found.more || !self.seen.watch.is_empty(), found.unwatched) {
            (true, _) => 0,
            (false, true) => UNWATCHED,
            (false, false) => return None,
        };
        Some(self.now() + pause)
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
