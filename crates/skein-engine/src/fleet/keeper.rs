//! One task per run: woken by its runtime, by hooks and by new messages, never by a clock of its own while
//! nothing happens (L12). It records what the agent does as turns, questions and the end of the run, and
//! brings messages.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use skein_agent::agent::{Agent, Picture, Reading};
use skein_domain::observed::{Doubt, Seen, Source as Voice};
use skein_domain::{
    Activity, Exit, Kind, NativeId, Phase, Project, ReceiptId, RunHandle, RuntimeKind,
    RuntimeState, Saga, SagaId, Session, Timestamp, Via,
};
use skein_runtime::runtime::{Run, Runtime, Screen, Sight};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::activity::{LimitSeen, Sightings};
use super::courier::{InputBox, SETTLE_MS};
use super::import::{Import, LAST_PATIENCE, PATIENCE};
use super::journal::failed;
use super::settings::ProjectSettings;
use super::step::StepError;
use super::tail::Tails;
use super::typing::{Hand, Interrupt};
use super::{Fleet, Member, lock};
use crate::desk::Desk;
use crate::ending::KillOrder;
use crate::error::Error;

/// How many hooks and wakes may wait for a keeper; more are let go, and the screen tells the rest.
const INBOX: usize = 64;
/// How many hooks are kept of a run that is not watched yet.
const EARLY: usize = INBOX;
/// How long an agent that said it is done for good may take to go.
const LINGER: Duration = Duration::from_secs(10);
/// How long a spawn waits for its agent to take the task; after that the task waits like any message.
const TASK: Duration = Duration::from_secs(60);
/// Between two looks at a run that cannot be reached.
pub(super) const AGAIN: [u64; 6] = [200, 1_000, 2_000, 5_000, 15_000, 60_000];
/// How long after its output a terminal of tmux's has drawn it, in milliseconds.
const DRAWN_MS: u64 = 300;
/// A run that is definitely gone is looked for this often before that is believed.
const LOOKS: u32 = 3;

/// How others reach a keeper.
#[derive(Debug)]
pub(crate) struct Handle {
    run: u64,
    inbox: mpsc::Sender<Call>,
    stop: watch::Sender<bool>,
    told: watch::Receiver<Told>,
}

#[derive(Debug)]
enum Call {
    Hook(u64, Vec<Reading>),
    Interrupt(Interrupt),
    Wake,
}

/// What hooks said of runs that nobody watches yet.
pub(super) type Early = HashMap<Member, Vec<(u64, Vec<Reading>)>>;

/// A kill that the store could not take.
#[derive(Clone, Debug)]
pub(super) struct UnrecordedKill {
    pub(super) run: u64,
    pub(super) order: KillOrder,
    pub(super) saga: SagaId,
}

/// What a keeper tells whoever waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) activity: Option<Activity>,
    pub(crate) exit: Option<Exit>,
    /// Counts receipts that moved.
    pub(crate) moves: u64,
    /// The task has ended.
    pub(crate) gone: bool,
}

pub(crate) struct Keeper {
    pub(super) desk: Desk,
    pub(super) fleet: Arc<Fleet>,
    pub(super) member: Member,
    runtime: Arc<dyn Runtime>,
    handle: RunHandle,
    pub(super) run: u64,
    pub(super) agent: Option<Arc<dyn Agent>>,
    inbox: mpsc::Receiver<Call>,
    pub(super) stop: watch::Receiver<bool>,
    told: watch::Sender<Told>,
    pub(super) seen: Sightings,
    pub(super) screen: Screen,
    pub(super) sight: Sight,
    /// The highest input number that the terminal is known to have taken.
    pub(super) taken: u64,
    /// Messages that were typed and are not known to be taken.
    pub(super) hands: HashMap<ReceiptId, Hand>,
    pub(super) interrupts: VecDeque<Interrupt>,
    /// When the agent said that it is done for good.
    finished_at: Option<Instant>,
    began: Instant,
    looks: u32,
    /// Whether an earlier message may be in the agent's input box, unseen; none until it was looked up.
    pub(super) murky: Option<bool>,
    /// What this run has spent, as far as it was told in this process.
    pub(super) spent: Option<skein_domain::Spent>,
    /// Whether the run was just started with its task in its arguments.
    carries: bool,
    /// Whether its terminal draws after it has told of output: then a look at once may come too early.
    draws_late: bool,
    /// When such a terminal is looked at once more.
    relook: Option<u64>,
    /// Whether it is driven by a protocol. A driver says when its program is there.
    pub(super) driven: bool,
    pub(super) settings: Option<ProjectSettings>,
    /// What the agent writes, and what it was looked for by.
    pub(super) tails: Tails,
    pub(super) tailed: Option<(Option<u32>, Option<NativeId>)>,
    /// What the agent said, on its way to the transcript.
    pub(super) import: Import,
    /// Rung when one of those files changed.
    pub(super) bell: Arc<Notify>,
}

