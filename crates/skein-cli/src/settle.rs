//! Waiting for operations on sessions: spawn, restore, kill.
//!
//! The daemon accepts an operation before it performs it, and reports the rest by events. The stream is opened before
//! the request, so that no event is missed. State is always read from the session itself; events only say when to read
//! it, and what failed.

mod setup;

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use skein_client::{Client, Error as ClientError, ErrorKind, EventStream, Events};
use skein_domain::SagaStep;
use skein_wire::{Event, Session};
use tokio::time::{Instant, timeout, timeout_at};

use crate::command::events::every_event;
use crate::command::kill::way_back;
use crate::command::wait::follow;
use crate::context::Context;
use crate::error::UserError;
use crate::progress::Progress;

use setup::Setups;

/// Read all sessions again after this long without an event, because a break of the stream may have hidden one. Longer
/// than the stream waits for an absent daemon, so that its error comes first.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Read a session once this soon after its agent started, to show what it waits for: changes of the agent's screen are
/// not events.
const LOOK_FOR_REASON: Duration = Duration::from_secs(2);
/// How often to print new output of set-up commands.
const PASS_ON: Duration = Duration::from_millis(200);

/// The steps of spawn, restore and kill, in the order in which any saga performs them.
const STEPS: [SagaStep; 8] = [
    SagaStep::Workspace,
    SagaStep::Setup,
    SagaStep::Launch,
    SagaStep::Prompt,
    SagaStep::Stop,
    SagaStep::Backup,
    SagaStep::Remove,
    SagaStep::End,
];

/// The step between the start of the agent and its taking the task.
const AGENT_STARTS: &str = SagaStep::Prompt.as_str();

/// The result for one session.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) session: Session,
    /// Why the operation was undone.
    pub(crate) failure: Option<UserError>,
}

/// Waits for sessions, in the order of the requests.
pub(crate) struct OperationWaiter<'a> {
    context: &'a Context,
    client: &'a Client,
    stream: EventStream<'a>,
    failures: HashMap<String, UserError>,
    setups: Setups,
    /// By session: how many of [`STEPS`] were shown.
    shown_steps: HashMap<String, usize>,
    /// Whether an agent started whose session was not read since.
    reason_is_due: bool,
    /// Whether to print what sessions wait for: not while a start may just be slow.
    shows_reason: bool,
    /// Whether uncommitted work is dropped instead of saved.
    discards: bool,
}

impl<'a> OperationWaiter<'a> {
    /// Opens the event stream; send the request after this.
    pub(crate) async fn open(context: &'a Context) -> Result<Self, UserError> {
        let client = context.client().await?;
        let mut stream = follow(context, client, None, None);
        stream.open().await?;
        Ok(Self {
            context,
            client,
            stream,
            failures: HashMap::new(),
            setups: Setups::default(),
            shown_steps: HashMap::new(),
            reason_is_due: false,
            shows_reason: false,
            discards: false,
        })
    }

    /// For kills with `--discard`.
    pub(crate) fn discarding(mut self) -> Self {
        self.discards = true;
        self
    }

    /// Waits until no session has a saga.
    pub(crate) async fn settle(mut self, begun: Vec<Session>) -> Result<Vec<Settled>, UserError> {
        let mut progress = Progress::new(&self.context.out);
        let mut sessions = begun;
        let mut dirty: Vec<bool> = sessions.iter().map(|s| s.saga.is_some()).collect();
        for session in sessions.iter().filter(|s| s.saga.is_some()) {
            progress.show(&session.id, &self.state(session));
        }
        loop {
            for (session, dirty) in sessions.iter_mut().zip(&mut dirty) {
                if *dirty {
                    *dirty = !self.refresh_session(session, &mut progress).await?;
                }
            }
            if sessions.iter().all(|s| s.saga.is_none()) {
                break;
            }
            match self.next(&mut progress).await {
                // The daemon died during a saga; the next one continues it.
                Some(Err(error)) => {
                    self.context.reconnect(self.client, error).await?;
                    for (session, dirty) in sessions.iter().zip(&mut dirty) {
                        *dirty = session.saga.is_some();
                    }
                }
                Some(Ok(event)) => {
                    self.on_event(&event, &mut progress).await;
                    let about = sessions
                        .iter()
                        .position(|s| s.saga.is_some() && event.session.as_ref() == Some(&s.id));
                    if let Some(n) = about
                        && is_end(&event.kind)
                    {
                        dirty[n] = true;
                    }
                }
                None => {
                    self.shows_reason = true;
                    for (session, dirty) in sessions.iter().zip(&mut dirty) {
                        *dirty = session.saga.is_some();
                    }
                }
            }
        }
        progress.clear();
        let mut settled = Vec::with_capacity(sessions.len());
        for session in sessions {
            let failure = match self.failures.remove(&session.id) {
                Some(failure) => Some(failure),
                None if session.outcome.is_some() => self.failure_of(&session).await?,
                None => None,
            };
            let failure = failure.map(|failure| with_work(failure, &session));
            settled.push(Settled { session, failure });
        }
        Ok(settled)
    }

    /// The next event, or `None` after a long silence.
    async fn next(&mut self, progress: &mut Progress<'_>) -> Option<Result<Event, ClientError>> {
        let patience = match std::mem::take(&mut self.reason_is_due) {
            true => LOOK_FOR_REASON,
            false => LOOK_AGAIN,
        };
        let until = Instant::now() + patience;
        while self.setups.are_under_way() && Instant::now() < until {
            self.setups.pass_on(progress);
            if let Ok(event) = timeout(PASS_ON, self.stream.next()).await {
                return Some(event);
            }
        }
        timeout_at(until, self.stream.next()).await.ok()
    }

