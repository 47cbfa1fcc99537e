use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use skein_domain::{Deliverable, Invalid, SummaryOutcome};
use skein_ledger::summary::NewSummary;
use skein_wire as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{ChangeRequest, IdempotencyHeader, Path, ReadRequest};
use crate::render;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get, set))
}

/// Shows what a session left behind.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/summary", tag = "sessions", params(("session" = String, Path)),
    responses((status = 200, body = wire::Summary), (status = "default", body = wire::ErrorBody)))]
async fn get(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
) -> Result<Json<wire::Summary>, ApiError> {
    Ok(Json(render::summary(
        &requests.ledger.sessions().summary(session).await?,
    )))
}

/// Records what a session leaves behind: once, and for good.
#[utoipa::path(put, path = "/api/v1/sessions/{session}/summary", tag = "sessions", request_body = wire::SetSummary,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Summary), (status = "default", body = wire::ErrorBody)))]
async fn set(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::SetSummary>,
) -> Result<Response, ApiError> {
    let word = body.outcome.as_deref().unwrap_or("succeeded");
    let new = NewSummary {
        outcome: SummaryOutcome::parse(word).ok_or_else(|| {
            Invalid::new(
                "outcome",
                word,
                "expected `succeeded`, `partial` or `failed`",
            )
        })?,
        text: body.text,
        key_decisions: body.key_decisions,
        deliverables: body
            .deliverables
            .into_iter()
            .map(deliverable)
            .collect::<Result<_, Invalid>>()?,
        based_on: body.based_on,
    };
    let answer = requests.ledger.sessions().set_summary(session, new).await?;
    Ok(render::answer(StatusCode::OK, &requests, answer))
}

fn deliverable(d: wire::Deliverable) -> Result<Deliverable, Invalid> {
    Ok(match d {
        wire::Deliverable::File { path, sha256, size } => Deliverable::File { path, sha256, size },
        wire::Deliverable::Message { session, message } => Deliverable::Message {
            session: session.parse()?,
            message,
        },
        wire::Deliverable::Summary { session } => Deliverable::Summary {
            session: session.parse()?,
        },
        wire::Deliverable::Blob {
            reference,
            media_type,
        } => Deliverable::Blob {
            reference,
            media_type,
        },
    })
}