/// Why a keeper let go of a connection.
enum Left {
    Over(Exit),
    CutOff,
    Stopped,
}

impl Fleet {
    /// Watches the session's run from now on; nothing if it is watched already.
    pub(crate) fn keep(self: &Arc<Self>, desk: &Desk, session: &Session) {
        self.keep_launched(desk, session, false);
    }

    /// The same for a run that was just started; `carries` if it has its task already.
    pub(crate) fn keep_launched(self: &Arc<Self>, desk: &Desk, session: &Session, carries: bool) {
        let Some((keeper, handle)) = self.keeper(desk, session, carries) else {
            return;
        };
        {
            let member = keeper.member.clone();
            let mut keepers = lock(&self.keepers);
            if let Some(known) = keepers.get(&member)
                && known.run == session.run
                && !known.told.borrow().gone
            {
                return;
            }
            for (run, readings) in lock(&self.early).remove(&member).unwrap_or_default() {
                // There is room for all of them.
                let _ = handle.inbox.try_send(Call::Hook(run, readings));
            }
            keepers.insert(member, handle);
        }
        desk.shared.tasks.start("keeper", keeper.keep());
    }

    /// One who knows the session's run and does not watch it yet; none when there is no run.
    fn keeper(
        self: &Arc<Self>,
        desk: &Desk,
        session: &Session,
        carries: bool,
    ) -> Option<(Keeper, Handle)> {
        let gear = session.gear.as_deref()?;
        let runtime = self.runtime(gear.runtime).ok()?;
        let member = Member {
            tenant: desk.tenant().clone(),
            session: session.id.clone(),
        };
        let (inbox, calls) = mpsc::channel(INBOX);
        let (stop, stopped) = watch::channel(false);
        let (told, listen) = watch::channel(Told::default());
        let keeper = Keeper {
            desk: desk.system(),
            fleet: self.clone(),
            member,
            runtime,
            handle: gear.handle.clone()?,
            run: session.run,
            agent: None,
            inbox: calls,
            stop: stopped,
            told,
            seen: Sightings::default(),
            screen: Screen::default(),
            sight: Sight::default(),
            taken: 0,
            hands: HashMap::new(),
            interrupts: VecDeque::new(),
            finished_at: None,
            began: Instant::now(),
            looks: 0,
            murky: None,
            spent: None,
            carries,
            draws_late: gear.runtime == RuntimeKind::Tmux,
            relook: None,
            driven: gear.launch.via != Via::Terminal,
            settings: None,
            tails: Tails::default(),
            tailed: None,
            import: Import::default(),
            bell: Arc::new(Notify::new()),
        };
        let handle = Handle {
            run: session.run,
            inbox,
            stop,
            told: listen,
        };
        Some((keeper, handle))
    }

    /// Counts what an agent that was ended has spent since it was last looked at, or told meanwhile. Nobody
    /// watches it any more.
    pub(crate) async fn count_last(
        self: &Arc<Self>,
        desk: &Desk,
        session: &Session,
    ) -> Result<(), Error> {
        let Some((mut keeper, _)) = self.keeper(desk, session, false) else {
            return Ok(());
        };
        let told = lock(&self.early).remove(&keeper.member);
        for (run, readings) in told.unwrap_or_default() {
            keeper.called(Some(Call::Hook(run, readings)));
        }
        keeper.record_spending().await
    }

