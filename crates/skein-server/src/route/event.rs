use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use skein_domain::{Invalid, TenantId};
use skein_fleet::FleetRequests;
use skein_ledger::events::EventFollower;
use skein_wire as wire;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::limit;
use crate::app::App;
use crate::door::{StreamToken, text};
use crate::error::ApiError;
use crate::extract::{ChangeRequest, IdempotencyHeader, Query, ReadRequest};
use crate::render;
use crate::serve::EndlessAnswer;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(verify))
        .routes(routes!(seal))
}

const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Events after this number; as a stream, left out, only new ones.
    since: Option<u64>,
    session: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Reads events, or follows them with `Accept: text/event-stream`; `Last-Event-ID` resumes a stream.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(ListQuery, ("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, content((wire::List<wire::Event> = "application/json"), (String = "text/event-stream"))),
        (status = "default", body = wire::ErrorBody)))]
async fn list(
    State(app): State<App>,
    ReadRequest(requests): ReadRequest,
    Query(query): Query<ListQuery>,
    Extension(endless): Extension<EndlessAnswer>,
    token: Option<Extension<StreamToken>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Only a stream resumes there, but a malformed id is an error in any case.
    let resume = match text(&headers, "last-event-id")? {
        Some(id) => Some(
            id.parse()
                .map_err(|_| Invalid::new("Last-Event-ID", id, "expected an event's number"))?,
        ),
        None => query.since,
    };
    let wants_stream =
        text(&headers, header::ACCEPT.as_str())?.is_some_and(|a| a.contains("text/event-stream"));
    if wants_stream {
        let token = token.map(|Extension(token)| token);
        let stream = follow(&app, requests, token, resume, query.session).await?;
        endless.set();
        return Ok(stream);
    }
    let limit = limit(query.limit)?;
    let page = requests
        .ledger
        .events()
        .list(query.since.unwrap_or(0), query.session, limit)
        .await?;
    let list = render::list(page, |e| render::event(requests.ledger.tenant(), e));
    Ok(Json(list).into_response())
}

async fn follow(
    app: &App,
    requests: FleetRequests,
    token: Option<StreamToken>,
    since: Option<u64>,
    session: Option<String>,
) -> Result<Response, ApiError> {
    let tenant = requests.ledger.tenant().clone();
    let follower = requests.ledger.events().follow(since, session).await?;
    let access = StreamAccess::new(app, token);
    let over = Box::pin(access.clone().over());
    let events = messages(tenant, access, follower).take_until(over);
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    Ok(sse.into_response())
}

/// Whether the reader of a stream may still read it.
#[derive(Clone, Debug)]
pub(super) struct StreamAccess {
    app: App,
    /// None on the Unix socket, where nothing can be revoked.
    token: Option<StreamToken>,
}

impl StreamAccess {
    pub(super) fn new(app: &App, token: Option<StreamToken>) -> Self {
        Self {
            app: app.clone(),
            token,
        }
    }

    /// Returns when the stream is to end: the daemon stops, or the reader's token or run ended.
    pub(super) async fn over(self) {
        let stopping = self.app.tasks().stopping();
        tokio::pin!(stopping);
        loop {
            tokio::select! {
                () = &mut stopping => return,
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
            if !self.allows().await {
                return;
            }
        }
    }

    pub(super) async fn allows(&self) -> bool {
        match &self.token {
            Some(token) => token.is_valid(&self.app).await,
            None => true,
        }
    }
}

/// Each event as one message. A reading error is sent and ends the stream; so does the end of the reader's token, before
/// any later event is sent.
fn messages(
    tenant: TenantId,
    access: StreamAccess,
    follower: EventFollower,
) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    stream::unfold(Some(follower), move |follower| {
        let (tenant, access) = (tenant.clone(), access.clone());
        async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(events) if events.is_empty() => None,
                Ok(_) if !access.allows().await => None,
                Ok(events) => {
                    let messages: Vec<_> = events.iter().map(|e| message(&tenant, e)).collect();
                    Some((messages, Some(follower)))
                }
                Err(error) => {
                    let body = wire::ErrorBody {
                        error: crate::error::object(&error.into()),
                    };
                    let data = serde_json::to_string(&body).unwrap_or_default();
                    Some((vec![SseEvent::default().event("error").data(data)], None))
                }
            }
        }
    })
    .flat_map(|messages| stream::iter(messages.into_iter().map(Ok)))
}

fn message(tenant: &TenantId, event: &skein_store::Event) -> SseEvent {
    // JSON in one line, so the message cannot be broken up.
    let data = serde_json::to_string(&render::event(tenant, event)).unwrap_or_default();
    SseEvent::default()
        .id(event.seq.to_string())
        .event(&event.kind)
        .data(data)
}

/// Recomputes the chain and names the first event that is not as it was written.
#[utoipa::path(get, path = "/api/v1/events/verify", tag = "events",
    responses((status = 200, body = wire::VerifyReport), (status = "default", body = wire::ErrorBody)))]
async fn verify(ReadRequest(requests): ReadRequest) -> Result<Json<wire::VerifyReport>, ApiError> {
    let verdict = requests.ledger.events().verify().await?;
    let (broken_at, why) = verdict
        .broken
        .map_or((None, None), |b| (Some(b.at), Some(b.why)));
    Ok(Json(wire::VerifyReport {
        ok: broken_at.is_none(),
        events: verdict.checked,
        dropped: verdict.dropped,
        broken_at,
        why,
    }))
}

/// Packs old events away without breaking the chain.
#[utoipa::path(post, path = "/api/v1/events/seal", tag = "events", request_body = wire::SealEvents,
    params(IdempotencyHeader),
    responses((status = 200, body = wire::SealReport), (status = "default", body = wire::ErrorBody)))]
async fn seal(
    ChangeRequest(requests, body): ChangeRequest<wire::SealEvents>,
) -> Result<Response, ApiError> {
    let answer = requests.ledger.events().seal(body.keep, body.drop).await?;
    Ok(render::answer(StatusCode::OK, &requests, answer))
}
