//! Who may call which route: one entry per route, checked before anything else happens (L15).
//!
//! A route without an entry refuses every caller, and a test compares this table with the routes.

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request};
use axum::http::Method;
use axum::http::request::Parts;
use skein_domain::{Kind, Right, Role};
use skein_ledger::{Access, Caller, RunAccess};

use crate::app::App;
use crate::door::Peer;
use crate::error::ApiError;

/// One route and who may call it.
#[derive(Clone, Copy, Debug)]
pub struct AccessRule {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
    pub transport: Transport,
}

/// Where a route is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Any,
    /// On the Unix socket only: the answer is of use on the daemon's own machine.
    Unix,
}

/// A right is used if the caller has it: it widens what the request may ask for.
const RUN: Option<Right> = Some(Right::Run);

const fn entry(
    method: &'static str,
    path: &'static str,
    role: Role,
    run: RunAccess,
    op: &'static str,
) -> AccessRule {
    AccessRule {
        method,
        path,
        access: Access {
            op,
            role: Some(role),
            run,
            right: None,
        },
        transport: Transport::Any,
    }
}

const fn with_right(mut entry: AccessRule) -> AccessRule {
    entry.access.right = RUN;
    entry
}

const fn on_unix(mut entry: AccessRule) -> AccessRule {
    entry.transport = Transport::Unix;
    entry
}

/// Only the credential of the session's own run is accepted; not even the machine's user may speak for an agent.
const fn run_only(method: &'static str, path: &'static str, op: &'static str) -> AccessRule {
    let mut only = entry(method, path, Role::Admin, OwnSession, op);
    only.access.role = None;
    only
}

use Role::{Admin, Operate, Read};
use RunAccess::{AtOrBelow, InProject, Nothing, OwnSession};

