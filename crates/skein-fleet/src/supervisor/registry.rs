//! All supervisors: how the rest of the fleet starts one, wakes it, asks it to interrupt, waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use skein_agent::moment::Zone;
use skein_domain::{Activity, Delivery, Exit, Kind, ReceiptId, Saga, SagaId, Session};
use skein_runtime::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{Mailbox, StopSignal, Supervisor, SupervisorState};
use crate::board::ObservationBoard;
use crate::commands::end_if_there;
use crate::error::{CommandError, Error, failed};
use crate::files::Files;
use crate::memory::AgentMemory;
use crate::parts::Databases;
use crate::places::Places;
use crate::programs::AgentPrograms;
use crate::signals::SagaSignals;
use crate::typing::Interrupt;
use crate::{SessionKey, lock};
use skein_ledger::LedgerRequests;
use skein_ledger::ending::KillOptions;

/// How many interrupts and wake-ups may wait for a supervisor. A full inbox wakes it as well.
const INBOX: usize = 64;
/// How long a spawn waits for its agent to take the task; after that the task waits like any message.
const TASK: Duration = Duration::from_secs(60);

/// What every supervisor is given.
#[derive(Debug)]
pub(crate) struct SupervisorParts {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) programs: Arc<AgentPrograms>,
    pub(crate) board: Arc<ObservationBoard>,
    pub(crate) places: Arc<Places>,
    pub(crate) memory: Arc<AgentMemory>,
    pub(crate) signals: Arc<SagaSignals>,
    pub(crate) kills: UnrecordedKills,
    pub(crate) files: Files,
    pub(crate) databases: Arc<dyn Databases>,
    pub(crate) zone: Zone,
}

/// The supervisors of all sessions.
#[derive(Debug)]
pub(crate) struct Supervisors {
    parts: Arc<SupervisorParts>,
    handles: Mutex<HashMap<SessionKey, Handle>>,
}

/// How others reach a supervisor.
#[derive(Debug)]
struct Handle {
    run: u64,
    inbox: mpsc::Sender<Request>,
    stop: watch::Sender<bool>,
    state: watch::Receiver<SupervisorState>,
}

/// What is asked of a supervisor.
#[derive(Debug)]
pub(super) enum Request {
    Interrupt(Interrupt),
    Wake,
}

/// A kill that was carried out before the store could record it.
#[derive(Clone, Debug)]
pub(crate) struct UnrecordedKill {
    pub(crate) run: u64,
    pub(crate) order: KillOptions,
    pub(crate) saga: SagaId,
}

/// Kills that were carried out and are still to be recorded.
#[derive(Debug, Default)]
pub(crate) struct UnrecordedKills {
    kills: Mutex<HashMap<SessionKey, UnrecordedKill>>,
}

impl UnrecordedKills {
    fn add(&self, session_key: SessionKey, kill: UnrecordedKill) {
        lock(&self.kills).insert(session_key, kill);
    }

    /// The kill of this run that is still to be recorded.
    pub(crate) fn find(&self, session_key: &SessionKey, run: u64) -> Option<UnrecordedKill> {
        let kills = lock(&self.kills);
        let kill = kills.get(session_key).filter(|kill| kill.run == run);
        kill.cloned()
    }

    pub(crate) fn recorded(&self, session_key: &SessionKey) {
        lock(&self.kills).remove(session_key);
    }
}

impl Supervisors {
    pub(crate) fn new(parts: SupervisorParts) -> Self {
        Self {
            parts: Arc::new(parts),
            handles: Mutex::default(),
        }
    }

    /// Supervises the session's run from now on; does nothing if a supervisor does already.
    pub(crate) fn supervise(&self, requests: &LedgerRequests, session: &Session) {
        self.supervise_launched(requests, session, false);
    }

    /// The same for a run that was just started; `has_task` if its arguments carry its task.
    pub(crate) fn supervise_launched(
        &self,
        requests: &LedgerRequests,
        session: &Session,
        has_task: bool,
    ) {
        let Some((supervisor, handle)) = self.supervisor(requests, session, has_task) else {
            return;
        };
        {
            let session_key = supervisor.context.session_key.clone();
            let mut handles = lock(&self.handles);
            if let Some(known) = handles.get(&session_key)
                && known.run == session.run
                && !known.state.borrow().gone
            {
                return;
            }
            handles.insert(session_key, handle);
        }
        requests.tasks().start("supervisor", supervisor.supervise());
    }

