//! What callers ask of sessions with agents: talk, interrupt, look.

use std::path::PathBuf;
use std::time::Duration;

use skein_agent::agent::{Abilities, Agent, InstalledProgram, Profile};
use skein_domain::fact::SessionChange;
use skein_domain::{
    AgentName, Conflict, Derived, Invalid, Kind, Message, Observations, Reason, Receipt, ReceiptId,
    Refused, Right, Role, RunHandle, RuntimeKind, Saga, Session, SessionId, Status,
};
use skein_runtime::runtime::Screen;
use skein_store::RecordPage;

use super::commands::run_blocking;
use super::record::live_of;
use skein_ledger::receipt::no_agent;
use skein_ledger::session::SessionFilter;

use super::{FleetRequests, examine, hook_journal};
use crate::error::Error;
use skein_ledger::project;
use skein_ledger::{Answer, RequestOutcome};

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
pub struct TerminalAddress {
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
    pub observed: Observations,
    pub receipts_open: u64,
    pub saga: Option<Saga>,
}

/// An agent as people see it in a list.
#[derive(Clone, Debug)]
pub struct AgentView {
    pub name: AgentName,
    pub found: InstalledProgram,
    pub profile: Option<Profile>,
    pub abilities: Abilities,
    pub memory_mb: u64,
    /// Whether a session that names no agent gets it.
    pub default: bool,
}

impl FleetRequests {
    /// What was seen of a session's agent; nothing for sessions without one.
    pub fn observations(&self, session: &Session) -> Observations {
        match &session.gear {
            Some(_) => {
                self.fleet
                    .board
                    .observations(&self.ledger.session_key(&session.id))
                    .0
            }
            None => Observations::default(),
        }
    }

    /// The session's status, from the record and what was seen (L2).
    pub fn derive(&self, session: &Session) -> Derived {
        let (seen, patience) = match &session.gear {
            Some(_) => self
                .fleet
                .board
                .observations(&self.ledger.session_key(&session.id)),
            None => Default::default(),
        };
        let has_agent = session.gear.is_some();
        Status::derive(
            &session.phase,
            has_agent,
            &seen,
            &patience,
            self.ledger.now(),
        )
    }

    /// Accepts a message for the session's agent. The supervisor delivers it when the agent is ready, in order.
    pub async fn send(
        &self,
        reference: String,
        text: Message,
        from: Option<String>,
    ) -> Result<Answer, Error> {
        let answer = self.ledger.messages().send(reference, text, from).await?;
        self.wake(&answer);
        Ok(answer)
    }

    /// Accepts an answer to the session's question.
    pub async fn answer(&self, reference: String, text: Reason) -> Result<Answer, Error> {
        let answer = self.ledger.turns().answer(reference, text).await?;
        self.wake(&answer);
        Ok(answer)
    }

    /// Newest first; see `SessionRequests::list`.
    pub async fn list_sessions(
        &self,
        asked: SessionFilter,
        after: Option<u64>,
        limit: usize,
    ) -> Result<RecordPage<Session>, Error> {
        let requests = self.clone();
        let status_of = move |session: &Session| requests.derive(session).status;
        let listed = self.ledger.sessions().list(asked, status_of, after, limit);
        Ok(listed.await?)
    }

    /// Wakes the supervisor that delivers an accepted message.
    fn wake(&self, answer: &Answer) {
        if let Answer::Fresh(RequestOutcome::Receipt(receipt)) = answer {
            let session_key = self.ledger.session_key(&receipt.session);
            // A caller whose message was accepted sees at once that it waits.
            self.fleet.board.message_accepted(&session_key);
            self.fleet.supervisors.wake(&session_key);
        }
    }

