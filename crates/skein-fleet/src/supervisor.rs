//! One task per run: a loop over the run's port. It sleeps until the holder, a hook, a file or a message wakes it (L12),
//! records what the agent does as turns, questions and the end of the run, and delivers messages.

mod registry;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use skein_agent::agent::{Agent, ScreenView};
use skein_domain::observed::{DetectionState, Observation};
use skein_domain::{
    Activity, Exit, Phase, Project, RunHandle, RuntimeState, Session, Timestamp, Via,
};
use skein_runtime::runtime::{Grace, Run, RunObservation};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::SessionKey;
use super::activity::{ActivityEvidence, LimitSeen};
use super::calls::TurnsPort;
use super::courier::{InputBox, SETTLE_MS};
use super::import::{LAST_PATIENCE, PATIENCE};
use super::listen::AgentFiles;
use super::typing::{Interrupt, TerminalPort};
use crate::error::Error;
use registry::Request;
pub(crate) use registry::{SupervisorParts, Supervisors, UnrecordedKills};
use skein_ledger::LedgerRequests;

/// How long an agent that reported that it is finished may take to exit before the supervisor ends it.
const LINGER: Duration = Duration::from_secs(10);
/// Pauses in milliseconds before a supervisor tries again to reach a run or a store.
pub(super) const RETRY_PAUSES: [u64; 6] = [200, 1_000, 2_000, 5_000, 15_000, 60_000];
/// A run that the runtime reports missing is looked for this often before the session is `lost`.
const LOOKS: u32 = 3;

/// What a supervisor publishes to those who wait for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SupervisorState {
    pub(crate) activity: Option<Activity>,
    pub(crate) exit: Option<Exit>,
    /// Counts receipts that moved.
    pub(crate) moves: u64,
    /// The task has ended.
    pub(crate) gone: bool,
}

/// The supervisor's end of its handle in [`Supervisors`].
pub(super) struct Mailbox {
    inbox: mpsc::Receiver<Request>,
    /// Requests to stop the turn that are not carried out yet.
    pub(super) interrupts: VecDeque<Interrupt>,
    pub(super) stop: watch::Receiver<bool>,
    state: watch::Sender<SupervisorState>,
}

pub(crate) struct Supervisor {
    pub(super) requests: LedgerRequests,
    pub(super) parts: Arc<SupervisorParts>,
    pub(super) session_key: SessionKey,
    pub(super) run: u64,
    handle: RunHandle,
    pub(super) mailbox: Mailbox,
    pub(super) agent: Option<Arc<dyn Agent>>,
    pub(super) evidence: ActivityEvidence,
    pub(super) sight: RunObservation,
    /// What it types and sees, of an agent in its own terminal.
    pub(super) terminal: TerminalPort,
    /// The calls of a protocol driver; there is one port or the other.
    pub(super) turns: Option<TurnsPort>,
    pub(super) files: AgentFiles,
    began: Instant,
    /// When the agent reported that it is finished.
    finished_at: Option<Instant>,
    /// How often in a row the run could not be reached.
    looks: u32,
    /// Whether the run was just started with its task in its arguments.
    has_task: bool,
}