    /// Something changed that the keeper should look at.
    pub(crate) fn wake_keeper(&self, member: &Member) {
        if let Some(handle) = lock(&self.keepers).get(member) {
            // A full inbox wakes it as well.
            let _ = handle.inbox.try_send(Call::Wake);
        }
    }

    pub(crate) fn heard(&self, member: &Member, run: u64, readings: Vec<Reading>) -> bool {
        let keepers = lock(&self.keepers);
        if let Some(handle) = keepers.get(member).filter(|h| h.run >= run) {
            return handle.inbox.try_send(Call::Hook(run, readings)).is_ok();
        }
        // An agent may speak before its run is watched, and has perhaps nothing to say later.
        let mut early = lock(&self.early);
        let kept = early.entry(member.clone()).or_default();
        let room = kept.len() < EARLY;
        if room {
            kept.push((run, readings));
        }
        room
    }

    /// Has the keys of an interrupt pressed by whoever watches the run, in order with everything else that is
    /// typed there. None when nobody does.
    pub(crate) async fn interrupt(
        &self,
        member: &Member,
        run: u64,
        number: u64,
        keys: Vec<u8>,
    ) -> Option<oneshot::Receiver<Result<(), Error>>> {
        let inbox = lock(&self.keepers)
            .get(member)
            .filter(|h| h.run == run)
            .map(|h| h.inbox.clone())?;
        let (done, pressed) = oneshot::channel();
        let interrupt = Interrupt { number, keys, done };
        inbox.send(Call::Interrupt(interrupt)).await.ok()?;
        Some(pressed)
    }

