use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use skein_ledger::project::{AddProject, ProjectUpdate};
use skein_wire as wire;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{optional, page};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{ChangeRequest, EmptyBody, IdempotencyHeader, Path, Query, ReadRequest};
use crate::render;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(get, set, remove))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    cursor: Option<String>,
    /// Only the project whose folder is this absolute path, or the nearest one around it.
    path: Option<String>,
}

/// Lists the projects, oldest first.
#[utoipa::path(get, path = "/api/v1/projects", tag = "projects", params(ListQuery),
    responses((status = 200, body = wire::List<wire::Project>), (status = "default", body = wire::ErrorBody)))]
async fn list(
    ReadRequest(requests): ReadRequest,
    Query(query): Query<ListQuery>,
) -> Result<Json<wire::List<wire::Project>>, ApiError> {
    let tenant = requests.ledger.tenant().clone();
    let page = match query.path {
        Some(path) => {
            let found = requests.ledger.projects().around(path).await?;
            skein_store::RecordPage {
                items: found.into_iter().collect(),
                damaged: vec![],
                next: None,
            }
        }
        None => {
            let (after, limit) = page(query.cursor.as_deref(), query.limit)?;
            requests.ledger.projects().list(after, limit).await?
        }
    };
    Ok(Json(render::list(page, |p| render::project(&tenant, p))))
}

/// Adds a project. A folder belongs to at most one.
#[utoipa::path(post, path = "/api/v1/projects", tag = "projects", request_body = wire::AddProject,
    params(IdempotencyHeader),
    responses((status = 201, body = wire::Project), (status = "default", body = wire::ErrorBody)))]
async fn add(
    ChangeRequest(requests, body): ChangeRequest<wire::AddProject>,
) -> Result<Response, ApiError> {
    let add = AddProject {
        name: optional(body.name)?,
        path: body.path,
        prefix: optional(body.prefix)?,
        settings: ProjectUpdate {
            depth: body.depth,
            width: body.width,
            idle_ttl_seconds: body.idle_ttl_seconds,
            max_ended: body.max_ended,
        },
    };
    let answer = requests.ledger.projects().add(add).await?;
    Ok(render::answer(StatusCode::CREATED, &requests, answer))
}

/// Shows a project, found by id, unique beginning of its id, or name.
#[utoipa::path(get, path = "/api/v1/projects/{project}", tag = "projects", params(("project" = String, Path)),
    responses((status = 200, body = wire::Project), (status = "default", body = wire::ErrorBody)))]
async fn get(
    ReadRequest(requests): ReadRequest,
    Path(project): Path<String>,
) -> Result<Json<wire::Project>, ApiError> {
    let found = requests.ledger.projects().get(project).await?;
    Ok(Json(render::project(requests.ledger.tenant(), &found)))
}

/// Changes a project's limits and retention.
#[utoipa::path(patch, path = "/api/v1/projects/{project}", tag = "projects", request_body = wire::SetProject,
    params(("project" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Project), (status = "default", body = wire::ErrorBody)))]
async fn set(
    Path(project): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::SetProject>,
) -> Result<Response, ApiError> {
    let settings = ProjectUpdate {
        depth: body.depth,
        width: body.width,
        idle_ttl_seconds: body.idle_ttl_seconds,
        max_ended: body.max_ended,
    };
    let answer = requests
        .ledger
        .projects()
        .set(project, body.expect_version, settings)
        .await?;
    Ok(render::answer(StatusCode::OK, &requests, answer))
}

/// Forgets a project whose threads are all archived or deleted; its sessions stay readable.
#[utoipa::path(delete, path = "/api/v1/projects/{project}", tag = "projects",
    params(("project" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Project), (status = "default", body = wire::ErrorBody)))]
async fn remove(
    Path(project): Path<String>,
    ChangeRequest(requests, EmptyBody {}): ChangeRequest<EmptyBody>,
) -> Result<Response, ApiError> {
    let answer = requests.ledger.projects().remove(project).await?;
    Ok(render::answer(StatusCode::OK, &requests, answer))
}
