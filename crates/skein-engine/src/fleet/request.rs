//! What callers ask of sessions with agents: talk, interrupt, look.

use std::path::PathBuf;
use std::time::Duration;

use skein_agent::agent::{Abilities, Agent, Found, Profile};
use skein_domain::fact::Change;
use skein_domain::{
    AgentName, Conflict, Derived, Invalid, Message, Observed, Project, Purpose, Receipt, ReceiptId,
    Refused, Right, Role, RunHandle, RunScope, RuntimeKind, Saga, Session, SessionId, Status,
};
use skein_runtime::runtime::Screen;
use skein_store::backend::{Filter, Order};
use skein_store::{Page, Query, Writer};

use super::step::off;
use super::{Fleet, Member, examine};
use crate::caller::{Answer, Outcome};
use crate::desk::Desk;
use crate::error::Error;
use crate::project;

/// Longest payload of a hook that is looked at.
const MOST_PAYLOAD: usize = 1024 * 1024;

/// How long an interrupt waits for what is being typed before it.
const PRESSED: Duration = Duration::from_secs(10);

/// A call of an agent's hook.
#[derive(Clone, Debug)]
pub struct Hook {
    pub session: String,
    pub run: u64,
    pub event: String,
    pub payload: String,
}

/// Where a session's terminal is, for programs on the same machine.
#[derive(Clone, Debug)]
pub struct Terminal {
    pub session: SessionId,
    pub run: u64,
    pub runtime: RuntimeKind,
    /// None when nothing runs.
    pub handle: Option<RunHandle>,
    /// The history of the last run.
    pub log: PathBuf,
    /// What the last set-up of the workspace printed; it need not exist.
    pub setup_log: PathBuf,
}

/// Everything behind a session's status.
#[derive(Clone, Debug)]
pub struct Why {
    pub session: Session,
    pub derived: Derived,
    pub observed: Observed,
    pub receipts_open: u64,
    pub saga: Option<Saga>,
}

/// An agent as people see it in a list.
#[derive(Clone, Debug)]
pub struct AgentView {
    pub name: AgentName,
    pub found: Found,
    pub profile: Option<Profile>,
    pub abilities: Abilities,
    pub memory_mb: u64,
    /// Whether a session that names no agent gets it.
    pub default: bool,
}

impl Desk {
    pub(crate) fn fleet(&self) -> Result<&std::sync::Arc<Fleet>, Error> {
        self.shared.fleet.get().ok_or_else(|| Error::NoFleet {
            what: "agents".into(),
        })
    }

    pub(crate) fn member(&self, session: &SessionId) -> Member {
        Member {
            tenant: self.tenant().clone(),
            session: session.clone(),
        }
    }

    /// The machine's own desk for the same tenant.
    pub(crate) fn system(&self) -> Self {
        let caller =
            crate::caller::Caller::local(self.tenant().clone(), skein_domain::Actor::System);
        Self::new(self.store.clone(), caller, self.shared.clone())
    }

    /// What was seen of a session's agent; nothing for sessions without one.
    pub fn seen(&self, session: &Session) -> Observed {
        match (self.shared.fleet.get(), &session.gear) {
            (Some(fleet), Some(_)) => fleet.board.see(&self.member(&session.id)).0,
            _ => Observed::default(),
        }
    }

    /// The session's status, from the record and what was seen (L2).
    pub fn derive(&self, session: &Session) -> Derived {
        let (seen, patience) = match (self.shared.fleet.get(), &session.gear) {
            (Some(fleet), Some(_)) => fleet.board.see(&self.member(&session.id)),
            _ => Default::default(),
        };
        let has_agent = session.gear.is_some();
        Status::derive(&session.phase, has_agent, &seen, &patience, self.now())
    }

    /// Accepts a message for the session's agent. It is delivered when the agent is ready, in order.
    pub async fn send(
        &self,
        reference: String,
        text: Message,
        from: Option<String>,
    ) -> Result<Answer, Error> {
        let id = ReceiptId::from_random(self.shared.ids.bits());
        let key = self.caller.idempotency.as_ref().map(|i| i.key.clone());
        let must_own = self.must_own();
        let scope = self.caller.scope.clone();
        let answer = self
            .change("send a message", Role::Operate, move |writer| {
                let session: Session = writer.reader().resolve(&reference)?;
                session.check_owner(must_own.as_ref())?;
                check_listens(&session)?;
                let from = match &from {
                    Some(from) => Some(writer.reader().resolve::<Session>(from)?),
                    None => None,
                };
                if let Some(from) = &from {
                    from.check_owner(must_own.as_ref())?;
                }
                let from = sender(from.map(|session| session.id), scope.as_ref())?;
                let receipt = Receipt {
                    key: key.clone(),
                    from,
                    ..new_receipt(writer, id.clone(), &session, Purpose::Message, text.clone())
                };
                insert_receipt(writer, &session, &receipt)?;
                Ok(Outcome::Receipt(Box::new(receipt)))
            })
            .await?;
        self.wake(&answer);
        Ok(answer)
    }

