//! One task per run: a loop over the run's port. It sleeps until the holder, a hook, a file or a message wakes it (L12),
//! records what the agent does as turns, questions and the end of the run, and delivers messages.
//!
//! Its parts own their state: [`RunContext`] the run's record, [`Mailbox`] requests of the rest of the fleet,
//! [`ObservedAgent`] what is known of the agent, [`TerminalPort`] or [`TurnsPort`] what was sent to it, [`AgentFiles`]
//! what was read of its files. The methods that combine them are in `deliver`, `typing`, `calls`, `record`, `limit` and
//! `listen`, one subject each.

mod agent;
mod context;
mod mailbox;
mod registry;

use std::sync::Arc;
use std::time::Duration;

use skein_domain::observed::{DetectionState, Observation};
use skein_domain::{Activity, Exit, Phase, Project, RuntimeState, Session, Timestamp, Via};
use skein_runtime::runtime::Run;
use skein_store::Reader;
use tokio::time::Instant;

use super::activity::LimitSeen;
use super::calls::TurnsPort;
use super::import::{LAST_PATIENCE, PATIENCE};
use super::listen::AgentFiles;
use super::typing::TerminalPort;
use crate::error::Error;
pub(crate) use agent::{ObservedAgent, picture};
pub(crate) use context::RunContext;
pub(crate) use mailbox::{Mailbox, StopSignal};
pub(crate) use registry::{SupervisorParts, Supervisors, UnrecordedKills};
use skein_ledger::LedgerRequests;

/// How long an agent that reported that it is finished may take to exit before the supervisor ends it.
const LINGER: Duration = Duration::from_secs(10);
/// Pauses in milliseconds before a supervisor tries again to reach a run or a store.
pub(super) const RETRY_PAUSES: [u64; 6] = [200, 1_000, 2_000, 5_000, 15_000, 60_000];
/// The session is `lost` when this many connection attempts in a row have failed and the last found the run missing.
const MISSING_PROBES: u32 = 3;

/// What a supervisor publishes to its subscribers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SupervisorState {
    pub(crate) activity: Option<Activity>,
    pub(crate) exit: Option<Exit>,
    /// How many times receipts changed their state.
    pub(crate) moves: u64,
    /// The task has ended.
    pub(crate) gone: bool,
}

#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(super) context: RunContext,
    pub(super) mailbox: Mailbox,
    pub(super) agent: ObservedAgent,
    /// What it typed, to an agent in its own terminal.
    pub(super) terminal: TerminalPort,
    /// The calls of a protocol driver; there is one port or the other.
    pub(super) turns: Option<TurnsPort>,
    pub(super) files: AgentFiles,
    /// When the agent reported that it is finished.
    finished_at: Option<Instant>,
    retries: Retries,
    /// Whether the run was just started with its task in its arguments.
    has_task: bool,
}

/// How many attempts in a row to reach the run or the store have failed.
#[derive(Debug, Default)]
struct Retries {
    failed: u32,
}

impl Retries {
    /// Pauses before the next try, longer each time. Returns true when the supervisor is to stop.
    async fn pause_before_retry(&self, stop: &mut StopSignal) -> bool {
        let index = usize::try_from(self.failed)
            .unwrap_or(usize::MAX)
            .min(RETRY_PAUSES.len() - 1);
        let pause = Duration::from_millis(RETRY_PAUSES[index]);
        tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = stop.wait() => true,
        }
    }
}

/// Why a connection to the run ended.
enum ConnectionEnd {
    Exited(Exit),
    CutOff,
    Stopped,
}

impl Supervisor {
    fn new(
        parts: &Arc<SupervisorParts>,
        requests: &LedgerRequests,
        session: &Session,
        mailbox: Mailbox,
        has_task: bool,
    ) -> Option<Self> {
        let context = RunContext::new(parts, requests, session)?;
        let is_driven = session.gear.as_ref()?.launch.via != Via::Terminal;
        let turns = is_driven.then(|| TurnsPort::new(context.private(), context.run));
        Some(Self {
            context,
            mailbox,
            agent: ObservedAgent::default(),
            terminal: TerminalPort::default(),
            turns,
            files: AgentFiles::default(),
            finished_at: None,
            retries: Retries::default(),
            has_task,
        })
    }

    async fn supervise(mut self) {
        let exit = self.watch().await;
        if let Some(exit) = exit {
            // If this fails, `finish` tries it again.
            let _ = self.read_remaining_files().await;
            // Before the exit is published: a spawn that waits for its task to be taken takes the exit for the answer.
            let _ = self.confirm_last_message().await;
            self.mailbox.publish(|state| state.exit = Some(exit));
            self.finish(exit).await;
            self.import_remaining().await;
        }
        self.mailbox.publish(|state| state.gone = true);
    }

