//! How a supervisor reads the files that its agent writes, from the first line to the last.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use skein_agent::agent::{ReadRange, WatchedFile};
use skein_domain::observed::EvidenceSource;
use skein_domain::{Gear, NativeId, ReadFile, Session, Spent};
use tokio::sync::Notify;

use super::commands::run_blocking;
use super::hook_journal;
use super::import::{Import, LAST_PATIENCE};
use super::supervisor::{ObservedAgent, RunContext, Supervisor};
use super::tail::{ImportCapacity, ReadingFilter, Tails};
use crate::error::Error;

/// Milliseconds between two reads of files that cannot be watched.
const UNWATCHED: u64 = 2_000;

/// What the agent writes to files, and how far that was read and recorded.
#[derive(Debug, Default)]
pub(super) struct AgentFiles {
    pub(super) tails: Tails,
    /// The process and the conversation that the files were found by.
    found_by: Option<(Option<u32>, Option<NativeId>)>,
    /// Messages on their way to the transcript.
    pub(super) import: Import,
    /// What this run has spent, as far as this process knows.
    pub(super) spent: Option<Spent>,
    /// Notified when one of the files changes.
    pub(super) changed: Arc<Notify>,
}

impl Supervisor {
    /// Reads and records what the agent wrote to its files before it ended, perhaps while no daemon ran.
    pub(super) async fn read_remaining_files(&mut self) -> Result<(), Error> {
        let session = self.context.session().await?;
        if session.run != self.context.run || session.check_free().is_err() {
            return Ok(());
        }
        self.read_all(&session).await?;
        self.record(session).await?;
        Ok(())
    }

    /// The same for a run that a saga has ended: the saga records the end, this what was spent and which calls the
    /// driver accepted.
    pub(super) async fn record_remaining(&mut self) -> Result<(), Error> {
        let session = self.context.session().await?;
        if session.run == self.context.run {
            self.read_all(&session).await?;
            let session = self.record_calls(session).await?;
            self.note(session, vec![]).await?;
        }
        Ok(())
    }

    async fn read_all(&mut self, session: &Session) -> Result<(), Error> {
        self.load_agent(session).await;
        loop {
            let again = self.read_files(session).await?;
            let import_due = self.import(LAST_PATIENCE).await;
            let again = again.into_iter().chain(import_due).min();
            if again.is_none_or(|at| at > self.context.now()) {
                return Ok(());
            }
        }
    }

    /// Reads what the agent wrote to its files. Returns when to read again although no file changes.
    pub(super) async fn read_files(&mut self, session: &Session) -> Result<Option<u64>, Error> {
        let written_by = match self.turns {
            Some(_) => EvidenceSource::Protocol,
            None => EvidenceSource::File,
        };
        let files = &mut self.files;
        files
            .read(&self.context, &mut self.agent, session, written_by)
            .await
    }

    /// Has the agent's messages appended to the transcript; see [`AgentFiles::import`].
    pub(super) async fn import(&mut self, patience: Duration) -> Option<u64> {
        self.files
            .import(&self.context, &self.agent, patience)
            .await
    }
}

impl AgentFiles {
    /// How far growing files were read.
    pub(super) fn positions(&self) -> Vec<ReadFile> {
        self.tails.positions()
    }

    /// What this run had spent when that was last recorded.
    pub(super) fn spent_before(&mut self, session: &Session, run: u64) -> Spent {
        let recorded = session.gear.as_ref().and_then(|g| g.spent);
        // Looked up once: a write whose reply is lost was perhaps done, and is not to be counted on top.
        *self
            .spent
            .get_or_insert_with(|| recorded.unwrap_or_default().of(run))
    }

    /// Reads what is new in all files of the run into the evidence. Returns when to read again although no file
    /// changes.
    async fn read(
        &mut self,
        context: &RunContext,
        agent: &mut ObservedAgent,
        session: &Session,
        written_by: EvidenceSource,
    ) -> Result<Option<u64>, Error> {
        let (Some(program), Some(gear)) = (agent.program.clone(), session.gear.as_deref()) else {
            return Ok(None);
        };
        let process = agent.process();
        let mut sources: Vec<(WatchedFile, ReadingFilter)> =
            std::mem::take(&mut agent.evidence.journal.watch)
                .into_iter()
                .map(|source| (source, ReadingFilter::All))
                .collect();
        let known = (process.map(|p| p.pid), gear.native.clone());
        if self.found_by.as_ref() != Some(&known)
            && let Some(settings) = &agent.settings
        {
            let programs = &context.parts.programs;
            let launched =
                programs.launch_request(&context.session_key, session, gear, settings, &*program);
            let own = program.sources(&launched);
            let hooks = hook_journal::source(&context.private(), context.run);
            sources.extend(all_sources(gear, own, hooks, written_by));
            self.found_by = Some(known);
        }
        if sources.is_empty() && self.tails.is_empty() {
            return Ok(None);
        }
        let (mut tails, recorded) = (std::mem::take(&mut self.tails), gear.read.clone());
        let (files, bell) = (context.parts.files.clone(), self.changed.clone());
        let databases = context.parts.databases.clone();
        let capacity = match self.import.has_capacity() {
            true => ImportCapacity::Available,
            false => ImportCapacity::Full,
        };
        // Transcripts are long, and other tasks wait for this thread.
        let (tails, batch) = run_blocking(move || {
            for source in &sources {
                tails.add(source, &program, process, &recorded, &files, &bell);
            }
            let batch = tails.read(&*databases, capacity, written_by);
            (tails, batch)
        })
        .await?;
        self.tails = tails;
        agent.evidence.turn.apply_transcript(&batch.transcript);
        self.import
            .enqueue(batch.transcript, context.requests.now());
        for (source, readings) in batch.readings {
            agent.evidence.apply_readings(readings, source);
        }
        let more = batch.more || !agent.evidence.journal.watch.is_empty();
        let pause = match (more, batch.unwatched) {
            (true, _) => 0,
            (false, true) => UNWATCHED,
            (false, false) => return Ok(None),
        };
        Ok(Some(context.now() + pause))
    }
}

/// The files of a run in the order in which they are read: those of earlier runs, the journal of hook calls, the
/// program's own.
fn all_sources(
    gear: &Gear,
    own: Vec<WatchedFile>,
    hooks: WatchedFile,
    written_by: EvidenceSource,
) -> Vec<(WatchedFile, ReadingFilter)> {
    let is_own = |path: &str| {
        let path = Path::new(path);
        hooks.path == path || own.iter().any(|source| source.path == path)
    };
    // A driver has a journal for each run. What other programs write goes on with the conversation.
    let filter = match written_by {
        EvidenceSource::Protocol => ReadingFilter::UsageOnly,
        _ => ReadingFilter::All,
    };
    let before = gear.read.iter().filter(|r| !is_own(&r.path));
    let mut sources: Vec<_> = before
        .map(|r| {
            let source = WatchedFile {
                path: r.path.clone().into(),
                kind: r.kind.clone(),
                reach: ReadRange::Added,
            };
            (source, filter)
        })
        .collect();
    // A program waits for its hooks: what it wrote to its files since then comes after what they said.
    sources.push((hooks, ReadingFilter::All));
    sources.extend(own.into_iter().map(|source| (source, ReadingFilter::All)));
    sources
}
