//! Waiting until what was begun with sessions is over: spawns, restores, kills.
//!
//! A change is accepted before it is carried out; events tell the rest. The stream is opened before the
//! change is asked for, so no event falls between the two. Every look is at the session itself: events only
//! say when to look, and what failed.

mod setup;

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use skein_client::{Client, Error as ClientError, EventStream, Events, Kind};
use skein_wire::{Event, Session};
use tokio::time::{Instant, timeout, timeout_at};

use crate::command::kill::way_back;
use crate::command::wait::told;
use crate::context::Context;
use crate::error::UserError;
use crate::progress::Progress;

use setup::Setups;

/// Without an event for so long, everybody is looked at again: a break of the stream may have hidden one.
/// Longer than the stream's patience with an absent daemon, so that its end is told.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How long an absent daemon is waited for before one is started: somebody may be doing just that.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often the output of set-up commands is passed on.
const PASS_ON: Duration = Duration::from_millis(200);

/// In the order in which they are done, whatever is done.
const STEPS: [&str; 8] = [
    "workspace",
    "setup",
    "launch",
    "prompt",
    "stop",
    "backup",
    "remove",
    "end",
];

/// How a session came out.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) session: Session,
    /// Why what was begun was undone.
    pub(crate) failure: Option<UserError>,
}

/// Sessions to wait for, in the order they were asked for.
pub(crate) struct Watch<'a> {
    context: &'a Context,
    client: &'a Client,
    stream: EventStream<'a>,
    failures: HashMap<String, UserError>,
    setups: Setups,
    /// By session: how far in [`STEPS`] was told.
    told: HashMap<String, usize>,
}

impl<'a> Watch<'a> {
    /// Begins to listen; ask for the change after this.
    pub(crate) async fn open(
        context: &'a Context,
        lost: &'a Cell<bool>,
    ) -> Result<Self, UserError> {
        let client = context.client().await?;
        let mut stream = client
            .follow_events(None, None)
            .patience(PATIENCE)
            .on_change(move |link| told(context, link, lost));
        stream.open().await?;
        Ok(Self {
            context,
            client,
            stream,
            failures: HashMap::new(),
            setups: Setups::default(),
            told: HashMap::new(),
        })
    }

