//! The client: one method per route.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use skein_wire::{
    AddProject, Answer, Ask, BeginTurn, Broadcast, DaemonStatus, EndSession, EndTurn, ErrorBody,
    ErrorObject, Event, Handoff, Health, Kill, List, Merge, NewThread, NewToken, Project, Receipt,
    Restore, RetentionReport, SealEvents, SealReport, Session, SetProject, SetSummary, Spawn,
    Summary, Thread, Token, TokenSecret, Tree, VerifyReport,
};

use crate::endpoint::{Endpoint, Identity};
use crate::error::{Error, Kind};
use crate::key::Key;
use crate::query::{Page, Target};
use crate::stream::EventStream;
use crate::transport::{Body, Transport};

/// Which threads to list.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    pub project: Option<String>,
    /// `open` (default), `archived` or `all`.
    pub state: Option<String>,
    pub page: Page,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// Ended and archived ones too.
    pub all: bool,
    pub project: Option<String>,
    pub thread: Option<String>,
    pub status: Vec<String>,
    pub page: Page,
}

/// Which events to list.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Events after this number.
    pub since: Option<u64>,
    pub session: Option<String>,
    pub limit: Option<u32>,
}

/// Cheap to make, connects with the first call, usable by concurrent calls.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    identity: Identity,
    daemon_version: OnceLock<String>,
}

impl Client {
    pub fn new(endpoint: Endpoint, identity: Identity) -> Self {
        Self {
            transport: Transport::new(endpoint),
            identity,
            daemon_version: OnceLock::new(),
        }
    }

    #[must_use]
    pub fn with_deadlines(mut self, connect: Duration, call: Duration) -> Self {
        self.transport.set_deadlines(connect, call);
        self
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.transport.endpoint()
    }

    /// What the daemon said of itself in its first answer.
    pub fn daemon_version(&self) -> Option<&str> {
        self.daemon_version.get().map(String::as_str)
    }

    /// Fails with [`Error::Unreachable`] when nobody listens.
    pub async fn connect(&self) -> Result<(), Error> {
        self.transport.connect().await
    }

    pub async fn healthz(&self) -> Result<Health, Error> {
        self.get(&Target::root("/healthz")).await
    }

    pub async fn readyz(&self) -> Result<Health, Error> {
        self.get(&Target::root("/readyz")).await
    }

    pub async fn openapi(&self) -> Result<serde_json::Value, Error> {
        self.get(&Target::new(["openapi.json"])).await
    }

    pub async fn list_projects(&self, page: &Page) -> Result<List<Project>, Error> {
        self.get(&Target::new(["projects"]).page(page)).await
    }

    /// The project whose folder encloses `path`.
    pub async fn find_project_at(&self, path: &str) -> Result<Option<Project>, Error> {
        let target = Target::new(["projects"]).with("path", Some(path));
        let found: List<Project> = self.get(&target).await?;
        Ok(found.data.into_iter().next())
    }

    pub async fn add_project(&self, body: &AddProject, key: &Key) -> Result<Project, Error> {
        self.post(&Target::new(["projects"]), body, key).await
    }

    pub async fn get_project(&self, project: &str) -> Result<Project, Error> {
        self.get(&Target::new(["projects", project])).await
    }

    pub async fn set_project(
        &self,
        project: &str,
        body: &SetProject,
        key: &Key,
    ) -> Result<Project, Error> {
        let target = Target::new(["projects", project]);
        self.call(Method::PATCH, &target, Some(body), Some(key))
            .await
    }

    pub async fn remove_project(&self, project: &str, key: &Key) -> Result<Project, Error> {
        self.delete(&Target::new(["projects", project]), key).await
    }

    pub async fn list_threads(&self, which: &Threads) -> Result<List<Thread>, Error> {
        let target = Target::new(["threads"])
            .with("project", which.project.as_deref())
            .with("state", which.state.as_deref())
            .page(&which.page);
        self.get(&target).await
    }

    pub async fn new_thread(&self, body: &NewThread, key: &Key) -> Result<Thread, Error> {
        self.post(&Target::new(["threads"]), body, key).await
    }

    pub async fn get_thread(&self, thread: &str) -> Result<Thread, Error> {
        self.get(&Target::new(["threads", thread])).await
    }

    pub async fn remove_thread(&self, thread: &str, key: &Key) -> Result<Thread, Error> {
        self.delete(&Target::new(["threads", thread]), key).await
    }

    pub async fn archive_thread(&self, thread: &str, key: &Key) -> Result<Thread, Error> {
        self.post_empty(&Target::new(["threads", thread, "archive"]), key)
            .await
    }

    pub async fn reopen_thread(&self, thread: &str, key: &Key) -> Result<Thread, Error> {
        self.post_empty(&Target::new(["threads", thread, "reopen"]), key)
            .await
    }