    pub(crate) fn wake(&self, answer: &Answer) {
        if let (Some(fleet), Answer::Fresh(Outcome::Receipt(receipt))) =
            (self.shared.fleet.get(), answer)
        {
            let member = self.member(&receipt.session);
            // Whoever is told that it was accepted sees that it waits.
            fleet.board.posted(&member);
            fleet.wake_keeper(&member);
        }
    }

    /// Accepts the task of a run for delivery. One that was accepted before, and never written, is taken
    /// instead: a task is given once.
    pub(crate) async fn accept_task(
        &self,
        session: &Session,
        id: ReceiptId,
        text: Message,
    ) -> Result<ReceiptId, Error> {
        let session = session.id.clone();
        let actor = self.caller.actor.clone();
        let accepted = self
            .store
            .write(&actor, self.now(), move |writer| {
                if writer.reader().find::<Receipt>(id.as_str())?.is_some() {
                    return Ok(id.clone());
                }
                let open = Filter {
                    parent: Some(session.to_string()),
                    live: Some(true),
                    ..Filter::default()
                };
                let waits =
                    |r: &Receipt| r.purpose == Purpose::Task && r.is_open() && r.written.is_none();
                if let Some(known) = writer.reader().all(&open)?.into_iter().find(waits) {
                    return Ok(known.id);
                }
                let session: Session = writer.reader().get(session.as_str())?;
                let receipt =
                    new_receipt(writer, id.clone(), &session, Purpose::Task, text.clone());
                insert_receipt(writer, &session, &receipt)?;
                Ok(id.clone())
            })
            .await?;
        Ok(accepted)
    }

    /// Stops the running turn by the agent's own keys.
    pub async fn interrupt(&self, reference: String) -> Result<Answer, Error> {
        let fleet = self.fleet()?.clone();
        let must_own = self.must_own();
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let (session, project) = self.session_and_project(reference).await?;
        if !session.has_run() {
            return Err(Conflict::NoRun {
                session: session.id,
            }
            .into());
        }
        let agent = fleet.agent(&session, &project)?;
        let id = session.id.clone();
        let number = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let given = number.clone();
        let answer = self
            .change("interrupt a session", Role::Operate, move |writer| {
                let before: Session = writer.reader().get(id.as_str())?;
                before.check_owner(must_own.as_ref())?;
                let Some(gear) = before.gear.as_deref().filter(|g| g.handle.is_some()) else {
                    let session = before.id.clone();
                    return Err(Conflict::NoRun { session }.into());
                };
                let mut gear = gear.clone();
                gear.input += 1;
                given.store(gear.input, std::sync::atomic::Ordering::SeqCst);
                let after = before.with_gear(gear, writer.now());
                writer.update(&after)?;
                writer.tell(&Change::Interrupted { run: after.run }.of(&after))?;
                Ok(Outcome::Session(Box::new(after)))
            })
            .await?;
        let number = number.load(std::sync::atomic::Ordering::SeqCst);
        if number > 0 {
            let member = self.member(&session.id);
            let keys = agent.interrupt();
            let Some(pressed) = fleet.interrupt(&member, session.run, number, keys).await else {
                return Err(Conflict::NoRun {
                    session: session.id,
                }
                .into());
            };
            match tokio::time::timeout(PRESSED, pressed).await {
                Ok(Ok(pressed)) => pressed?,
                Ok(Err(_)) | Err(_) => return Err(not_pressed()),
            }
        }
        Ok(answer)
    }

    pub async fn get_receipt(&self, id: String) -> Result<Receipt, Error> {
        self.look(move |r| r.resolve(&id)).await
    }