    /// Waits until nothing is under way with any of them.
    pub(crate) async fn settle(mut self, begun: Vec<Session>) -> Result<Vec<Settled>, UserError> {
        let mut progress = Progress::new(&self.context.out);
        let mut sessions = begun;
        let mut dirty: Vec<bool> = sessions.iter().map(|s| s.saga.is_some()).collect();
        for session in sessions.iter().filter(|s| s.saga.is_some()) {
            progress.tell(&session.id, &state(session));
        }
        loop {
            for (session, dirty) in sessions.iter_mut().zip(&mut dirty) {
                if *dirty {
                    *dirty = !self.look(session, &mut progress).await?;
                }
            }
            if sessions.iter().all(|s| s.saga.is_none()) {
                break;
            }
            match self.next(&mut progress).await {
                // It died while something was under way; the next one goes on with it.
                Some(Err(error)) => {
                    self.context.revive(self.client, error).await?;
                    for (session, dirty) in sessions.iter().zip(&mut dirty) {
                        *dirty = session.saga.is_some();
                    }
                }
                Some(Ok(event)) => {
                    self.heard(&event, &mut progress).await;
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

    /// The next event; none if there was none for long.
    async fn next(&mut self, progress: &mut Progress<'_>) -> Option<Result<Event, ClientError>> {
        let until = Instant::now() + LOOK_AGAIN;
        while self.setups.are_under_way() && Instant::now() < until {
            self.setups.pass_on(progress);
            if let Ok(event) = timeout(PASS_ON, self.stream.next()).await {
                return Some(event);
            }
        }
        timeout_at(until, self.stream.next()).await.ok()
    }

    /// Looks at one session; whether it could be looked at.
    async fn look(
        &mut self,
        session: &mut Session,
        progress: &mut Progress<'_>,
    ) -> Result<bool, UserError> {
        match self.client.get_session(&session.id).await {
            Ok(found) => {
                *session = found;
                let step = session.saga.as_ref().map(|saga| saga.step.as_deref());
                match step {
                    Some(Some(step)) => drop(self.goes_on(&session.id, step)),
                    Some(None) => {}
                    None => drop(self.told.insert(session.id.clone(), STEPS.len())),
                }
                // What is undone goes back over the same steps; what failed is told already.
                if !self.failures.contains_key(&session.id) {
                    progress.tell(&session.id, &state(session));
                }
                Ok(true)
            }
            // The stream tells about a daemon that is away, and waits for it.
            Err(error) if error.kind() == Kind::Unavailable => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn heard(&mut self, event: &Event, progress: &mut Progress<'_>) {
        let Some(session) = &event.session else {
            return;
        };
        if progress.knows(session) && event.kind.starts_with("saga.") {
            self.setups.end(session, progress);
            if event.kind == "saga.step" && text(&event.data, "step").as_deref() == Some("setup") {
                self.setups.begin(self.client, session).await;
            }
        }
        let told = match event.kind.as_str() {
            "saga.step" if self.failures.contains_key(session) => None,
            "saga.step" => {
                let step = text(&event.data, "step");
                step.and_then(|step| self.goes_on(session, &step).then(|| doing(&step)))
            }
            "saga.failed" => {
                let failure = failure(session, &event.data);
                let told = format!("failed: {}", failure.message());
                self.failures.insert(session.clone(), failure);
                Some(told)
            }
            _ => None,
        };
        if let Some(told) = told
            && progress.knows(session)
        {
            progress.tell(session, &told);
        }
    }

    /// Whether this step is beyond those that were told: a look at the session may have been ahead of its
    /// events.
    fn goes_on(&mut self, session: &str, step: &str) -> bool {
        let Some(place) = STEPS.iter().position(|known| *known == step) else {
            return true;
        };
        let told = self.told.entry(session.to_owned()).or_default();
        let further = place >= *told;
        *told = place.max(*told);
        further
    }

    /// Finds in the record why a session that is over was never launched. Needed when the answer to a
    /// repeated request told of a session that had failed long ago.
    async fn failure_of(&self, session: &Session) -> Result<Option<UserError>, UserError> {
        let mut which = Events {
            session: Some(session.id.clone()),
            limit: Some(1000),
            ..Events::default()
        };
        let mut found = None;
        loop {
            let list = self.client.list_events(&which).await?;
            for event in &list.data {
                match event.kind.as_str() {
                    "saga.failed" => found = Some(failure(&session.id, &event.data)),
                    "session.launched" => found = None,
                    _ => {}
                }
            }
            which.since = list.data.last().map(|event| event.seq).or(which.since);
            if list.next.is_none() || list.data.is_empty() {
                return Ok(found);
            }
        }
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
    let kind = text(data, "error_kind").map_or(Kind::Failed, |word| Kind::from_word(&word));
    let why = text(data, "why").unwrap_or_else(|| format!("session {session} could not be set up"));
    let error = UserError::new(kind, why).detail("session", session);
    let error = match text(data, "step").as_deref() {
        // It ran, and probably said why it did not go on.
        Some("prompt") => error.hint(format!(
            "`skein logs {session}` shows what its agent printed"
        )),
        Some("setup") => error.hint(format!(
            "`skein logs --setup {session}` shows all it printed"
        )),
        _ => error,
    };
    error.hint(format!("`skein show {session}` tells what is left of it"))
}

/// Where the files are that were written before it failed.
fn with_work(failure: UserError, session: &Session) -> UserError {
    let Some(kept) = session.workspace.backups.last() else {
        return failure;
    };
    let failure = failure.hint(format!("what was written is kept in {}", kept.name));
    match way_back(session, kept) {
        Some(command) => failure.hint(format!("`{command}` brings it back")),
        None => failure,
    }
}

/// What is under way, for people.
fn state(session: &Session) -> String {
    match &session.saga {
        None => session.status.clone(),
        Some(saga) => match (&saga.step, saga.place) {
            (Some(step), _) => doing(step),
            (None, Some(place)) => match &saga.why {
                Some(why) => format!("queued, place {place}: {why}"),
                None => format!("queued, place {place}"),
            },
            (None, None) => format!("{} begins", saga.kind),
        },
    }
}

fn doing(step: &str) -> String {
    match step {
        "workspace" => "making its workspace",
        "setup" => "setting the workspace up",
        "launch" => "starting the agent",
        "prompt" => "waiting until the agent is at it",
        "stop" => "stopping the agent",
        "backup" => "looking for work to keep",
        "remove" => "clearing its workspace up",
        "end" => "ending it",
        other => other,
    }
    .to_owned()
}
