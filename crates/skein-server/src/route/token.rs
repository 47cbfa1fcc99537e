use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use skein_domain::{Invalid, Right, Rights, Role};
use skein_ledger::token::NewToken;
use skein_wire as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{PageQuery, optional, page};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{ChangeRequest, EmptyBody, IdempotencyHeader, Path, Query, ReadRequest};
use crate::render;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, new))
        .routes(routes!(revoke))
}

/// Lists the tenant's tokens, newest first; never their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", params(PageQuery),
    responses((status = 200, body = wire::List<wire::Token>), (status = "default", body = wire::ErrorBody)))]
async fn list(
    ReadRequest(requests): ReadRequest,
    Query(query): Query<PageQuery>,
) -> Result<Json<wire::List<wire::Token>>, ApiError> {
    let (after, limit) = page(query.cursor.as_deref(), query.limit)?;
    let page = requests.ledger.tokens().list(after, limit).await?;
    Ok(Json(render::list(page, |t| {
        render::token(requests.ledger.tenant(), t)
    })))
}

/// Makes a token. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = wire::NewToken,
    params(IdempotencyHeader),
    responses((status = 201, body = wire::TokenSecret), (status = "default", body = wire::ErrorBody)))]
async fn new(
    ChangeRequest(requests, body): ChangeRequest<wire::NewToken>,
) -> Result<Response, ApiError> {
    let word = body.role.as_deref().unwrap_or("operate");
    let role = Role::parse(word)
        .ok_or_else(|| Invalid::new("role", word, "expected `read`, `operate` or `admin`"))?;
    let new = NewToken {
        name: body.name.parse()?,
        role,
        rights: rights(&body.allow)?,
        actor: optional(body.actor)?,
        expires_in_seconds: body.expires_in_seconds,
    };
    let answer = requests.ledger.tokens().create(new).await?;
    Ok(render::answer(StatusCode::CREATED, &requests, answer))
}

fn rights(words: &[String]) -> Result<Rights, Invalid> {
    words
        .iter()
        .map(|word| Right::parse(word).ok_or_else(|| Invalid::new("right", word, "expected `run`")))
        .collect()
}

/// Revokes a token at once.
#[utoipa::path(delete, path = "/api/v1/tokens/{token}", tag = "tokens",
    params(("token" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Token), (status = "default", body = wire::ErrorBody)))]
async fn revoke(
    Path(token): Path<String>,
    ChangeRequest(requests, EmptyBody {}): ChangeRequest<EmptyBody>,
) -> Result<Response, ApiError> {
    let answer = requests.ledger.tokens().revoke(token).await?;
    Ok(render::answer(StatusCode::OK, &requests, answer))
}
