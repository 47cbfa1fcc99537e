//! The door: where a request comes from, and which caller it is served as (L15).
//!
//! On the Unix socket the file's mode and the peer's user id have already decided: the machine's user is
//! admin and may name tenant and actor. A caller who presents a run's credential there is scoped by it. On TCP a
//! bearer token or credential decides, and Host and Origin are checked so that no web page a person visits can
//! speak to the daemon. Then the route's entry in the access table is checked, before the body is read.

use std::fmt;
use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use skein_domain::{Kind, Refused, Rights, TenantId};
use skein_ledger::Caller;
use skein_wire::{ACTOR_HEADER, TENANT_HEADER};

use crate::access::{self, RequestedRoute};
use crate::app::App;
use crate::error::ApiError;
use crate::serve::Admission;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The machine's own user.
    Unix,
    /// A client on loopback; `local` is the address it connected to.
    Tcp { local: SocketAddr },
}

/// The token that a remote caller presented, for answers that stay open: it may be revoked meanwhile.
#[derive(Clone)]
pub(crate) struct StreamToken(String);

impl fmt::Debug for StreamToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamToken(…)")
    }
}

impl StreamToken {
    pub(crate) async fn is_valid(&self, app: &App) -> bool {
        app.fleet().ledger().authenticate(&self.0).await.is_ok()
    }
}

/// Paths that answer without a token: they show only that the daemon runs.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

pub(crate) async fn authenticate(State(app): State<App>, request: Request, next: Next) -> Response {
    // A connection without a peer would be a bug in `serve`; it is refused like an unauthenticated one.
    let Some(peer) = request.extensions().get::<Peer>().copied() else {
        let why = "the connection has no known origin";
        return ApiError::from(Refused::Unauthorized { why }).into_response();
    };
    if let Peer::Tcp { local } = peer
        && let Err(error) = check_host(request.uri(), request.headers(), local)
    {
        return error.into_response();
    }
    if OPEN.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    match admit(&app, peer, request).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Identifies the caller and checks the access table; the handler finds the caller in the request.
async fn admit(app: &App, peer: Peer, request: Request) -> Result<Request, ApiError> {
    let (caller, token) = identify(app, peer, request.headers()).await?;
    if let Some(admission) = request.extensions().get::<Admission>() {
        admission.grant(caller.holder());
    }
    let asked = access::asked(&request)?;
    let (mut parts, body) = request.into_parts();
    let caller = match asked {
        RequestedRoute::Route(entry) => access::check(app, entry, peer, caller, &mut parts).await?,
        RequestedRoute::Nowhere => caller,
    };
    parts.extensions.insert(caller);
    if let Some(token) = token {
        parts.extensions.insert(token);
    }
    Ok(Request::from_parts(parts, body))
}

async fn identify(
    app: &App,
    peer: Peer,
    headers: &HeaderMap,
) -> Result<(Caller, Option<StreamToken>), ApiError> {
    let presented = text(headers, header::AUTHORIZATION.as_str())?.is_some();
    match peer {
        Peer::Unix if !presented => Ok((local(app, headers)?, None)),
        Peer::Unix | Peer::Tcp { .. } => {
            let (mut caller, token) = by_bearer(app, headers).await?;
            if caller.scope.is_some() {
                // On the Unix socket an agent runs as the daemon's user; over TCP it may run in a sandbox.
                caller.local = peer == Peer::Unix;
                if !caller.local {
                    caller.rights = Rights::default();
                }
            }
            Ok((caller, Some(token)))
        }
    }
}

fn local(app: &App, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let tenant = match text(headers, TENANT_HEADER)? {
        Some(name) => name.parse()?,
        None => TenantId::default_tenant(),
    };
    let actor = match text(headers, ACTOR_HEADER)? {
        Some(name) => name.parse()?,
        None => app.options().user.clone(),
    };
    Ok(Caller::local(tenant, actor))
}

async fn by_bearer(app: &App, headers: &HeaderMap) -> Result<(Caller, StreamToken), ApiError> {
    let bearer = text(headers, header::AUTHORIZATION.as_str())?
        .and_then(|value| value.strip_prefix("Bearer "))
        .ok_or(Refused::Unauthorized {
            why: "a bearer token is needed",
        })?
        .trim();
    let caller = app.fleet().ledger().authenticate(bearer).await?;
    match text(headers, TENANT_HEADER)? {
        Some(named) if named != caller.tenant.as_str() => Err(Refused::Unauthorized {
            why: "the token is not for this tenant",
        }
        .into()),
        _ => Ok((caller, StreamToken(bearer.to_owned()))),
    }
}

/// Refuses a foreign host name that resolves to loopback (DNS rebinding), and pages of other origins.
fn check_host(uri: &Uri, headers: &HeaderMap, local: SocketAddr) -> Result<(), ApiError> {
    let port = local.port();
    let ours = [
        local.to_string(),
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
    ];
    let foreign = |what: &str, value: &str| {
        ApiError::new(
            Kind::Refused,
            format!("{what} `{}` is not this daemon's", value.escape_debug()),
            &["use the address that `skein daemon status` shows"],
        )
        .with_status(StatusCode::FORBIDDEN)
    };
    let is_ours = |host: &str| ours.iter().any(|o| o.eq_ignore_ascii_case(host));
    match text(headers, header::HOST.as_str())? {
        Some(host) if is_ours(host) => {}
        host => return Err(foreign("host", host.unwrap_or(""))),
    }
    // A request line that names a host outranks the header.
    if let Some(named) = uri.authority().filter(|a| !is_ours(a.as_str())) {
        return Err(foreign("host", named.as_str()));
    }
    match text(headers, header::ORIGIN.as_str())? {
        None => Ok(()),
        Some(origin)
            if ours
                .iter()
                .any(|o| origin.eq_ignore_ascii_case(&format!("http://{o}"))) =>
        {
            Ok(())
        }
        Some(origin) => Err(foreign("origin", origin)),
    }
}

/// A header's text. Fails if it is there twice or is not text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(ApiError::misuse(
                format!("header `{name}` is not plain text"),
                &[],
            )),
        },
        (Some(_), Some(_)) => Err(ApiError::misuse(
            format!("header `{name}` is given twice"),
            &[],
        )),
    }
}