    /// A session's messages, newest first.
    pub async fn list_receipts(
        &self,
        reference: String,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Page<Receipt>, Error> {
        self.look(move |r| {
            let session: Session = r.resolve(&reference)?;
            r.list(&Query {
                filter: Filter {
                    parent: Some(session.id.to_string()),
                    ..Filter::default()
                },
                order: Order::NewestFirst,
                after,
                limit,
            })
        })
        .await
    }

    /// What an agent's hook says. One nobody listens to is no error: the agent must not suffer for it.
    pub async fn hook(&self, hook: Hook) -> Result<(), Error> {
        const OP: &str = "call a hook of";
        if hook.payload.len() > MOST_PAYLOAD || hook.event.len() > 200 {
            return Err(Invalid::new("hook", &hook.event, "it is too long").into());
        }
        let fleet = self.fleet()?.clone();
        let (session, project) = self.session_and_project(hook.session).await?;
        let scope = self.caller.scope.as_ref();
        if scope.is_none_or(|s| s.session != session.id || s.run != hook.run) {
            return Err(Refused::RunOnly { op: OP }.into());
        }
        if session.run != hook.run || !session.has_run() {
            return Ok(());
        }
        let agent = fleet.agent(&session, &project)?;
        let readings = agent.read_hook(&hook.event, &hook.payload);
        if !readings.is_empty() && !fleet.heard(&self.member(&session.id), hook.run, readings) {
            tracing::debug!(session = %session.id, event = hook.event, "a hook found no listener");
        }
        Ok(())
    }

    pub(crate) async fn session_and_project(
        &self,
        reference: String,
    ) -> Result<(Session, Project), Error> {
        self.look(move |r| {
            let session: Session = r.resolve(&reference)?;
            let project = r.get(session.project.as_str())?;
            Ok((session, project))
        })
        .await
    }

    /// What the agent's terminal shows now.
    pub async fn screen(&self, reference: String) -> Result<Screen, Error> {
        let fleet = self.fleet()?.clone();
        let session = self.get_session(reference).await?;
        let Some(gear) = session.gear.as_deref() else {
            return Err(no_agent(&session).into());
        };
        let Some(handle) = &gear.handle else {
            return Err(Conflict::NoRun {
                session: session.id,
            }
            .into());
        };
        let run = fleet.runtime(gear.runtime)?.connect(handle).await?;
        Ok(run.screen().await?)
    }

    pub async fn terminal(&self, reference: String) -> Result<Terminal, Error> {
        let fleet = self.fleet()?;
        let session = self.get_session(reference).await?;
        let Some(gear) = session.gear.as_deref() else {
            return Err(no_agent(&session).into());
        };
        Ok(Terminal {
            run: session.run,
            runtime: gear.runtime,
            // Who has the handle can type, and so answer what the agent is asked: no agent gets it.
            handle: gear.handle.clone().filter(|_| self.caller.scope.is_none()),
            log: fleet.log_of(&self.member(&session.id), session.run),
            setup_log: fleet.setup_log_of(&self.member(&session.id)),
            session: session.id.clone(),
        })
    }

    /// What the session changed in its workspace.
    pub async fn diff(&self, reference: String, stat: bool) -> Result<String, Error> {
        let fleet = self.fleet()?.clone();
        let session = self.get_session(reference).await?;
        let Some(gear) = session.gear.as_deref() else {
            return Err(no_agent(&session).into());
        };
        let provider = fleet.provider(gear.workspace.kind)?;
        let workspace = gear.workspace.clone();
        Ok(off(move || provider.diff(&workspace, stat)).await??)
    }

    /// Whether the session's workspace holds uncommitted work; none when that cannot be told, and for callers
    /// who only read: it takes a git process.
    pub async fn dirty(&self, session: &Session) -> Option<bool> {
        if self.caller.role < Role::Operate {
            return None;
        }
        let fleet = self.fleet().ok()?.clone();
        let gear = session.gear.as_deref()?;
        if gear.workspace.state != skein_domain::WorkspaceState::Ready {
            return None;
        }
        let provider = fleet.provider(gear.workspace.kind).ok()?;
        let workspace = gear.workspace.clone();
        let contents = off(move || provider.look(&workspace)).await.ok()?.ok()?;
        Some(contents.dirty)
    }

    pub async fn why(&self, reference: String) -> Result<Why, Error> {
        let (session, saga, receipts_open) = self
            .look(move |r| {
                let session: Session = r.resolve(&reference)?;
                let of_session = Filter {
                    parent: Some(session.id.to_string()),
                    live: Some(true),
                    ..Filter::default()
                };
                let saga = r.all::<Saga>(&of_session)?.into_iter().next();
                let open = r.all::<Receipt>(&of_session)?;
                let open = open.iter().filter(|r| r.is_open()).count() as u64;
                Ok((session, saga, open))
            })
            .await?;
        Ok(Why {
            derived: self.derive(&session),
            observed: self.seen(&session),
            session,
            receipts_open,
            saga,
        })
    }

    /// Every agent that can be used in a project, or anywhere. Starts programs, to ask for their versions, only
    /// for callers who may.
    pub async fn agents(
        &self,
        reference: Option<String>,
        path: Option<String>,
    ) -> Result<Vec<AgentView>, Error> {
        let fleet = self.fleet()?.clone();
        if path.is_some() && !self.caller.local {
            let what = "PATH, which is honoured on the Unix socket only";
            let op = "list agents";
            return Err(self.refused(op, Refused::TokenField { what }.into()).await);
        }
        let may_start =
            self.caller.role >= Role::Operate && self.caller.rights.contains(Right::Run);
        let versions = match may_start {
            true => examine::Versions::Ask,
            false => examine::Versions::Remembered,
        };
        let project = match reference {
            Some(reference) => Some(self.look(move |r| project::resolve(r, &reference)).await?),
            None => None,
        };
        off(move || {
            let settings = match &project {
                Some(project) => fleet.settings_of(project)?,
                None => super::ProjectSettings::default(),
            };
            let path = path.unwrap_or_else(|| fleet.usual_path());
            let agents = settings.agents.list();
            let env = |agent: &dyn Agent| fleet.known_environment(agent);
            let found = examine::examine(&agents, &path, versions, env);
            let view = |(agent, found): (&std::sync::Arc<dyn Agent>, Found)| AgentView {
                name: agent.name().clone(),
                found,
                profile: agent.known().profile,
                abilities: agent.abilities().clone(),
                memory_mb: agent.known().memory_mb,
                default: settings.agent.as_ref() == Some(agent.name()),
            };
            Ok(agents.iter().zip(found).map(view).collect())
        })
        .await?
    }
}

/// The session a message comes from: for an agent its own, whatever it names.
fn sender(
    named: Option<SessionId>,
    scope: Option<&RunScope>,
) -> Result<Option<SessionId>, Refused> {
    match (named, scope) {
        (named, None) => Ok(named),
        (Some(named), Some(scope)) if named != scope.session => Err(Refused::NotBelow {
            caller: scope.session.clone(),
            session: named,
            op: "send a message in the name of",
        }),
        (_, Some(scope)) => Ok(Some(scope.session.clone())),
    }
}

fn not_pressed() -> Error {
    skein_runtime::error::Error::unobserved("its terminal has not taken the keys yet").into()
}

fn no_agent(session: &Session) -> Refused {
    Refused::NoAgent {
        session: session.id.clone(),
        why: "people or external programs drive it",
    }
}

/// Whether a message to the session has somewhere to go.
fn check_listens(session: &Session) -> Result<(), skein_store::Error> {
    if session.gear.is_none() {
        return Err(no_agent(session).into());
    }
    if !session.phase.is_live() {
        return Err(Conflict::WrongPhase {
            session: session.id.clone(),
            phase: session.phase.name(),
            wanted: "only a live session can be talked to",
        }
        .into());
    }
    Ok(())
}

pub(crate) fn new_receipt(
    writer: &Writer<'_>,
    id: ReceiptId,
    session: &Session,
    purpose: Purpose,
    text: Message,
) -> Receipt {
    Receipt {
        id,
        session: session.id.clone(),
        key: None,
        purpose,
        from: None,
        text,
        question: None,
        state: skein_domain::Delivery::Accepted,
        attempts: 0,
        history: vec![(skein_domain::Delivery::Accepted, writer.now())],
        written: None,
        note: None,
        version: 1,
    }
}

pub(crate) fn insert_receipt(
    writer: &mut Writer<'_>,
    session: &Session,
    receipt: &Receipt,
) -> Result<(), skein_store::Error> {
    writer.insert(receipt)?;
    let change = Change::Sent {
        receipt: receipt.id.clone(),
        purpose: receipt.purpose,
        from: receipt.from.clone(),
        bytes: receipt.text.as_str().len() as u64,
    };
    writer.tell(&change.of(session))
}