    /// A supervisor of the session's run that is not started yet; none when there is no run.
    fn supervisor(
        &self,
        requests: &LedgerRequests,
        session: &Session,
        has_task: bool,
    ) -> Option<(Supervisor, Handle)> {
        let (inbox, received) = mpsc::channel(INBOX);
        let (stop, stopped) = watch::channel(false);
        let (sender, state) = watch::channel(SupervisorState::default());
        let stopped = StopSignal::new(stopped, requests.tasks().clone());
        let mailbox = Mailbox::new(received, stopped, sender);
        let supervisor = Supervisor::new(&self.parts, requests, session, mailbox, has_task)?;
        let handle = Handle {
            run: session.run,
            inbox,
            stop,
            state,
        };
        Some((supervisor, handle))
    }

    /// Reads and records what an agent wrote until it was ended: what it spent, and which calls its driver accepted.
    /// No supervisor watches the run any more.
    pub(crate) async fn record_last(
        &self,
        requests: &LedgerRequests,
        session: &Session,
    ) -> Result<(), Error> {
        let Some((mut supervisor, _)) = self.supervisor(requests, session, false) else {
            return Ok(());
        };
        supervisor.record_remaining().await
    }

    /// Something changed that the supervisor should look at.
    pub(crate) fn wake(&self, session_key: &SessionKey) {
        if let Some(handle) = lock(&self.handles).get(session_key) {
            // A full inbox wakes it as well.
            let _ = handle.inbox.try_send(Request::Wake);
        }
    }

    /// Has the run's supervisor interrupt the turn, in order with everything else that it sends to the agent. None when
    /// no supervisor watches the run.
    pub(crate) async fn interrupt(
        &self,
        session_key: &SessionKey,
        run: u64,
        number: u64,
        keys: Vec<u8>,
    ) -> Option<oneshot::Receiver<Result<(), Error>>> {
        let inbox = lock(&self.handles)
            .get(session_key)
            .filter(|h| h.run == run)
            .map(|h| h.inbox.clone())?;
        let (done, interrupted) = oneshot::channel();
        let interrupt = Interrupt { number, keys, done };
        inbox.send(Request::Interrupt(interrupt)).await.ok()?;
        Some(interrupted)
    }

    /// Ends the processes of the session's run, and has the supervisor record the kill once the store can write.
    pub(crate) async fn end_now(
        &self,
        session_key: &SessionKey,
        session: &Session,
        order: KillOptions,
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
        self.parts.kills.add(session_key.clone(), kill);
        end_if_there(&*self.parts.runtime, handle).await
    }

    /// Stops watching and waits until nothing is written any more.
    pub(crate) async fn release(&self, session_key: &SessionKey) {
        let handle = lock(&self.handles).remove(session_key);
        let Some(handle) = handle else {
            return;
        };
        handle.stop.send_replace(true);
        let mut state = handle.state.clone();
        let _ = state.wait_for(|state| state.gone).await;
    }

    /// Waits until the agent took its task, shows a dialog, or takes too long. Returns whether it works on it. An agent
    /// that exits before is an error.
    pub(crate) async fn task_taken(
        &self,
        requests: &LedgerRequests,
        saga: &Saga,
        session_key: &SessionKey,
        receipt: &ReceiptId,
    ) -> Result<bool, CommandError> {
        let state = lock(&self.handles)
            .get(session_key)
            .map(|h| h.state.clone());
        let Some(mut state) = state else {
            return Ok(false);
        };
        let until = Instant::now() + TASK;
        let mut turned = self.parts.signals.turned();
        loop {
            let now = state.borrow_and_update().clone();
            let receipt = requests.messages().receipt(receipt.to_string()).await?;
            if receipt.state >= Delivery::Submitted || now.activity == Some(Activity::WaitingInput)
            {
                return Ok(true);
            }
            if let Some(exit) = now.exit {
                // An agent may end well before a look shows that it took what was typed.
                let typed = receipt.state >= Delivery::Written && receipt.call.is_none();
                if exit == Exit::Code(0) && typed {
                    return Ok(true);
                }
                let text = format!("the agent {exit} before it was seen to take its task");
                return Err(failed(Kind::Failed, text));
            }
            // A kill has turned the saga round, so the task does not matter any more.
            if is_turned(requests, saga).await? {
                return Ok(false);
            }
            if now.gone {
                // The daemon stops; the next one waits on.
                return Err(CommandError::Interrupted(Error::STOPPED));
            }
            tokio::select! {
                // The supervisor says that it is gone before it goes.
                changed = state.changed() => if changed.is_err() {
                    return Err(CommandError::Interrupted(Error::STOPPED));
                },
                _ = turned.changed() => {}
                () = tokio::time::sleep_until(until) => return Ok(false),
            }
        }
    }
}

/// Whether the saga has moved since it was read.
async fn is_turned(requests: &LedgerRequests, saga: &Saga) -> Result<bool, Error> {
    let (id, version) = (saga.id.clone(), saga.version);
    let now: Option<Saga> = requests.read(move |r| r.find(id.as_str())).await?;
    Ok(now.is_none_or(|now| now.version != version))
}