    /// Imports the remaining messages into the transcript after the run has ended.
    async fn import_remaining(&mut self) {
        while !self.files.import.is_done() {
            let again = self.import(LAST_PATIENCE).await;
            // Messages that did not fit in the queue are read again.
            if self.files.import.is_done() && again.is_some() {
                let Ok(session) = self.context.session().await else {
                    return;
                };
                if session.run != self.context.run || self.read_files(&session).await.is_err() {
                    return;
                }
                continue;
            }
            self.retries.failed = self.files.import.failures;
            if !self.files.import.is_done() && self.pause_before_retry().await {
                return;
            }
        }
    }

    /// Follows the run until it ends. None when the supervisor is stopped before.
    async fn watch(&mut self) -> Option<Exit> {
        loop {
            if self.mailbox.stop.is_asked() {
                return None;
            }
            let context = &self.context;
            match context.parts.runtime.connect(&context.handle).await {
                Ok(run) => {
                    self.retries.failed = 0;
                    self.context.show(|o| o.doubt = None);
                    match self.follow_connection(run).await {
                        ConnectionEnd::Exited(exit) => return Some(exit),
                        ConnectionEnd::Stopped => return None,
                        ConnectionEnd::CutOff => {}
                    }
                }
                Err(skein_runtime::error::Error::Missing)
                    if self.retries.failed + 1 >= MISSING_PROBES =>
                {
                    self.publish_runtime(RuntimeState::Missing);
                    return Some(Exit::Unseen);
                }
                Err(error) => self.record_failed_probe(&error.to_string()),
            }
            if self.pause_before_retry().await {
                return None;
            }
        }
    }

    fn record_failed_probe(&mut self, why: &str) {
        self.retries.failed += 1;
        let (now, failed) = (self.context.requests.now(), self.retries.failed);
        self.context.show(|o| {
            let since = o.doubt.as_ref().map_or(now, |d| d.since);
            o.doubt = Some(DetectionState {
                since,
                looks: failed.saturating_sub(1),
                why: why.to_owned(),
            });
        });
    }

    /// Pauses before the next try. Returns true when the supervisor is to stop.
    async fn pause_before_retry(&mut self) -> bool {
        self.retries
            .pause_before_retry(&mut self.mailbox.stop)
            .await
    }

    fn publish_runtime(&self, state: RuntimeState) {
        let at = self.context.requests.now();
        let output_at = self.agent.sight.output_at.map(Timestamp::from_micros);
        let has_signal = self.agent.has_signal();
        self.context.show(|o| {
            o.runtime = Some(Observation { what: state, at });
            o.output_at = output_at.or(o.output_at);
            o.has_signal = has_signal;
        });
    }

    /// Follows one connection to the run until it ends.
    async fn follow_connection(&mut self, run: Arc<dyn Run>) -> ConnectionEnd {
        let mut sights = run.sight();
        let changed_files = self.files.changed.clone();
        let mut refresh_screen = true;
        loop {
            self.agent.sight = *sights.borrow_and_update();
            self.terminal.taken = self.terminal.taken.max(self.agent.sight.input);
            if let Some(exit) = self.agent.sight.exit {
                self.publish_runtime(RuntimeState::Exited(exit));
                return ConnectionEnd::Exited(exit);
            }
            if self.agent.sight.cut_off {
                return ConnectionEnd::CutOff;
            }
            let next = match self.observe_and_deliver(&run, refresh_screen).await {
                Ok(next) => next,
                Err(Error::Runtime(_)) => return ConnectionEnd::CutOff,
                Err(Error::Ledger(skein_ledger::Error::Stopped)) => return ConnectionEnd::Stopped,
                Err(error) => {
                    tracing::warn!(session = %self.context.session_key.session, %error, "a supervisor could not record its observations");
                    Some(Instant::now() + Duration::from_secs(1))
                }
            };
            tokio::select! {
                biased;
                () = self.mailbox.stop.wait() => return ConnectionEnd::Stopped,
                changed = sights.changed() => {
                    if changed.is_err() {
                        return ConnectionEnd::CutOff;
                    }
                    refresh_screen = sights.borrow().bytes != self.agent.screen.bytes;
                }
                request = self.mailbox.inbox.recv() => {
                    self.mailbox.take(request);
                    refresh_screen = true;
                }
                () = changed_files.notified() => refresh_screen = true,
                () = sleep_until(next) => refresh_screen = true,
            }
        }
    }

