//! How the rest of the fleet reaches a supervisor: starts it, wakes it, asks it to interrupt, waits for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use skein_domain::{Activity, Delivery, Exit, Kind, ReceiptId, Saga, SagaId, Session};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{Mailbox, Supervisor, SupervisorState};
use crate::error::Error;
use crate::error::{CommandError, failed};
use crate::typing::Interrupt;
use crate::{Fleet, SessionKey, lock};
use skein_ledger::LedgerRequests;
use skein_ledger::ending::KillOptions;

/// How many interrupts and wake-ups may wait for a supervisor. A full inbox wakes it as well.
const INBOX: usize = 64;
/// How long a spawn waits for its agent to take the task; after that the task waits like any message.
const TASK: Duration = Duration::from_secs(60);

/// How others reach a supervisor.
#[derive(Debug)]
pub(crate) struct Handle {
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

impl Fleet {
    /// Supervises the session's run from now on; does nothing if a supervisor does already.
    pub(crate) fn supervise(self: &Arc<Self>, requests: &LedgerRequests, session: &Session) {
        self.supervise_launched(requests, session, false);
    }

    /// The same for a run that was just started; `has_task` if its arguments carry its task.
    pub(crate) fn supervise_launched(
        self: &Arc<Self>,
        requests: &LedgerRequests,
        session: &Session,
        has_task: bool,
    ) {
        let Some((supervisor, handle)) = self.supervisor(requests, session, has_task) else {
            return;
        };
        {
            let session_key = supervisor.session_key.clone();
            let mut supervisors = lock(&self.supervisors);
            if let Some(known) = supervisors.get(&session_key)
                && known.run == session.run
                && !known.state.borrow().gone
            {
                return;
            }
            supervisors.insert(session_key, handle);
        }
        requests.tasks().start("supervisor", supervisor.supervise());
    }

    /// A supervisor of the session's run that is not started yet; none when there is no run.
    fn supervisor(
        self: &Arc<Self>,
        requests: &LedgerRequests,
        session: &Session,
        has_task: bool,
    ) -> Option<(Supervisor, Handle)> {
        let (inbox, received) = mpsc::channel(INBOX);
        let (stop, stopped) = watch::channel(false);
        let (sender, state) = watch::channel(SupervisorState::default());
        let mailbox = Mailbox {
            inbox: received,
            interrupts: VecDeque::new(),
            stop: stopped,
            state: sender,
        };
        let supervisor = Supervisor::new(self, requests, session, mailbox, has_task)?;
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
        self: &Arc<Self>,
        requests: &LedgerRequests,
        session: &Session,
    ) -> Result<(), Error> {
        let Some((mut supervisor, _)) = self.supervisor(requests, session, false) else {
            return Ok(());
        };
        supervisor.record_rest().await
    }

    /// Something changed that the supervisor should look at.
    pub(crate) fn wake_supervisor(&self, session_key: &SessionKey) {
        if let Some(handle) = lock(&self.supervisors).get(session_key) {
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
        let inbox = lock(&self.supervisors)
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
        lock(&self.unrecorded).insert(session_key.clone(), kill);
        let grace = skein_runtime::runtime::Grace::default();
        match self.runtime.end(handle, grace).await {
            Ok(_) | Err(skein_runtime::error::Error::Missing) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The kill of this run that is still to be recorded.
    pub(crate) fn unrecorded_kill(
        &self,
        session_key: &SessionKey,
        run: u64,
    ) -> Option<UnrecordedKill> {
        let kills = lock(&self.unrecorded);
        kills
            .get(session_key)
            .filter(|kill| kill.run == run)
            .cloned()
    }

    pub(crate) fn kill_recorded(&self, session_key: &SessionKey) {
        lock(&self.unrecorded).remove(session_key);
    }

    /// Stops watching and waits until nothing is written any more.
    pub(crate) async fn release(&self, session_key: &SessionKey) {
        let handle = lock(&self.supervisors).remove(session_key);
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
        let state = lock(&self.supervisors)
            .get(session_key)
            .map(|h| h.state.clone());
        let Some(mut state) = state else {
            return Ok(false);
        };
        let until = Instant::now() + TASK;
        let mut turned = self.turned.subscribe();
        loop {
            let now = state.borrow_and_update().clone();
            let receipt = requests.messages().receipt(receipt.to_string()).await?;
            if receipt.state >= Delivery::Submitted || now.activity == Some(Activity::WaitingInput)
            {
                return Ok(true);
            }
            if let Some(exit) = now.exit {
                // An agent may end well before anybody sees it take what was typed.
                let typed = receipt.state >= Delivery::Written && receipt.call.is_none();
                if exit == Exit::Code(0) && typed {
                    return Ok(true);
                }
                let text = format!("the agent {exit} before it took its task");
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
    let now: Option<Saga> = requests.look(move |r| r.find(id.as_str())).await?;
    Ok(now.is_none_or(|now| now.version != version))
}
