use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use skein_domain::Kind;
use skein_fleet::FleetRequests;
use skein_ledger::{Answer, RequestOutcome};
use skein_wire as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::{ChangeRequest, EmptyBody, ReadRequest};
use crate::render;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(status))
        .routes(routes!(stop))
        .routes(routes!(retention))
}

/// Answers while the process lives.
#[utoipa::path(get, path = "/healthz", tag = "daemon", responses((status = 200, body = wire::Health)))]
async fn healthz() -> Json<wire::Health> {
    Json(wire::Health { ok: true })
}

/// Answers once the store is open and what a crash left was cleared up; nothing is served before.
#[utoipa::path(get, path = "/readyz", tag = "daemon",
    responses((status = 200, body = wire::Health), (status = "default", body = wire::ErrorBody)))]
async fn readyz(State(app): State<App>) -> Result<Json<wire::Health>, ApiError> {
    app.fleet().ledger().tenants()?;
    Ok(Json(wire::Health { ok: true }))
}

/// Shows who serves.
#[utoipa::path(get, path = "/api/v1/daemon", tag = "daemon",
    responses((status = 200, body = wire::DaemonStatus), (status = "default", body = wire::ErrorBody)))]
async fn status(
    State(app): State<App>,
    ReadRequest(requests): ReadRequest,
) -> Result<Json<wire::DaemonStatus>, ApiError> {
    describe(&app, &requests).await
}

async fn describe(
    app: &App,
    requests: &FleetRequests,
) -> Result<Json<wire::DaemonStatus>, ApiError> {
    Ok(Json(wire::DaemonStatus {
        pid: std::process::id(),
        version: app.options().version.clone(),
        uptime_s: app.uptime().as_secs(),
        sessions: requests.ledger.sessions().count_live().await?,
        socket: app.options().socket.display().to_string(),
        listen: app.options().listen.map(|a| a.to_string()),
    }))
}

/// Stops the daemon in order. On the Unix socket only.
#[utoipa::path(post, path = "/api/v1/daemon/stop", tag = "daemon",
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = wire::DaemonStatus), (status = "default", body = wire::ErrorBody)))]
async fn stop(
    State(app): State<App>,
    ChangeRequest(requests, EmptyBody {}): ChangeRequest<EmptyBody>,
) -> Result<Response, ApiError> {
    let Json(status) = describe(&app, &requests).await?;
    let body = serde_json::to_value(status).unwrap_or_default();
    let answer = match requests
        .ledger
        .acknowledge("stop the daemon", body.clone())
        .await
    {
        // A daemon whose disk is full stops anyway.
        Err(error) if error.kind() == Kind::Unavailable => {
            Answer::Fresh(RequestOutcome::Rendered(body))
        }
        answer => answer?,
    };
    // An earlier daemon answered the repeated request and has stopped; the request did not mean this one.
    if matches!(answer, Answer::Fresh(_)) {
        app.ask_stop();
    }
    Ok(render::answer(StatusCode::OK, &requests, answer))
}

/// Applies every project's retention now, instead of at the next sweep.
#[utoipa::path(post, path = "/api/v1/retention/run", tag = "daemon",
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = wire::RetentionReport), (status = "default", body = wire::ErrorBody)))]
async fn retention(
    ChangeRequest(requests, EmptyBody {}): ChangeRequest<EmptyBody>,
) -> Result<Response, ApiError> {
    let answer = requests.ledger.retention().run().await?;
    Ok(render::answer(StatusCode::OK, &requests, answer))
}
