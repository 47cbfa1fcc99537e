//! Agents at work: messages to them, what they show, what they changed, what is left of them.

use axum::Json;
use axum::response::Response;
use serde::Deserialize;
use skein_fleet::{GcOptions, Hook};
use skein_wire as wire;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::session::ok;
use super::{PageQuery, page};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{
    ChangeRequest, IdempotencyHeader, MOST_MESSAGE, Path, Query, ReadRequest, UnkeyedRequest,
};
use crate::render;

/// What ended less than a day ago may still be looked at.
const ENDED_FOR: u64 = 24 * 3600;
const BACKUPS_OLDER_THAN: u64 = 30 * 24 * 3600;
/// Longest payload of a hook.
const MOST_PAYLOAD: usize = 1024 * 1024;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(send))
        .routes(routes!(interrupt))
        .routes(routes!(hook))
        .routes(routes!(screen))
        .routes(routes!(terminal))
        .routes(routes!(diff))
        .routes(routes!(why))
        .routes(routes!(receipts))
        .routes(routes!(receipt))
        .routes(routes!(gc))
        .routes(routes!(agents))
}

/// Stores a message for the session; its receipt shows the state of its delivery.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/send", tag = "fleet", request_body = wire::Send,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Receipt), (status = "default", body = wire::ErrorBody)))]
async fn send(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Send, MOST_MESSAGE>,
) -> Result<Response, ApiError> {
    let answer = requests
        .send(session, body.text.parse()?, body.from)
        .await?;
    ok(&requests, answer)
}

/// Interrupts the current turn; the session continues.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/interrupt", tag = "fleet", request_body = Option<wire::Interrupt>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn interrupt(
    Path(session): Path<String>,
    ChangeRequest(requests, wire::Interrupt {}): ChangeRequest<wire::Interrupt>,
) -> Result<Response, ApiError> {
    ok(&requests, requests.interrupt(session).await?)
}

/// Tells what the agent's own hook says. What an earlier run says is not heard.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/hook", tag = "fleet", request_body = wire::Hook,
    params(("session" = String, Path)),
    responses((status = 200, body = wire::HookTaken), (status = "default", body = wire::ErrorBody)))]
async fn hook(
    Path(session): Path<String>,
    UnkeyedRequest(requests, body): UnkeyedRequest<wire::Hook, MOST_MESSAGE>,
) -> Result<Json<wire::HookTaken>, ApiError> {
    if body.payload.len() > MOST_PAYLOAD {
        let message = format!("the payload is larger than {MOST_PAYLOAD} bytes");
        return Err(ApiError::misuse(message, &[]));
    }
    requests
        .hook(Hook {
            session,
            run: body.run,
            event: body.event,
            payload: body.payload,
        })
        .await?;
    Ok(Json(wire::HookTaken { ok: true }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ScreenQuery {
    /// Try every rule of the agent on it, and tell what each made of it.
    #[serde(default)]
    explain: bool,
}

/// Shows what the terminal shows.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/screen", tag = "fleet",
    params(("session" = String, Path), ScreenQuery),
    responses((status = 200, body = wire::Screen), (status = "default", body = wire::ErrorBody)))]
async fn screen(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
    Query(query): Query<ScreenQuery>,
) -> Result<Json<wire::Screen>, ApiError> {
    let (seen, explanation) = if query.explain {
        let explained = requests.explain_screen(session).await?;
        let explanation = render::screen_explanation(&explained);
        (explained.screen, Some(explanation))
    } else {
        (requests.screen(session).await?, None)
    };
    Ok(Json(wire::Screen {
        cursor: wire::Cursor {
            row: seen.cursor.0,
            column: seen.cursor.1,
        },
        rows: seen.rows,
        bracketed_paste: seen.bracketed_paste,
        bytes: seen.bytes,
        explanation,
    }))
}

/// Tells where the terminal is to be found on this machine. On the Unix socket only.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/terminal", tag = "fleet", params(("session" = String, Path)),
    responses((status = 200, body = wire::TerminalAddress), (status = "default", body = wire::ErrorBody)))]