/// Why a supervisor left a connection.
enum Left {
    Over(Exit),
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
        let gear = session.gear.as_deref()?;
        let session_key = requests.session_key(&session.id);
        let is_driven = gear.launch.via != Via::Terminal;
        let turns = is_driven
            .then(|| TurnsPort::new(parts.programs.folders.private(&session_key), session.run));
        Some(Self {
            requests: requests.system(),
            parts: parts.clone(),
            run: session.run,
            handle: gear.handle.clone()?,
            mailbox,
            agent: None,
            evidence: ActivityEvidence::default(),
            sight: RunObservation::default(),
            terminal: TerminalPort::default(),
            turns,
            files: AgentFiles::default(),
            began: Instant::now(),
            finished_at: None,
            looks: 0,
            has_task,
            session_key,
        })
    }

    async fn supervise(mut self) {
        let exit = self.watch().await;
        if let Some(exit) = exit {
            // What cannot be recorded now is tried again with the end itself.
            let _ = self.read_last_words().await;
            self.publish(|state| state.exit = Some(exit));
            self.finish(exit).await;
            self.import_rest().await;
        }
        self.publish(|state| state.gone = true);
    }

    /// Stays after the end of the run until all that was said in it is in the transcript.
    async fn import_rest(&mut self) {
        while !self.files.import.is_done() {
            let again = self.import(LAST_PATIENCE).await;
            // What there was no room for is read again.
            if self.files.import.is_done() && again.is_some() {
                let Ok(session) = self.session().await else {
                    return;
                };
                if session.run != self.run || self.read_files(&session).await.is_err() {
                    return;
                }
                continue;
            }
            self.looks = self.files.import.failures;
            if !self.files.import.is_done() && self.rest().await {
                return;
            }
        }
    }

    /// Watches until the run is over; none when the supervisor is stopped before.
    async fn watch(&mut self) -> Option<Exit> {
        loop {
            if *self.mailbox.stop.borrow() {
                return None;
            }
            match self.parts.runtime.connect(&self.handle).await {
                Ok(run) => {
                    self.looks = 0;
                    self.parts
                        .board
                        .change(&self.session_key, |o| o.doubt = None);
                    match self.attend(run).await {
                        Left::Over(exit) => return Some(exit),
                        Left::Stopped => return None,
                        Left::CutOff => {}
                    }
                }
                Err(skein_runtime::error::Error::Missing) if self.looks + 1 >= LOOKS => {
                    self.saw(RuntimeState::Missing);
                    return Some(Exit::Unseen);
                }
                Err(error) => self.doubts(&error.to_string()),
            }
            if self.rest().await {
                return None;
            }
        }
    }

    fn doubts(&mut self, why: &str) {
        self.looks += 1;
        let (now, looks) = (self.requests.now(), self.looks);
        self.parts.board.change(&self.session_key, |o| {
            let since = o.doubt.as_ref().map_or(now, |d| d.since);
            o.doubt = Some(DetectionState {
                since,
                looks: looks.saturating_sub(1),
                why: why.to_owned(),
            });
        });
    }

    /// Pauses before the next look, longer each time. Returns true when the supervisor is to stop.
    async fn rest(&mut self) -> bool {
        let index = usize::try_from(self.looks)
            .unwrap_or(usize::MAX)
            .min(RETRY_PAUSES.len() - 1);
        let pause = Duration::from_millis(RETRY_PAUSES[index]);
        let stopping = self.requests.tasks().stopping();
        tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = stopped(&mut self.mailbox.stop) => true,
            () = stopping => true,
        }
    }

    fn saw(&self, state: RuntimeState) {
        let at = self.requests.now();
        let output_at = self.sight.output_at.map(Timestamp::from_micros);
        let has_signal = self.has_signal();
        self.parts.board.change(&self.session_key, |o| {
            o.runtime = Some(Observation { what: state, at });
            o.output_at = output_at.or(o.output_at);
            o.has_signal = has_signal;
        });
    }

    pub(super) fn has_signal(&self) -> bool {
        self.agent
            .as_ref()
            .is_some_and(|a| a.abilities().has_signal())
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// One connection, from its first sight to its last.
    async fn attend(&mut self, run: Arc<dyn Run>) -> Left {
        let mut sights = run.sight();
        let stopping = self.requests.tasks().stopping();
        tokio::pin!(stopping);
        let changed_files = self.files.changed.clone();
        let mut look = true;
        loop {
            self.sight = *sights.borrow_and_update();
            self.terminal.taken = self.terminal.taken.max(self.sight.input);
            if let Some(exit) = self.sight.exit {
                self.saw(RuntimeState::Exited(exit));
                return Left::Over(exit);
            }
            if self.sight.cut_off {
                return Left::CutOff;
            }
            let next = match self.attend_once(&run, look).await {
                Ok(next) => next,
                Err(Error::Runtime(_)) => return Left::CutOff,
                Err(Error::Ledger(skein_ledger::Error::Stopped)) => return Left::Stopped,
                Err(error) => {
                    tracing::warn!(session = %self.session_key.session, %error, "a supervisor could not record what it saw");
                    Some(Instant::now() + Duration::from_secs(1))
                }
            };
            tokio::select! {
                biased;
                () = stopped(&mut self.mailbox.stop) => return Left::Stopped,
                () = &mut stopping => return Left::Stopped,
                changed = sights.changed() => {
                    if changed.is_err() {
                        return Left::CutOff;
                    }
                    look = sights.borrow().bytes != self.terminal.screen.bytes;
                }
                request = self.mailbox.inbox.recv() => {
                    self.take_requests(request);
                    look = true;
                }
                () = changed_files.notified() => look = true,
                () = sleep_until(next) => look = true,
            }
        }
    }

    fn take_requests(&mut self, first: Option<Request>) {
        let mut next = first;
        while let Some(request) = next {
            match request {
                Request::Interrupt(interrupt) => self.mailbox.interrupts.push_back(interrupt),
                Request::Wake => {}
            }
            next = self.mailbox.inbox.try_recv().ok();
        }
    }

    /// Looks, records what was seen, delivers messages. Returns when to look again.
    async fn attend_once(
        &mut self,
        run: &Arc<dyn Run>,
        look: bool,
    ) -> Result<Option<Instant>, Error> {
        let session = self.session().await?;
        self.know_agent(&session).await;
        let request = self.mailbox.inbox.try_recv().ok();
        let woken = request.is_some();
        self.take_requests(request);
        let reread = self.read_files(&session).await?;
        let unsaid = self.import(PATIENCE).await;
        // Whoever woke us may have changed the record after it was read, and wakes us only once.
        let session = match woken {
            true => self.session().await?,
            false => session,
        };
        if look && self.turns.is_none() {
            self.terminal.screen = run.screen().await?;
        }
        self.read_screen();
        self.notice_typing();
        let session = self.mind_limit(session).await?;
        let session = self.record(session).await?;
        let session = self.settle(run, session).await?;
        // Published only now: what the agent does, and what waits for it, is known.
        self.saw(RuntimeState::Alive {
            pid: self.sight.pid,
        });
        self.interrupt(run).await?;
        let due = match self.turns.is_some() {
            true => self.deliver_calls(session).await?,
            false => self.deliver(run, session).await?,
        };
        let again = [
            due,
            self.evidence.look_again(self.now()),
            self.settles(),
            reread,
            unsaid,
            self.lifts(),
        ];
        let unknown = self.agent.is_none().then(|| self.now() + 5_000);
        let earliest = again.into_iter().flatten().chain(unknown).min();
        // Never at once again: a deadline that has just passed must not keep the loop from sleeping.
        let earliest = earliest.map(|at| at.max(self.now() + 1));
        let earliest = earliest.map(|at| self.began + Duration::from_millis(at));
        Ok(earliest.into_iter().chain(self.see_off().await?).min())
    }

    /// Ends an agent that reported that it is finished and stays. Returns when.
    async fn see_off(&mut self) -> Result<Option<Instant>, Error> {
        if self.evidence.finished.is_none() || !self.is_ours().await {
            return Ok(None);
        }
        let due = *self.finished_at.get_or_insert_with(Instant::now) + LINGER;
        if Instant::now() < due {
            return Ok(Some(due));
        }
        let stopping = self.requests.tasks().stopping();
        tokio::select! {
            biased;
            () = stopped(&mut self.mailbox.stop) => return Err(Error::STOPPED),
            () = stopping => return Err(Error::STOPPED),
            ended = self.parts.runtime.end(&self.handle, Grace::default()) => drop(ended?),
        }
        Ok(None)
    }

    /// When a limit is over.
    fn lifts(&self) -> Option<u64> {
        let until = self.evidence.limit.as_ref()?.until?;
        let micros = until
            .as_micros()
            .saturating_sub(self.requests.now().as_micros());
        // Not a moment before.
        Some(self.now() + u64::try_from(micros).unwrap_or(0) / 1_000 + 1)
    }

    /// After a submit the screen's `ready` is believed again at this moment, if nothing else happens.
    fn settles(&self) -> Option<u64> {
        let at = self.evidence.prompted_at? + SETTLE_MS;
        (!self.evidence.worked && at >= self.now()).then_some(at)
    }

    pub(super) async fn session(&self) -> Result<Session, Error> {
        let id = self.session_key.session.clone();
        Ok(self.requests.look(move |r| r.get(id.as_str())).await?)
    }

    /// The agent's own knowledge; settings that are broken for a while do not stop the watch.
    pub(super) async fn know_agent(&mut self, session: &Session) {
        if self.agent.is_some() {
            return;
        }
        let id = session.project.clone();
        let Ok(project) = self
            .requests
            .look(move |r| r.get::<Project>(id.as_str()))
            .await
        else {
            return;
        };
        match self.parts.programs.agent(session, &project) {
            Ok(agent) => {
                let phase = match self.is_silent(session) {
                    true => &Phase::Spawning,
                    false => &session.phase,
                };
                self.evidence.recall(phase, agent.abilities());
                if self.has_task {
                    self.evidence.launched(self.now());
                }
                self.evidence.limit = session
                    .gear
                    .as_ref()
                    .and_then(|g| g.limit.as_ref())
                    .map(LimitSeen::recorded);
                self.agent = Some(agent);
            }
            Err(error) => tracing::warn!(%error, "an agent's settings cannot be read"),
        }
        if let Ok(settings) = self.parts.programs.settings_of(&project) {
            self.parts
                .board
                .set_patience(&self.session_key, settings.patience);
            self.files.settings = Some(settings);
        }
        let (has_signal, starting) = (self.has_signal(), self.evidence.is_starting());
        self.parts.board.change(&self.session_key, |o| {
            o.has_signal = has_signal;
            o.starting = starting;
        });
    }

    fn read_screen(&mut self) {
        let Some(agent) = &self.agent else {
            return;
        };
        let picture = ScreenView {
            rows: &self.terminal.screen.rows,
            cursor: self.terminal.screen.cursor,
            title: None,
        };
        let readings = agent.read_screen(picture);
        let now = self.now();
        self.evidence.box_hidden = self.input_box() == InputBox::Unseen;
        self.evidence.launch_over(now);
        self.evidence.looked(readings, now);
        let at = self.requests.now();
        // A limit is told with its end, and no longer than it lasts.
        self.evidence.tick(at, &self.parts.zone);
        let starting = self.evidence.is_starting();
        self.parts
            .board
            .change(&self.session_key, |o| o.starting = starting);
        if let Some(what) = self.evidence.shown() {
            let activity = what.activity;
            self.parts.board.change(&self.session_key, |o| {
                if o.activity.as_ref().is_none_or(|a| a.what != what) {
                    o.activity = Some(Observation { what, at });
                }
            });
            self.publish(|state| state.activity = Some(activity));
        }
    }

    pub(super) fn publish(&self, change: impl FnOnce(&mut SupervisorState)) {
        self.mailbox.state.send_if_modified(|state| {
            let before = state.clone();
            change(state);
            *state != before
        });
    }

    /// The run is over: its end is recorded, unless a saga is at work on the session and does it.
    async fn finish(&mut self, exit: Exit) {
        if exit == Exit::Unseen && self.is_ours().await {
            // Its holder is gone; what is left of it must not go on unseen.
            let ended = self.parts.runtime.end(&self.handle, Grace::default());
            let _ = ended.await;
        }
        loop {
            // With the end it is recorded that all was read.
            let recorded = match self.read_last_words().await {
                Ok(()) => self.record_end(exit).await,
                Err(error) => Err(error),
            };
            match recorded {
                Ok(true) => break,
                // Being handed over; that is over soon.
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(session = %self.session_key.session, %error, "an end could not be recorded");
                }
            }
            self.looks = 1;
            if self.rest().await {
                return;
            }
        }
    }

    /// Whether the run is still the session's, and no saga's to start or to end.
    async fn is_ours(&self) -> bool {
        let session = self.session().await;
        session.is_ok_and(|s| s.run == self.run && s.has_run() && s.check_free().is_ok())
    }

    /// The run's end is recorded: the runtime keeps nothing of it any more.
    pub(super) async fn forget_run(&self) {
        if let Err(error) = self.parts.runtime.forget(&self.handle).await {
            tracing::warn!(%error, "the runtime could not remove what is left of a run");
        }
    }
}

/// Resolves once the supervisor is told to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A handle that is gone cannot be asked for anything any more.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