    /// Ends the processes of the session's run, and has the keeper record the kill once the store can write.
    pub(crate) async fn end_now(
        &self,
        member: &Member,
        session: &Session,
        order: KillOrder,
        saga: SagaId,
    ) -> Result<(), Error> {
        let Some(gear) = session.gear.as_deref() else {
            return Ok(());
        };
        let Some(handle) = &gear.handle else {
            return Ok(());
        };
        let kill = UnrecordedKill {
            run: session.run,
            order,
            saga,
        };
        lock(&self.unrecorded).insert(member.clone(), kill);
        let grace = skein_runtime::runtime::Grace::default();
        match self.runtime(gear.runtime)?.end(handle, grace).await {
            Ok(_) | Err(skein_runtime::error::Error::Missing) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The kill of this run that is still to be recorded.
    pub(super) fn unrecorded_kill(&self, member: &Member, run: u64) -> Option<UnrecordedKill> {
        let kills = lock(&self.unrecorded);
        kills.get(member).filter(|kill| kill.run == run).cloned()
    }

    pub(super) fn kill_recorded(&self, member: &Member) {
        lock(&self.unrecorded).remove(member);
    }

    /// Stops watching and waits until nothing is written any more.
    pub(crate) async fn release(&self, member: &Member) {
        let handle = {
            let mut keepers = lock(&self.keepers);
            lock(&self.early).remove(member);
            keepers.remove(member)
        };
        let Some(handle) = handle else {
            return;
        };
        handle.stop.send_replace(true);
        let mut told = handle.told.clone();
        let _ = told.wait_for(|t| t.gone).await;
    }

    /// Waits until the agent took its task, shows a dialog, or lets us wait too long. Says whether it is at
    /// work on it. An agent that dies before is an error.
    pub(crate) async fn task_taken(
        &self,
        desk: &Desk,
        saga: &Saga,
        member: &Member,
        receipt: &ReceiptId,
    ) -> Result<bool, StepError> {
        let told = lock(&self.keepers).get(member).map(|h| h.told.clone());
        let Some(mut told) = told else {
            return Ok(false);
        };
        let until = Instant::now() + TASK;
        let mut turned = self.turned.subscribe();
        loop {
            let now = told.borrow_and_update().clone();
            let state = desk.get_receipt(receipt.to_string()).await?.state;
            if state >= skein_domain::Delivery::Submitted
                || now.activity == Some(Activity::WaitingInput)
            {
                return Ok(true);
            }
            if let Some(exit) = now.exit {
                // It was quicker than our eyes: whoever ends well after its task was typed has done it.
                if exit == Exit::Code(0) && state >= skein_domain::Delivery::Written {
                    return Ok(true);
                }
                let text = format!("the agent {exit} before it took its task");
                return Err(failed(Kind::Failed, text));
            }
            // Others are killed too; what becomes of them is not ours.
            if is_turned(desk, saga).await? {
                return Ok(false);
            }
            if now.gone {
                // The daemon stops; the next one waits on.
                return Err(StepError::Store(Error::Stopped));
            }
            tokio::select! {
                // The sender went with its task, which says so before.
                changed = told.changed() => if changed.is_err() {
                    return Err(StepError::Store(Error::Stopped));
                },
                _ = turned.changed() => {}
                () = tokio::time::sleep_until(until) => return Ok(false),
            }
        }
    }
}

/// Whether somebody decided on the saga since it was read: it does not matter then what its step comes to.
async fn is_turned(desk: &Desk, saga: &Saga) -> Result<bool, Error> {
    let (id, version) = (saga.id.clone(), saga.version);
    let now: Option<Saga> = desk.look(move |r| r.find(id.as_str())).await?;
    Ok(now.is_none_or(|now| now.version != version))
}

impl Keeper {
    async fn keep(mut self) {
        let exit = self.watch().await;
        if let Some(exit) = exit {
            // What cannot be recorded now is tried again with the end itself.
            let _ = self.read_last_words().await;
            self.told.send_modify(|t| t.exit = Some(exit));
            self.finish(exit).await;
            self.say_rest().await;
        }
        self.told.send_modify(|t| t.gone = true);
    }

    /// The run is over, but not all that was said in it is in the transcript: somebody must stay for that.
    async fn say_rest(&mut self) {
        while !self.import.is_done() {
            let again = self.import(LAST_PATIENCE).await;
            // What there was no room for is read again.
            if self.import.is_done() && again.is_some() {
                let Ok(session) = self.session().await else {
                    return;
                };
                if session.run != self.run || self.read_files(&session).await.is_err() {
                    return;
                }
                continue;
            }
            self.looks = self.import.failures;
            if !self.import.is_done() && self.rest().await {
                return;
            }
        }
    }

    /// Until the run is over, or we are told to let go.
    async fn watch(&mut self) -> Option<Exit> {
        loop {
            if *self.stop.borrow() {
                return None;
            }
            match self.runtime.connect(&self.handle).await {
                Ok(run) => {
                    self.looks = 0;
                    self.fleet.board.change(&self.member, |o| o.doubt = None);
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
        let (now, looks) = (self.desk.now(), self.looks);
        self.fleet.board.change(&self.member, |o| {
            let since = o.doubt.as_ref().map_or(now, |d| d.since);
            o.doubt = Some(Doubt {
                since,
                looks: looks.saturating_sub(1),
                why: why.to_owned(),
            });
        });
    }

    /// Waits before the next look; longer each time. True when we are told to let go.
    async fn rest(&mut self) -> bool {
        let index = usize::try_from(self.looks)
            .unwrap_or(usize::MAX)
            .min(AGAIN.len() - 1);
        let pause = Duration::from_millis(AGAIN[index]);
        let stopping = self.desk.shared.tasks.stopping();
        tokio::select! {
            () = tokio::time::sleep(pause) => false,
            () = let_go(&mut self.stop) => true,
            () = stopping => true,
        }
    }

    fn saw(&self, state: RuntimeState) {
        let at = self.desk.now();
        let output_at = self.sight.output_at.map(Timestamp::from_micros);
        let has_signal = self.has_signal();
        self.fleet.board.change(&self.member, |o| {
            o.runtime = Some(Seen { what: state, at });
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
        let stopping = self.desk.shared.tasks.stopping();
        tokio::pin!(stopping);
        let bell = self.bell.clone();
        let mut look = true;
        self.relook = self.draws_late.then(|| self.now() + DRAWN_MS);
        loop {
            self.sight = *sights.borrow_and_update();
            self.taken = self.taken.max(self.sight.input);
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
                Err(Error::Stopped) => return Left::Stopped,
                Err(error) => {
                    tracing::warn!(session = %self.member.session, %error, "a keeper could not record");
                    Some(Instant::now() + Duration::from_secs(1))
                }
            };
            tokio::select! {
                biased;
                () = let_go(&mut self.stop) => return Left::Stopped,
                () = &mut stopping => return Left::Stopped,
                changed = sights.changed() => {
                    if changed.is_err() {
                        return Left::CutOff;
                    }
                    look = sights.borrow().bytes != self.screen.bytes;
                    if look && self.draws_late {
                        self.relook = Some(self.now() + DRAWN_MS);
                    }
                }
                call = self.inbox.recv() => {
                    self.called(call);
                    look = true;
                }
                () = bell.notified() => look = true,
                () = sleep_until(next) => look = true,
            }
        }
    }

    fn called(&mut self, call: Option<Call>) {
        let mut next = call;
        while let Some(call) = next {
            match call {
                // A hook of an earlier run says nothing about this one.
                Call::Hook(run, readings) if run == self.run => {
                    let readings = self.take_words(readings);
                    self.seen.heard(readings, Voice::Hook);
                }
                Call::Interrupt(interrupt) => self.interrupts.push_back(interrupt),
                Call::Hook(..) | Call::Wake => {}
            }
            next = self.inbox.try_recv().ok();
        }
    }

    /// Looks, records what was seen, brings messages. Returns when to look again.
    async fn attend_once(
        &mut self,
        run: &Arc<dyn Run>,
        look: bool,
    ) -> Result<Option<Instant>, Error> {
        let session = self.session().await?;
        self.know_agent(&session).await;
        // A program waits for its hooks: what it wrote to its files since then comes after what they said.
        let call = self.inbox.try_recv().ok();
        let woken = call.is_some();
        self.called(call);
        let reread = self.read_files(&session).await?;
        let unsaid = self.import(PATIENCE).await;
        // Whoever woke us may have changed the record after it was read, and does not call again.
        let session = match woken {
            true => self.session().await?,
            false => session,
        };
        if look {
            self.screen = run.screen().await?;
            self.relook = self.relook.filter(|at| *at > self.now());
        }
        self.read_screen();
        self.notice_typing();
        let session = self.mind_limit(session).await?;
        let session = self.record(session).await?;
        let session = self.settle(run, session).await?;
        // Only now is known what it does, and what waits for it: nothing is told of a run before.
        self.saw(RuntimeState::Alive {
            pid: self.sight.pid,
        });
        self.interrupt(run).await?;
        let due = self.deliver(run, session).await?;
        let again = [
            due,
            self.seen.look_again(self.now()),
            self.settles(),
            reread,
            unsaid,
            self.lifts(),
            self.relook,
        ];
        let unknown = self.agent.is_none().then(|| self.now() + 5_000);
        let earliest = again.into_iter().flatten().chain(unknown).min();
        let earliest = earliest.map(|at| self.began + Duration::from_millis(at));
        Ok(earliest.into_iter().chain(self.see_off().await?).min())
    }

    /// An agent that said it is done for good, and stays, is ended. Returns when.
    async fn see_off(&mut self) -> Result<Option<Instant>, Error> {
        if self.seen.finished.is_none() || !self.is_ours().await {
            return Ok(None);
        }
        let due = *self.finished_at.get_or_insert_with(Instant::now) + LINGER;
        if Instant::now() < due {
            return Ok(Some(due));
        }
        let stopping = self.desk.shared.tasks.stopping();
        let grace = skein_runtime::runtime::Grace::default();
        tokio::select! {
            biased;
            () = let_go(&mut self.stop) => return Err(Error::Stopped),
            () = stopping => return Err(Error::Stopped),
            ended = self.runtime.end(&self.handle, grace) => drop(ended?),
        }
        Ok(None)
    }

    /// When a limit is over.
    fn lifts(&self) -> Option<u64> {
        let until = self.seen.limit.as_ref()?.until?;
        let micros = until
            .as_micros()
            .saturating_sub(self.desk.now().as_micros());
        // Not a moment before.
        Some(self.now() + u64::try_from(micros).unwrap_or(0) / 1_000 + 1)
    }

    /// After a submit the screen's `ready` is believed again at this moment, if nothing else happens.
    fn settles(&self) -> Option<u64> {
        let at = self.seen.prompted_at? + SETTLE_MS;
        (!self.seen.worked && at >= self.now()).then_some(at)
    }

    pub(super) async fn session(&self) -> Result<Session, Error> {
        let id = self.member.session.clone();
        self.desk.look(move |r| r.get(id.as_str())).await
    }

    /// The agent's own knowledge; settings that are broken for a while do not stop the watch.
    pub(super) async fn know_agent(&mut self, session: &Session) {
        if self.agent.is_some() {
            return;
        }
        let id = session.project.clone();
        let Ok(project) = self.desk.look(move |r| r.get::<Project>(id.as_str())).await else {
            return;
        };
        match self.fleet.agent(session, &project) {
            Ok(agent) => {
                let phase = match self.is_silent(session, &project, &*agent) {
                    true => &Phase::Spawning,
                    false => &session.phase,
                };
                self.seen.recall(phase, agent.abilities());
                if self.carries {
                    self.seen.launched(self.now());
                }
                self.seen.limit = session
                    .gear
                    .as_ref()
                    .and_then(|g| g.limit.as_ref())
                    .map(LimitSeen::recorded);
                self.agent = Some(agent);
            }
            Err(error) => tracing::warn!(%error, "an agent's settings cannot be read"),
        }
        if let Ok(settings) = self.fleet.settings_of(&project) {
            self.fleet
                .board
                .set_patience(&self.member, settings.patience);
            self.settings = Some(settings);
        }
        let (has_signal, starting) = (self.has_signal(), self.seen.is_starting());
        self.fleet.board.change(&self.member, |o| {
            o.has_signal = has_signal;
            o.starting = starting;
        });
    }

    fn read_screen(&mut self) {
        let Some(agent) = &self.agent else {
            return;
        };
        let picture = Picture {
            rows: &self.screen.rows,
            cursor: self.screen.cursor,
            title: None,
        };
        let readings = agent.read_screen(picture);
        let now = self.now();
        self.seen.box_hidden = self.input_box() == InputBox::Unseen;
        self.seen.launch_over(now);
        self.seen.looked(readings, now);
        let at = self.desk.now();
        // A limit is told with its end, and no longer than it lasts.
        self.seen.tick(at, &self.fleet.zone);
        let starting = self.seen.is_starting();
        self.fleet
            .board
            .change(&self.member, |o| o.starting = starting);
        if let Some(what) = self.seen.shown() {
            let activity = what.activity;
            self.fleet.board.change(&self.member, |o| {
                if o.activity.as_ref().is_none_or(|a| a.what != what) {
                    o.activity = Some(Seen { what, at });
                }
            });
            self.tell(|t| t.activity = Some(activity));
        }
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut Told)) {
        self.told.send_if_modified(|told| {
            let before = told.clone();
            change(told);
            *told != before
        });
    }

    /// The run is over: its end is recorded, unless a saga is at work on the session and does it.
    async fn finish(&mut self, exit: Exit) {
        if exit == Exit::Unseen && self.is_ours().await {
            // Its holder is gone; what is left of it must not go on unseen.
            let _ = self
                .runtime
                .end(&self.handle, skein_runtime::runtime::Grace::default())
                .await;
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
                    tracing::warn!(session = %self.member.session, %error, "an end could not be recorded");
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

    pub(super) fn runtime_parts(&self) -> (Arc<dyn Runtime>, RunHandle) {
        (self.runtime.clone(), self.handle.clone())
    }
}

/// Resolves once we are told to let go of the run.
pub(super) async fn let_go(stop: &mut watch::Receiver<bool>) {
    // Whoever could tell us is gone: so is what we are for.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