    /// Reads the screen and the files, records what they show, delivers messages. Returns when to do so again.
    async fn observe_and_deliver(
        &mut self,
        run: &Arc<dyn Run>,
        refresh_screen: bool,
    ) -> Result<Option<Instant>, Error> {
        let session = self.context.session().await?;
        self.load_agent(&session).await;
        let woken = self.mailbox.take_waiting();
        let reread = self.read_files(&session).await?;
        let import_due = self.import(PATIENCE).await;
        // The request that woke the supervisor may have changed the record after it was read; it wakes only once.
        let session = match woken {
            true => self.context.session().await?,
            false => session,
        };
        if refresh_screen && self.turns.is_none() {
            self.agent.screen = run.screen().await?;
        }
        self.read_screen();
        let now = self.context.now();
        self.terminal.notice_typing(self.agent.screen.typed, now);
        let session = self.update_limit(session).await?;
        let session = self.record(session).await?;
        let session = self.settle(run, session).await?;
        // Only now: the published state includes the agent's activity and the messages that wait.
        self.publish_runtime(RuntimeState::Alive {
            pid: self.agent.sight.pid,
        });
        self.interrupt(run).await?;
        let due = match self.turns.is_some() {
            true => self.deliver_calls(session).await?,
            false => self.deliver(run, session).await?,
        };
        let (now, evidence) = (self.context.now(), &self.agent.evidence);
        let limited = evidence.limit.left(self.context.requests.now());
        let again = [
            due,
            evidence.look_again(now),
            evidence.turn.settles(now),
            reread,
            import_due,
            // Not a moment before the limit is over.
            limited.map(|micros| now + micros / 1_000 + 1),
        ];
        let unknown = self.agent.program.is_none().then_some(now + 5_000);
        let earliest = again.into_iter().flatten().chain(unknown).min();
        // Never at once again: a deadline that has just passed must not keep the loop from sleeping.
        let earliest = earliest.map(|at| self.context.instant(at.max(self.context.now() + 1)));
        Ok(earliest
            .into_iter()
            .chain(self.end_finished_agent().await?)
            .min())
    }

    /// Ends an agent that reported that it is finished but does not exit. Returns when that is due.
    async fn end_finished_agent(&mut self) -> Result<Option<Instant>, Error> {
        if self.agent.evidence.finished.is_none() || !self.context.is_ours().await {
            return Ok(None);
        }
        let due = *self.finished_at.get_or_insert_with(Instant::now) + LINGER;
        if Instant::now() < due {
            return Ok(Some(due));
        }
        tokio::select! {
            biased;
            () = self.mailbox.stop.wait() => Err(Error::STOPPED),
            ended = self.context.end_processes() => ended.map(|()| None),
        }
    }

    /// Loads the agent's adapter and settings. If the settings cannot be read, the next call tries again.
    pub(super) async fn load_agent(&mut self, session: &Session) {
        if self.agent.program.is_some() {
            return;
        }
        let id = session.project.clone();
        let read = move |r: &Reader<'_>| r.get::<Project>(id.as_str());
        let Ok(project) = self.context.requests.read(read).await else {
            return;
        };
        let now = self.context.now();
        let evidence = &mut self.agent.evidence;
        match self.context.parts.programs.agent(session, &project) {
            Ok(program) => {
                let is_silent = self.turns.as_ref().is_some_and(|t| t.is_silent(session));
                let phase = match is_silent {
                    true => &Phase::Spawning,
                    false => &session.phase,
                };
                evidence.restore_from_record(phase, program.abilities());
                if self.has_task {
                    evidence.launched(now);
                }
                let gear = session.gear.as_ref();
                let limit = gear.and_then(|g| g.limit.as_ref());
                evidence.limit.now = limit.map(LimitSeen::recorded);
                self.agent.program = Some(program);
            }
            Err(error) => tracing::warn!(%error, "an agent's settings cannot be read"),
        }
        if let Ok(settings) = self.context.parts.programs.settings_of(&project) {
            let (board, session_key) = (&self.context.parts.board, &self.context.session_key);
            board.set_patience(session_key, settings.patience);
            self.agent.settings = Some(settings);
        }
        let has_signal = self.agent.has_signal();
        let starting = self.agent.evidence.is_starting();
        self.context.show(|o| {
            o.has_signal = has_signal;
            o.starting = starting;
        });
    }

    fn read_screen(&mut self) {
        if self.agent.program.is_none() {
            return;
        }
        self.agent.read_screen(self.context.now());
        let at = self.context.requests.now();
        // A limit is shown with its end, and no longer than it lasts.
        let evidence = &mut self.agent.evidence;
        evidence.tick(at, &self.context.parts.zone);
        let starting = evidence.is_starting();
        self.context.show(|o| o.starting = starting);
        if let Some(what) = evidence.shown() {
            let activity = what.activity;
            self.context.show(|o| {
                if o.activity.as_ref().is_none_or(|a| a.what != what) {
                    o.activity = Some(Observation { what, at });
                }
            });
            self.mailbox
                .publish(|state| state.activity = Some(activity));
        }
    }

    /// Records the end of the run, unless a saga that works on the session records it.
    async fn finish(&mut self, exit: Exit) {
        if exit == Exit::Unseen && self.context.is_ours().await {
            // Its holder is gone: end processes that are left, because nothing supervises them.
            let _ = self.context.end_processes().await;
        }
        loop {
            // The end and the read positions are recorded together.
            let recorded = match self.read_remaining_files().await {
                Ok(()) => self.record_end(exit).await,
                Err(error) => Err(error),
            };
            match recorded {
                Ok(true) => break,
                // The session is being started or handed over, which does not take long.
                Ok(false) => self.retries.failed = 0,
                Err(error) => {
                    self.retries.failed = 1;
                    tracing::warn!(session = %self.context.session_key.session, %error, "an end could not be recorded");
                }
            }
            if self.pause_before_retry().await {
                return;
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