async fn terminal(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
) -> Result<Json<wire::TerminalAddress>, ApiError> {
    Ok(Json(render::terminal(&requests.terminal(session).await?)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DiffQuery {
    /// Only which files, and how much.
    #[serde(default)]
    stat: bool,
}

/// Shows what the session changed since its branch began, files not committed included.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/diff", tag = "fleet", params(("session" = String, Path), DiffQuery),
    responses((status = 200, body = wire::Diff), (status = "default", body = wire::ErrorBody)))]
async fn diff(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
    Query(query): Query<DiffQuery>,
) -> Result<Json<wire::Diff>, ApiError> {
    let session = requests.ledger.sessions().get(session).await?;
    let session = session.id.to_string();
    let diff = requests.diff(session.clone(), query.stat).await?;
    Ok(Json(wire::Diff {
        session,
        stat: query.stat,
        diff,
    }))
}

/// Shows the facts behind the session's status.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/why", tag = "fleet", params(("session" = String, Path)),
    responses((status = 200, body = wire::Why), (status = "default", body = wire::ErrorBody)))]
async fn why(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
) -> Result<Json<wire::Why>, ApiError> {
    let why = requests.why(session).await?;
    let screen = requests.explain_status(&why.session).await;
    Ok(Json(render::why(&requests, &why, screen.as_ref())))
}

/// Lists the receipts of a session's messages, newest first.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/receipts", tag = "fleet",
    params(("session" = String, Path), PageQuery),
    responses((status = 200, body = wire::List<wire::Receipt>), (status = "default", body = wire::ErrorBody)))]
async fn receipts(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<wire::List<wire::Receipt>>, ApiError> {
    let (after, limit) = page(query.cursor.as_deref(), query.limit)?;
    let messages = requests.ledger.messages();
    let page = messages.receipts(session, after, limit).await?;
    Ok(Json(render::list(page, render::receipt)))
}

/// Shows how far a message came.
#[utoipa::path(get, path = "/api/v1/receipts/{receipt}", tag = "fleet", params(("receipt" = String, Path)),
    responses((status = 200, body = wire::Receipt), (status = "default", body = wire::ErrorBody)))]
async fn receipt(
    ReadRequest(requests): ReadRequest,
    Path(receipt): Path<String>,
) -> Result<Json<wire::Receipt>, ApiError> {
    let found = requests.ledger.messages().receipt(receipt).await?;
    Ok(Json(render::receipt(&found)))
}

/// Removes what ended sessions left behind, or reports what it would remove.
#[utoipa::path(post, path = "/api/v1/gc", tag = "fleet", request_body = Option<wire::Gc>, params(IdempotencyHeader),
    responses((status = 200, body = wire::GcReport), (status = "default", body = wire::ErrorBody)))]
async fn gc(ChangeRequest(requests, body): ChangeRequest<wire::Gc>) -> Result<Response, ApiError> {
    let options = GcOptions {
        dry_run: body.dry_run,
        ended_for_seconds: body.ended_for_seconds.unwrap_or(ENDED_FOR),
        backups_older_than_seconds: body
            .backups_older_than_seconds
            .unwrap_or(BACKUPS_OLDER_THAN),
        discard: body.discard,
    };
    ok(&requests, requests.gc(options).await?)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AgentsQuery {
    /// The project whose settings hold; none: only what is built in.
    project: Option<String>,
    /// Where programs are looked for, as in PATH; default: the daemon's.
    path: Option<String>,
}

/// Lists the agents that can be started.
#[utoipa::path(get, path = "/api/v1/agents", tag = "fleet", params(AgentsQuery),
    responses((status = 200, body = wire::List<wire::Agent>), (status = "default", body = wire::ErrorBody)))]
async fn agents(
    ReadRequest(requests): ReadRequest,
    Query(query): Query<AgentsQuery>,
) -> Result<Json<wire::List<wire::Agent>>, ApiError> {
    let agents = requests.agents(query.project, query.path).await?;
    Ok(Json(wire::List {
        data: agents.iter().map(render::agent).collect(),
        next: None,
    }))
}