/// In the order of the paths. Access depends on these columns only.
#[rustfmt::skip]
pub const TABLE: &[AccessRule] = &[
    entry("GET", "/api/v1/openapi.json", Read, InProject, "read the API's description"),
    entry("GET", "/api/v1/daemon", Read, InProject, "ask for the daemon's status"),
    on_unix(entry("POST", "/api/v1/daemon/stop", Admin, Nothing, "stop the daemon")),
    entry("POST", "/api/v1/retention/run", Admin, Nothing, "run retention"),
    entry("POST", "/api/v1/gc", Admin, Nothing, "clear up"),
    with_right(entry("GET", "/api/v1/agents", Read, InProject, "list agents")),
    entry("GET", "/api/v1/events", Read, InProject, "read events"),
    entry("GET", "/api/v1/events/verify", Read, Nothing, "verify events"),
    entry("POST", "/api/v1/events/seal", Admin, Nothing, "seal events"),
    entry("GET", "/api/v1/projects", Read, InProject, "list projects"),
    with_right(entry("POST", "/api/v1/projects", Operate, Nothing, "add a project")),
    entry("GET", "/api/v1/projects/{project}", Read, InProject, "show a project"),
    entry("PATCH", "/api/v1/projects/{project}", Admin, Nothing, "change a project"),
    entry("DELETE", "/api/v1/projects/{project}", Admin, Nothing, "remove a project"),
    entry("GET", "/api/v1/receipts/{receipt}", Read, InProject, "show a receipt"),
    entry("GET", "/api/v1/sessions", Read, InProject, "list sessions"),
    with_right(entry("POST", "/api/v1/sessions", Operate, AtOrBelow, "spawn a session")),
    entry("GET", "/api/v1/sessions/{session}", Read, InProject, "show a session"),
    entry("POST", "/api/v1/sessions/{session}/answer", Operate, Nothing, "answer"),
    entry("POST", "/api/v1/sessions/{session}/ask", Operate, AtOrBelow, "ask"),
    entry("POST", "/api/v1/sessions/{session}/begin-turn", Operate, AtOrBelow, "begin a turn"),
    entry("POST", "/api/v1/sessions/{session}/broadcast", Operate, AtOrBelow, "broadcast"),
    // It starts a git process, which a reader may not.
    entry("GET", "/api/v1/sessions/{session}/diff", Operate, InProject, "compare a workspace"),
    entry("POST", "/api/v1/sessions/{session}/end", Operate, AtOrBelow, "end a session"),
    entry("POST", "/api/v1/sessions/{session}/end-turn", Operate, AtOrBelow, "end a turn"),
    entry("POST", "/api/v1/sessions/{session}/fork", Operate, Nothing, "fork a session"),
    entry("POST", "/api/v1/sessions/{session}/handoff", Operate, AtOrBelow, "hand over"),
    run_only("POST", "/api/v1/sessions/{session}/hook", "call a hook of"),
    entry("POST", "/api/v1/sessions/{session}/interrupt", Operate, AtOrBelow, "interrupt a session"),
    entry("POST", "/api/v1/sessions/{session}/kill", Operate, AtOrBelow, "kill a session"),
    entry("POST", "/api/v1/sessions/{session}/merge", Operate, AtOrBelow, "merge"),
    entry("GET", "/api/v1/sessions/{session}/receipts", Read, InProject, "list receipts"),
    with_right(entry("POST", "/api/v1/sessions/{session}/restore", Operate, AtOrBelow, "restore a session")),
    entry("GET", "/api/v1/sessions/{session}/screen", Read, InProject, "look at a screen"),
    entry("POST", "/api/v1/sessions/{session}/send", Operate, InProject, "send a message"),
    entry("GET", "/api/v1/sessions/{session}/summary", Read, InProject, "show a summary"),
    entry("PUT", "/api/v1/sessions/{session}/summary", Operate, AtOrBelow, "record a summary"),
    on_unix(entry("GET", "/api/v1/sessions/{session}/terminal", Operate, AtOrBelow, "find a terminal")),
    entry("GET", "/api/v1/sessions/{session}/transcript", Read, InProject, "read a transcript"),
    entry("POST", "/api/v1/sessions/{session}/transcript", Operate, OwnSession, "append to a transcript"),
    entry("POST", "/api/v1/sessions/{session}/transcript/compact", Operate, OwnSession, "compact a transcript"),
    entry("POST", "/api/v1/sessions/{session}/transcript/deltas", Operate, OwnSession, "stream a message"),
    entry("GET", "/api/v1/sessions/{session}/transcript/export", Read, InProject, "export a transcript"),
    entry("POST", "/api/v1/sessions/{session}/transcript/flush", Operate, Nothing, "flush a transcript"),
    entry("POST", "/api/v1/sessions/{session}/transcript/hydrate", Operate, Nothing, "hydrate a transcript"),
    entry("POST", "/api/v1/sessions/{session}/transcript/import", Operate, Nothing, "import a transcript"),
    entry("POST", "/api/v1/sessions/{session}/transcript/repair", Operate, OwnSession, "repair a transcript"),
    entry("POST", "/api/v1/sessions/{session}/transcript/reply", Operate, OwnSession, "begin a reply"),
    entry("POST", "/api/v1/sessions/{session}/transcript/rewind", Operate, Nothing, "rewind a transcript"),
    entry("GET", "/api/v1/sessions/{session}/transcript/state", Read, InProject, "read a transcript's state"),
    entry("PUT", "/api/v1/sessions/{session}/transcript/state", Operate, OwnSession, "change a transcript's state"),
    entry("GET", "/api/v1/sessions/{session}/transcript/usage", Read, InProject, "read a transcript's usage"),
    entry("GET", "/api/v1/sessions/{session}/tree", Read, InProject, "show a tree"),
    entry("GET", "/api/v1/sessions/{session}/why", Read, InProject, "explain a status"),
    entry("POST", "/api/v1/sessions/{session}/withdraw", Operate, AtOrBelow, "withdraw a question"),
    entry("GET", "/api/v1/threads", Read, InProject, "list threads"),
    entry("POST", "/api/v1/threads", Operate, Nothing, "open a thread"),
    entry("GET", "/api/v1/threads/{thread}", Read, InProject, "show a thread"),
    entry("DELETE", "/api/v1/threads/{thread}", Operate, Nothing, "delete a thread"),
    entry("POST", "/api/v1/threads/{thread}/archive", Operate, Nothing, "archive a thread"),
    entry("POST", "/api/v1/threads/{thread}/reopen", Operate, Nothing, "reopen a thread"),
    entry("GET", "/api/v1/tokens", Admin, Nothing, "list tokens"),
    with_right(entry("POST", "/api/v1/tokens", Admin, Nothing, "make a token")),
    entry("DELETE", "/api/v1/tokens/{token}", Admin, Nothing, "revoke a token"),
    entry("GET", "/api/v1/transcripts/search", Read, InProject, "search transcripts"),
];