    pub async fn list_sessions(&self, which: &Sessions) -> Result<List<Session>, Error> {
        let status = (!which.status.is_empty()).then(|| which.status.join(","));
        let target = Target::new(["sessions"])
            .with("all", which.all.then_some("true"))
            .with("project", which.project.as_deref())
            .with("thread", which.thread.as_deref())
            .with("status", status)
            .page(&which.page);
        self.get(&target).await
    }

    pub async fn spawn(&self, body: &Spawn, key: &Key) -> Result<Session, Error> {
        self.post(&Target::new(["sessions"]), body, key).await
    }

    /// The session as it is recorded and seen; whether its workspace is dirty is not looked at.
    pub async fn get_session(&self, session: &str) -> Result<Session, Error> {
        let target = Target::new(["sessions", session]);
        self.get(&target.with("quick", Some("true"))).await
    }

    /// The session with a look into its workspace.
    pub async fn show_session(&self, session: &str) -> Result<Session, Error> {
        self.get(&Target::new(["sessions", session])).await
    }

    pub async fn begin_turn(
        &self,
        session: &str,
        body: &BeginTurn,
        key: &Key,
    ) -> Result<Session, Error> {
        self.act(session, "begin-turn", body, key).await
    }

    pub async fn end_turn(
        &self,
        session: &str,
        body: &EndTurn,
        key: &Key,
    ) -> Result<Session, Error> {
        self.act(session, "end-turn", body, key).await
    }

    pub async fn ask(&self, session: &str, body: &Ask, key: &Key) -> Result<Session, Error> {
        self.act(session, "ask", body, key).await
    }

    /// Takes the question back.
    pub async fn withdraw(
        &self,
        session: &str,
        body: &BeginTurn,
        key: &Key,
    ) -> Result<Session, Error> {
        self.act(session, "withdraw", body, key).await
    }

    pub async fn answer(&self, session: &str, body: &Answer, key: &Key) -> Result<Receipt, Error> {
        self.act(session, "answer", body, key).await
    }

    pub async fn end_session(
        &self,
        session: &str,
        body: &EndSession,
        key: &Key,
    ) -> Result<Session, Error> {
        self.act(session, "end", body, key).await
    }

    pub async fn kill(&self, session: &str, body: &Kill, key: &Key) -> Result<Session, Error> {
        self.act(session, "kill", body, key).await
    }

    pub async fn restore(
        &self,
        session: &str,
        body: &Restore,
        key: &Key,
    ) -> Result<Session, Error> {
        self.act(session, "restore", body, key).await
    }

    pub async fn handoff(
        &self,
        session: &str,
        body: &Handoff,
        key: &Key,
    ) -> Result<Session, Error> {
        self.act(session, "handoff", body, key).await
    }

    /// Answers with the recipients' sessions.
    pub async fn broadcast(
        &self,
        session: &str,
        body: &Broadcast,
        key: &Key,
    ) -> Result<List<Session>, Error> {
        self.act(session, "broadcast", body, key).await
    }

    pub async fn merge(&self, session: &str, body: &Merge, key: &Key) -> Result<Session, Error> {
        self.act(session, "merge", body, key).await
    }

    pub async fn tree(&self, session: &str) -> Result<Tree, Error> {
        self.get(&Target::new(["sessions", session, "tree"])).await
    }

    pub async fn get_summary(&self, session: &str) -> Result<Summary, Error> {
        self.get(&Target::new(["sessions", session, "summary"]))
            .await
    }

    pub async fn set_summary(
        &self,
        session: &str,
        body: &SetSummary,
        key: &Key,
    ) -> Result<Summary, Error> {
        let target = Target::new(["sessions", session, "summary"]);
        self.call(Method::PUT, &target, Some(body), Some(key)).await
    }

    pub async fn list_events(&self, which: &Events) -> Result<List<Event>, Error> {
        let target = Target::new(["events"])
            .with("since", which.since)
            .with("session", which.session.as_deref())
            .with("limit", which.limit);
        self.get(&target).await
    }