    /// Stops the running turn by the agent's own keys.
    pub async fn interrupt(&self, reference: String) -> Result<Answer, Error> {
        let fleet = self.fleet.clone();
        let must_own = self.ledger.must_own();
        if let Some(earlier) = self.ledger.earlier().await? {
            return Ok(earlier);
        }
        let (session, project) = self.ledger.sessions().with_project(reference).await?;
        if !session.has_run() {
            return Err(Conflict::NoRun {
                session: session.id,
            }
            .into());
        }
        let agent = fleet.programs.agent(&session, &project)?;
        let id = session.id.clone();
        let answer = self
            .ledger
            .change("interrupt a session", Role::Operate, move |writer| {
                let before: Session = writer.reader().get(id.as_str())?;
                before.check_owner(must_own.as_ref())?;
                let Some(gear) = before.gear.as_deref().filter(|g| g.handle.is_some()) else {
                    let session = before.id.clone();
                    return Err(Conflict::NoRun { session }.into());
                };
                let mut gear = gear.clone();
                gear.input += 1;
                let after = before.with_gear(gear, writer.now());
                writer.update(&after)?;
                writer.append_event(&SessionChange::Interrupted { run: after.run }.of(&after))?;
                Ok(RequestOutcome::Session(Box::new(after)))
            })
            .await?;
        // A repeated request presses nothing.
        if let Answer::Fresh(RequestOutcome::Session(after)) = &answer
            && let Some(number) = after.gear.as_ref().map(|gear| gear.input)
        {
            let session_key = self.ledger.session_key(&session.id);
            let keys = agent.interrupt();
            let Some(pressed) = fleet
                .supervisors
                .interrupt(&session_key, session.run, number, keys)
                .await
            else {
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

    /// Keeps what an agent's hook says until the supervisor of its run reads it; returns once it is durable. A hook of a
    /// run that is over says nothing any more, which is no error: the agent must not suffer for it.
    pub async fn hook(&self, hook: Hook) -> Result<(), Error> {
        const OP: &str = "call a hook of";
        if hook.payload.len() > MOST_PAYLOAD || hook.event.len() > 200 {
            return Err(Invalid::new("hook", &hook.event, "it is too long").into());
        }
        let fleet = self.fleet.clone();
        let session = self.ledger.sessions().get(hook.session.clone()).await?;
        let scope = self.ledger.caller().scope.as_ref();
        if scope.is_none_or(|s| s.session != session.id || s.run != hook.run) {
            return Err(Refused::RunOnly { op: OP }.into());
        }
        if session.run != hook.run || !session.has_run() {
            return Ok(());
        }
        let session_key = self.ledger.session_key(&session.id);
        let private = fleet.programs.folders.private(&session_key);
        // Like no other: ids of calls name the messages in them.
        let call = ReceiptId::from_random(self.ledger.ids().bits());
        let (run, at) = (hook.run, self.ledger.now());
        let kept = run_blocking(move || {
            let said = (hook.event.as_str(), hook.payload.as_str());
            let id = call.as_str().trim_start_matches(ReceiptId::PREFIX);
            hook_journal::append(&private, run, id, at, said)
        });
        kept.await?.map_err(|error| {
            let text = format!("the hook could not be kept: {error}");
            Error::step(Kind::Unavailable, text)
        })?;
        fleet.supervisors.wake(&session_key);
        Ok(())
    }

    /// What the agent's terminal shows now.
    pub async fn screen(&self, reference: String) -> Result<Screen, Error> {
        let fleet = self.fleet.clone();
        let session = self.ledger.sessions().get(reference).await?;
        let Some(gear) = session.gear.as_deref() else {
            return Err(no_agent(&session).into());
        };
        let Some(handle) = &gear.handle else {
            return Err(Conflict::NoRun {
                session: session.id,
            }
            .into());
        };
        let run = fleet.runtime.connect(handle).await?;
        Ok(run.screen().await?)
    }

    pub async fn terminal(&self, reference: String) -> Result<TerminalAddress, Error> {
        let fleet = &self.fleet;
        let session = self.ledger.sessions().get(reference).await?;
        let Some(gear) = session.gear.as_deref() else {
            return Err(no_agent(&session).into());
        };
        Ok(TerminalAddress {
            run: session.run,
            runtime: gear.runtime,
            // A caller with the handle can type, and so answer what the agent asks: no agent gets it.
            handle: gear
                .handle
                .clone()
                .filter(|_| self.ledger.caller().scope.is_none()),
            log: fleet
                .programs
                .folders
                .log(&self.ledger.session_key(&session.id), session.run),
            setup_log: fleet
                .programs
                .folders
                .setup_log(&self.ledger.session_key(&session.id)),
            session: session.id.clone(),
        })
    }

    /// What the session changed in its workspace.
    pub async fn diff(&self, reference: String, stat: bool) -> Result<String, Error> {
        let fleet = self.fleet.clone();
        let session = self.ledger.sessions().get(reference).await?;
        let Some(gear) = session.gear.as_deref() else {
            let hint = format!(
                "`skein session` drives it; `skein transcript show {}` shows its messages",
                session.id
            );
            let refused = Refused::Workspace {
                what: format!("session `{}` has no agent and no workspace", session.id),
                hints: vec![hint],
            };
            return Err(refused.into());
        };
        let provider = fleet.provider(gear.workspace.kind)?;
        let workspace = gear.workspace.clone();
        Ok(run_blocking(move || provider.diff(&workspace, stat)).await??)
    }

    /// Whether the session's workspace holds uncommitted work; none when that is unknown, and for callers
    /// who only read: it takes a git process.
    pub async fn dirty(&self, session: &Session) -> Option<bool> {
        if self.ledger.caller().role < Role::Operate {
            return None;
        }
        let fleet = self.fleet.clone();
        let gear = session.gear.as_deref()?;
        if gear.workspace.state != skein_domain::WorkspaceState::Ready {
            return None;
        }
        let provider = fleet.provider(gear.workspace.kind).ok()?;
        let workspace = gear.workspace.clone();
        let contents = run_blocking(move || provider.inspect(&workspace))
            .await
            .ok()?
            .ok()?;
        Some(contents.dirty)
    }

    pub async fn why(&self, reference: String) -> Result<Why, Error> {
        let (session, saga, receipts_open) = self
            .ledger
            .read(move |r| {
                let session: Session = r.resolve(&reference)?;
                let of_session = live_of(&session);
                let of_agent = |saga: &Saga| saga.kind().is_of_agent();
                let saga = r.all(&of_session)?.into_iter().find(of_agent);
                let open = r.all::<Receipt>(&of_session)?;
                let open = open.iter().filter(|r| r.is_open()).count() as u64;
                Ok((session, saga, open))
            })
            .await?;
        Ok(Why {
            derived: self.derive(&session),
            observed: self.observations(&session),
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
        let fleet = self.fleet.clone();
        if path.is_some() && !self.ledger.caller().local {
            let what = "PATH, which is honoured on the Unix socket only";
            let op = "list agents";
            return Err(self
                .ledger
                .refused(op, Refused::TokenField { what }.into())
                .await);
        }
        let may_start = self.ledger.caller().role >= Role::Operate
            && self.ledger.caller().rights.contains(Right::Run);
        let versions = match may_start {
            true => examine::Versions::Ask,
            false => examine::Versions::Remembered,
        };
        let project = match reference {
            Some(reference) => Some(
                self.ledger
                    .read(move |r| project::resolve(r, &reference))
                    .await?,
            ),
            None => None,
        };
        run_blocking(move || {
            let settings = match &project {
                Some(project) => fleet.programs.settings_of(project)?,
                None => super::ProjectSettings::default(),
            };
            let path = path.unwrap_or_else(|| fleet.programs.usual_path());
            let agents = settings.agents.list();
            let env = |agent: &dyn Agent| fleet.programs.known_environment(agent);
            let found = examine::examine(&agents, &path, versions, env);
            let view = |(agent, found): (&std::sync::Arc<dyn Agent>, InstalledProgram)| AgentView {
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

fn not_pressed() -> Error {
    skein_runtime::error::Error::unobserved("its terminal has not taken the keys yet").into()
}