    /// Reads one session; false if the daemon is absent.
    async fn refresh_session(
        &mut self,
        session: &mut Session,
        progress: &mut Progress<'_>,
    ) -> Result<bool, UserError> {
        match self.client.get_session(&session.id).await {
            Ok(found) => {
                *session = found;
                let step = session.saga.as_ref().map(|saga| saga.step.as_deref());
                match step {
                    Some(Some(step)) => drop(self.is_further(&session.id, step)),
                    Some(None) => {}
                    None => drop(self.shown_steps.insert(session.id.clone(), STEPS.len())),
                }
                // An undo passes the same steps again; the failure was shown already.
                if !self.failures.contains_key(&session.id) {
                    let reason = awaited(session).filter(|_| self.shows_reason);
                    let state = self.state(session);
                    let state = reason.map_or(state.clone(), |why| format!("{state}: {why}"));
                    progress.show(&session.id, &state);
                }
                Ok(true)
            }
            // The stream reports an absent daemon and waits for it.
            Err(error) if error.kind() == ErrorKind::Unavailable => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn on_event(&mut self, event: &Event, progress: &mut Progress<'_>) {
        let Some(session) = &event.session else {
            return;
        };
        if progress.knows(session) && event.kind.starts_with("saga.") {
            self.setups.end(session, progress);
            if event.kind == "saga.step" && text(&event.data, "step").as_deref() == Some("setup") {
                self.setups.begin(self.client, session).await;
            }
        }
        let news = match event.kind.as_str() {
            "saga.step" if self.failures.contains_key(session) => None,
            "saga.step" => {
                let step = text(&event.data, "step");
                step.and_then(|step| self.is_further(session, &step).then(|| self.doing(&step)))
            }
            "saga.failed" => {
                let failure = failure(session, &event.data);
                let news = format!("failed: {}", failure.message());
                self.failures.insert(session.clone(), failure);
                Some(news)
            }
            _ => None,
        };
        if let Some(news) = news
            && progress.knows(session)
        {
            progress.show(session, &news);
        }
    }

    /// Whether this step comes after those already shown: a read of the session may have been ahead of its events.
    fn is_further(&mut self, session: &str, step: &str) -> bool {
        let Some(place) = STEPS.iter().position(|known| known.as_str() == step) else {
            return true;
        };
        let shown = self.shown_steps.entry(session.to_owned()).or_default();
        self.reason_is_due |= step == AGENT_STARTS && place > *shown;
        let further = place >= *shown;
        *shown = place.max(*shown);
        further
    }

    /// The state of a saga, for people.
    fn state(&self, session: &Session) -> String {
        match &session.saga {
            None => session.status.clone(),
            Some(saga) => match (&saga.step, saga.place) {
                (Some(step), _) => self.doing(step),
                (None, Some(place)) => match &saga.why {
                    Some(why) => format!("queued, place {place}: {why}"),
                    None => format!("queued, place {place}"),
                },
                (None, None) => format!("{} begins", saga.kind),
            },
        }
    }

    fn doing(&self, step: &str) -> String {
        let doing = match SagaStep::parse(step) {
            Some(SagaStep::Backup) if self.discards => "dropping uncommitted work",
            Some(step) => step.doing(),
            None => step,
        };
        doing.to_owned()
    }

    /// Finds in the events why a session that has ended was never launched. Needed when the answer to a repeated
    /// request is a session that failed long ago.
    async fn failure_of(&self, session: &Session) -> Result<Option<UserError>, UserError> {
        let which = Events {
            session: Some(session.id.clone()),
            ..Events::default()
        };
        let mut found = None;
        every_event(self.client, which, |event| {
            match event.kind.as_str() {
                "saga.failed" => found = Some(failure(&session.id, &event.data)),
                "session.launched" => found = None,
                _ => {}
            }
            Ok(())
        })
        .await?;
        Ok(found)
    }
}

fn is_end(kind: &str) -> bool {
    matches!(
        kind,
        "saga.done"
            | "saga.undone"
            | "saga.undo_failed"
            | "saga.left_out"
            | "saga.queued"
            | "session.launched"
            | "session.ended"
    )
}

fn text(data: &Value, name: &str) -> Option<String> {
    data.get(name)?.as_str().map(str::to_owned)
}

fn failure(session: &str, data: &Value) -> UserError {
    let kind = serde_json::from_value(data["error_kind"].clone()).unwrap_or(ErrorKind::Failed);
    let why =
        text(data, "why").unwrap_or_else(|| format!("session {session} could not be started"));
    let error = UserError::new(kind, why).detail("session", session);
    let error = match text(data, "step").as_deref() {
        // The agent ran, and probably printed why it ended.
        Some("prompt") => error.hint(format!(
            "`skein logs {session}` shows what its agent printed"
        )),
        Some("setup") => error.hint(format!(
            "`skein logs --setup {session}` shows the whole output"
        )),
        _ => error,
    };
    error.hint(format!("`skein show {session}` shows what is left of it"))
}

/// Adds where the files are saved that were written before the failure.
fn with_work(failure: UserError, session: &Session) -> UserError {
    let Some(kept) = session.workspace.backups.last() else {
        return failure;
    };
    let failure = failure.hint(format!("written files are saved in {}", kept.name));
    match way_back(session, kept) {
        Some(command) => failure.hint(format!("`{command}` brings it back")),
        None => failure,
    }
}

/// What a session waits for while its agent has not taken its task.
fn awaited(session: &Session) -> Option<&str> {
    let saga = session.saga.as_ref()?;
    let starts = saga.step.as_deref() == Some(AGENT_STARTS);
    saga.why.as_deref().filter(|_| starts)
}