    /// Events as they happen, after `since` where it is given.
    pub fn follow_events(&self, since: Option<u64>, session: Option<&str>) -> EventStream<'_> {
        EventStream::new(self, since, session)
    }

    pub async fn verify_events(&self) -> Result<VerifyReport, Error> {
        self.get(&Target::new(["events", "verify"])).await
    }

    pub async fn seal_events(&self, body: &SealEvents, key: &Key) -> Result<SealReport, Error> {
        self.post(&Target::new(["events", "seal"]), body, key).await
    }

    pub async fn list_tokens(&self, page: &Page) -> Result<List<Token>, Error> {
        self.get(&Target::new(["tokens"]).page(page)).await
    }

    pub async fn new_token(&self, body: &NewToken, key: &Key) -> Result<TokenSecret, Error> {
        self.post(&Target::new(["tokens"]), body, key).await
    }

    pub async fn remove_token(&self, token: &str, key: &Key) -> Result<Token, Error> {
        self.delete(&Target::new(["tokens", token]), key).await
    }

    pub async fn daemon_status(&self) -> Result<DaemonStatus, Error> {
        self.get(&Target::new(["daemon"])).await
    }

    pub async fn stop_daemon(&self, key: &Key) -> Result<DaemonStatus, Error> {
        self.post_empty(&Target::new(["daemon", "stop"]), key).await
    }

    pub async fn run_retention(&self, key: &Key) -> Result<RetentionReport, Error> {
        self.post_empty(&Target::new(["retention", "run"]), key)
            .await
    }

    pub(crate) async fn act<T: DeserializeOwned>(
        &self,
        session: &str,
        verb: &str,
        body: &impl Serialize,
        key: &Key,
    ) -> Result<T, Error> {
        self.post(&Target::new(["sessions", session, verb]), body, key)
            .await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, target: &Target) -> Result<T, Error> {
        self.call(Method::GET, target, None::<&()>, None).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        target: &Target,
        body: &impl Serialize,
        key: &Key,
    ) -> Result<T, Error> {
        self.call(Method::POST, target, Some(body), Some(key)).await
    }

    async fn post_empty<T: DeserializeOwned>(
        &self,
        target: &Target,
        key: &Key,
    ) -> Result<T, Error> {
        self.call(Method::POST, target, None::<&()>, Some(key))
            .await
    }

    async fn delete<T: DeserializeOwned>(&self, target: &Target, key: &Key) -> Result<T, Error> {
        self.call(Method::DELETE, target, None::<&()>, Some(key))
            .await
    }

    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        target: &Target,
        body: Option<&impl Serialize>,
        key: Option<&Key>,
    ) -> Result<T, Error> {
        let body = match body {
            None => None,
            Some(body) => Some(Bytes::from(serde_json::to_vec(body).map_err(|error| {
                Error::Unsendable {
                    what: "the request",
                    reason: error.to_string(),
                }
            })?)),
        };
        let request = || self.request(method.clone(), target, body.clone(), key);
        self.exchange(request).await
    }

    pub(crate) async fn exchange<T: DeserializeOwned>(
        &self,
        request: impl Fn() -> Result<Request<Body>, Error>,
    ) -> Result<T, Error> {
        let (parts, answer) = self.transport.exchange(request).await?;
        self.note_version(&parts.headers);
        if !parts.status.is_success() {
            return Err(self.refusal(parts.status, &answer));
        }
        serde_json::from_slice(&answer).map_err(|error| self.unreadable(error.to_string()))
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn request(
        &self,
        method: Method,
        target: &Target,
        body: Option<Bytes>,
        key: Option<&Key>,
    ) -> Result<Request<Body>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(target.as_str())
            .header(header::HOST, self.endpoint().host())
            .header(
                skein_wire::TENANT_HEADER,
                value("the tenant", &self.identity.tenant)?,
            )
            .header(
                skein_wire::ACTOR_HEADER,
                value("the actor", &self.identity.actor)?,
            );
        if let Some(bearer) = self.endpoint().bearer() {
            let mut secret = value("the token", &format!("Bearer {bearer}"))?;
            secret.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, secret);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", value("the key", key.as_str())?);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| Error::Unsendable {
                what: "the request",
                reason: error.to_string(),
            })
    }

    pub(crate) fn note_version(&self, headers: &HeaderMap) {
        if let Some(version) = headers
            .get(skein_wire::VERSION_HEADER)
            .and_then(|value| value.to_str().ok())
        {
            let _ = self.daemon_version.set(version.to_owned());
        }
    }

    /// The error an unsuccessful answer stands for, even if its body is not ours.
    pub(crate) fn refusal(&self, status: StatusCode, body: &[u8]) -> Error {
        let object = serde_json::from_slice::<ErrorBody>(body).map_or_else(
            |_| ErrorObject {
                kind: kind_of(status).as_str().to_owned(),
                message: format!(
                    "the daemon at {} answered {status}",
                    self.transport.endpoint()
                ),
                hints: vec![],
                details: serde_json::Map::new(),
            },
            |body| body.error,
        );
        Error::Answered {
            status: status.as_u16(),
            object,
        }
    }

    pub(crate) fn unreadable(&self, reason: String) -> Error {
        Error::Unreadable {
            endpoint: self.transport.endpoint().to_string(),
            reason,
        }
    }
}

fn value(what: &'static str, text: &str) -> Result<HeaderValue, Error> {
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    match HeaderValue::from_str(text) {
        Ok(value) if plain => Ok(value),
        _ => Err(Error::Unsendable {
            what,
            reason: "only printable ASCII may stand in it".to_owned(),
        }),
    }
}

fn kind_of(status: StatusCode) -> Kind {
    match status.as_u16() {
        400 | 405 | 406 | 411 | 413 | 414 | 415 | 422 | 431 => Kind::Misuse,
        401 | 403 => Kind::Refused,
        404 => Kind::NotFound,
        409 | 412 => Kind::Conflict,
        429 | 502 | 503 => Kind::Unavailable,
        408 | 504 => Kind::TimedOut,
        _ => Kind::Failed,
    }
}
