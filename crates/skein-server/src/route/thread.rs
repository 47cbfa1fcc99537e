use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use skein_domain::Invalid;
use skein_ledger::thread::ThreadFilter;
use skein_wire as wire;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::page;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{ChangeRequest, EmptyBody, IdempotencyHeader, Path, Query, ReadRequest};
use crate::render;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, new))
        .routes(routes!(get, delete))
        .routes(routes!(archive))
        .routes(routes!(reopen))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    project: Option<String>,
    /// `open` (default), `archived` or `all`.
    state: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Lists threads, newest first.
#[utoipa::path(get, path = "/api/v1/threads", tag = "threads", params(ListQuery),
    responses((status = 200, body = wire::List<wire::Thread>), (status = "default", body = wire::ErrorBody)))]
async fn list(
    ReadRequest(requests): ReadRequest,
    Query(query): Query<ListQuery>,
) -> Result<Json<wire::List<wire::Thread>>, ApiError> {
    let open = match query.state.as_deref() {
        None | Some("open") => Some(true),
        Some("archived") => Some(false),
        Some("all") => None,
        Some(other) => {
            return Err(
                Invalid::new("state", other, "expected `open`, `archived` or `all`").into(),
            );
        }
    };
    let filter = ThreadFilter {
        project: query.project,
        open,
    };
    let (after, limit) = page(query.cursor.as_deref(), query.limit)?;
    let page = requests.ledger.threads().list(filter, after, limit).await?;
    Ok(Json(render::list(page, |t| {
        render::thread(requests.ledger.tenant(), t)
    })))
}

/// Opens a thread in a project.
#[utoipa::path(post, path = "/api/v1/threads", tag = "threads", request_body = wire::NewThread,
    params(IdempotencyHeader),
    responses((status = 201, body = wire::Thread), (status = "default", body = wire::ErrorBody)))]
async fn new(
    ChangeRequest(requests, body): ChangeRequest<wire::NewThread>,
) -> Result<Response, ApiError> {
    let answer = requests
        .ledger
        .threads()
        .open(body.project, body.title.parse()?)
        .await?;
    Ok(render::answer(StatusCode::CREATED, &requests, answer))
}

/// Shows a thread.
#[utoipa::path(get, path = "/api/v1/threads/{thread}", tag = "threads", params(("thread" = String, Path)),
    responses((status = 200, body = wire::Thread), (status = "default", body = wire::ErrorBody)))]
async fn get(
    ReadRequest(requests): ReadRequest,
    Path(thread): Path<String>,
) -> Result<Json<wire::Thread>, ApiError> {
    let found = requests.ledger.threads().get(thread).await?;
    Ok(Json(render::thread(requests.ledger.tenant(), &found)))
}

/// Deletes a thread that has no sessions. Repeating it changes nothing.
#[utoipa::path(delete, path = "/api/v1/threads/{thread}", tag = "threads",
    params(("thread" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Thread), (status = "default", body = wire::ErrorBody)))]
async fn delete(
    Path(thread): Path<String>,
    ChangeRequest(requests, EmptyBody {}): ChangeRequest<EmptyBody>,
) -> Result<Response, ApiError> {
    let answer = requests.ledger.threads().delete(thread).await?;
    Ok(render::answer(StatusCode::OK, &requests, answer))
}

/// Archives a thread on which no session works. Repeating it changes nothing.
#[utoipa::path(post, path = "/api/v1/threads/{thread}/archive", tag = "threads",
    params(("thread" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Thread), (status = "default", body = wire::ErrorBody)))]
async fn archive(
    Path(thread): Path<String>,
    ChangeRequest(requests, EmptyBody {}): ChangeRequest<EmptyBody>,
) -> Result<Response, ApiError> {
    let answer = requests.ledger.threads().archive(thread).await?;
    Ok(render::answer(StatusCode::OK, &requests, answer))
}

/// Opens an archived thread again.
#[utoipa::path(post, path = "/api/v1/threads/{thread}/reopen", tag = "threads",
    params(("thread" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Thread), (status = "default", body = wire::ErrorBody)))]
async fn reopen(
    Path(thread): Path<String>,
    ChangeRequest(requests, EmptyBody {}): ChangeRequest<EmptyBody>,
) -> Result<Response, ApiError> {
    let answer = requests.ledger.threads().reopen(thread).await?;
    Ok(render::answer(StatusCode::OK, &requests, answer))
}