/// The route of a request, as far as access depends on it.
pub(crate) enum RequestedRoute {
    /// A route of ours.
    Route(&'static AccessRule),
    /// No route, or none with this method: the answer reveals nothing.
    Nowhere,
}

/// The entry of the route that `request` was matched with. A route without one is a bug, and is refused.
pub(crate) fn asked(request: &Request) -> Result<RequestedRoute, ApiError> {
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        return Ok(RequestedRoute::Nowhere);
    };
    // A caller who may read a thing may ask whether it is there.
    let method = match *request.method() {
        Method::HEAD => &Method::GET,
        ref method => method,
    };
    let mut same_path = TABLE.iter().filter(|e| e.path == path.as_str()).peekable();
    if same_path.peek().is_none() {
        return Err(ApiError::new(
            Kind::Refused,
            "this call has no entry in the access table",
            &[],
        ));
    }
    Ok(same_path
        .find(|e| e.method == method.as_str())
        .map_or(RequestedRoute::Nowhere, RequestedRoute::Route))
}

/// Refuses a call that `caller` may not make; otherwise gives the caller as it is served.
pub(crate) async fn check(
    app: &App,
    entry: &AccessRule,
    peer: Peer,
    caller: Caller,
    parts: &mut Parts,
) -> Result<Caller, ApiError> {
    if entry.transport == Transport::Unix && peer != Peer::Unix {
        let message = format!("only the Unix socket lets a caller {}", entry.access.op);
        let hints = ["run `skein` as the daemon's user, on its machine"];
        return Err(ApiError::new(Kind::Refused, message, &hints));
    }
    let session = session_of(app, parts).await?;
    let requests = app
        .fleet()
        .ledger()
        .requests(caller)
        .authorize(&entry.access, session);
    Ok(requests.await?.into_caller())
}

/// The session that the path names.
async fn session_of(app: &App, parts: &mut Parts) -> Result<Option<String>, ApiError> {
    let params = RawPathParams::from_request_parts(parts, app)
        .await
        .map_err(|e| ApiError::misuse(e.body_text(), &[]))?;
    Ok(params
        .iter()
        .find(|(name, _)| *name == "session")
        .map(|(_, value)| value.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    /// The table as people read it.
    fn rendered() -> String {
        let mut out = String::from(INTRODUCTION);
        for entry in TABLE {
            let access = &entry.access;
            let role = access.role.map_or("-", Role::as_str);
            let right = access.right.map_or("-", Right::as_str);
            let on = match entry.transport {
                Transport::Any => "any",
                Transport::Unix => "Unix socket",
            };
            let (method, path, run) = (entry.method, entry.path, access.run.as_str());
            let _ = writeln!(
                out,
                "| {method} | `{path}` | {role} | {run} | {right} | {on} |"
            );
        }
        out
    }

    const INTRODUCTION: &str = "\
# Who may call what

Generated from the table that the daemon checks before it does anything else
(`crates/skein-server/src/access.rs`); a test keeps the two equal.

- **role**: the narrowest role of a token that may call. The machine's own user on the Unix socket is `admin`. `-`: no
  role will do, only the credential of the session's own current run.
- **run credential**: what an agent may call it for: `project` (records of its own project), `at or below` (its own
  session and those below it), `own session`, or nothing.
- **right**: the right that widens the call, if the caller has it. `run` lets a caller choose programs to start; without
  it only agents named in `daemon.token_agents` start, as the project sets them up. No role includes a right.
- **on**: where it is served.

`/healthz` and `/readyz` answer everybody and tell nothing else.

| method | path | role | run credential | right | on |
|---|---|---|---|---|---|
";

    #[test]
    fn l15_the_access_table_is_the_one_agreed_on() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/access.md");
        let table = rendered();
        #[expect(clippy::disallowed_methods, reason = "tests have no settings file")]
        if std::env::var_os("SKEIN_BLESS").is_some() {
            std::fs::write(&path, &table).unwrap();
        }
        let agreed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            agreed == table,
            "access has changed; if that is meant, run this test with SKEIN_BLESS=1 and commit docs/access.md"
        );
    }

    #[test]
    fn l15_every_route_has_exactly_one_entry() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let mut routes = BTreeSet::from([("GET".to_owned(), "/api/v1/openapi.json".to_owned())]);
        for (path, operations) in document["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                if !matches!(path.as_str(), "/healthz" | "/readyz") {
                    routes.insert((method.to_uppercase(), path.clone()));
                }
            }
        }
        let entries: BTreeSet<_> = TABLE
            .iter()
            .map(|e| (e.method.to_owned(), e.path.to_owned()))
            .collect();
        assert_eq!(entries, routes);
        assert_eq!(entries.len(), TABLE.len(), "an entry stands there twice");
    }
}
