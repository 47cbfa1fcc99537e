//! Sessions: made, driven, handed on, ended.

use std::collections::BTreeSet;

use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use skein_domain::{Invalid, Outcome, Question, Status, Usage};
use skein_fleet::FleetRequests;
use skein_ledger::Answer;
use skein_ledger::KillOptions;
use skein_ledger::session::SessionFilter;
use skein_ledger::transcript::ForkOptions;
use skein_ledger::turn::Fence;
use skein_wire as wire;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::launch::spawn_of;
use super::{Fraction, micros, optional, page, tokens};
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{ChangeRequest, IdempotencyHeader, Path, Query, ReadRequest};
use crate::render;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, spawn))
        .routes(routes!(get))
        .routes(routes!(begin_turn))
        .routes(routes!(end_turn))
        .routes(routes!(ask))
        .routes(routes!(withdraw))
        .routes(routes!(answer))
        .routes(routes!(end))
        .routes(routes!(kill))
        .routes(routes!(restore))
        .routes(routes!(handoff))
        .routes(routes!(broadcast))
        .routes(routes!(merge))
        .routes(routes!(tree))
        .routes(routes!(fork))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    project: Option<String>,
    thread: Option<String>,
    /// Ended and archived ones too.
    #[serde(default)]
    all: bool,
    /// One or several statuses, with commas between.
    status: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    cursor: Option<String>,
}

fn statuses(text: Option<&str>) -> Result<BTreeSet<Status>, Invalid> {
    let known = || Status::ALL.map(Status::as_str).join(", ");
    text.into_iter()
        .flat_map(|t| t.split(','))
        .map(|word| {
            let word = word.trim();
            Status::parse(word)
                .ok_or_else(|| Invalid::new("status", word, format!("expected one of {}", known())))
        })
        .collect()
}

/// Lists sessions, newest first.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sessions", params(ListQuery),
    responses((status = 200, body = wire::List<wire::Session>), (status = "default", body = wire::ErrorBody)))]
async fn list(
    ReadRequest(requests): ReadRequest,
    Query(query): Query<ListQuery>,
) -> Result<Json<wire::List<wire::Session>>, ApiError> {
    let status = statuses(query.status.as_deref())?;
    let filter = SessionFilter {
        project: query.project,
        thread: query.thread,
        all: query.all,
        status,
    };
    let (after, limit) = page(query.cursor.as_deref(), query.limit)?;
    let mut page = requests.list_sessions(filter, after, limit).await?;
    let damaged = std::mem::take(&mut page.damaged);
    let mut list = render::list(page, |s| render::session_in_list(&requests, s));
    let damaged = damaged
        .iter()
        .map(|s| render::damaged_session(&requests, s));
    list.data.extend(damaged);
    Ok(Json(list))
}

/// Makes a session, alone or below the one that delegates.
#[utoipa::path(post, path = "/api/v1/sessions", tag = "sessions", request_body = wire::Spawn,
    params(IdempotencyHeader),
    responses((status = 201, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn spawn(
    ChangeRequest(requests, body): ChangeRequest<wire::Spawn>,
) -> Result<Response, ApiError> {
    let answer = requests.spawn(spawn_of(body)?).await?;
    Ok(render::answer(StatusCode::CREATED, &requests, answer))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct GetQuery {
    /// Do not look into workspace and transcript, which takes a moment: `dirty` and `transcript` are null.
    #[serde(default)]
    quick: bool,
}

/// Shows a session.
#[utoipa::path(get, path = "/api/v1/sessions/{session}", tag = "sessions", params(("session" = String, Path), GetQuery),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn get(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
    Query(query): Query<GetQuery>,
) -> Result<Json<wire::Session>, ApiError> {
    let found = requests.ledger.sessions().get(session).await?;
    let mut shown = render::session(&requests, &found);
    if found.gear.is_some() && !query.quick {
        shown.workspace.dirty = requests.dirty(&found).await;
    }
    if !query.quick {
        let overview = match requests.ledger.transcripts() {
            Ok(transcripts) => transcripts.overview(&found).await,
            Err(_) => None,
        };
        let begun = overview.filter(|o| o.tier.is_some());
        shown.transcript = begun.as_ref().map(render::transcript::overview);
    }
    Ok(Json(shown))
}

pub(super) fn ok(requests: &FleetRequests, answer: Answer) -> Result<Response, ApiError> {
    Ok(render::answer(StatusCode::OK, requests, answer))
}

/// Begins a turn of an idle session.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/begin-turn", tag = "sessions", request_body = Option<wire::BeginTurn>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn begin_turn(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::BeginTurn>,
) -> Result<Response, ApiError> {
    let fence = begin_fence(body)?;
    let answer = requests.ledger.turns().begin(session, fence).await?;
    ok(&requests, answer)
}

fn begin_fence(body: wire::BeginTurn) -> Result<Fence, Invalid> {
    Ok(Fence {
        owner_version: body.expect_owner_version,
        ..fence(body.run, body.as_actor)?
    })
}

fn fence(run: Option<u64>, as_actor: Option<String>) -> Result<Fence, Invalid> {
    Ok(Fence {
        run,
        owner: optional(as_actor)?,
        ..Fence::default()
    })
}

/// Ends the turn and adds what it used.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/end-turn", tag = "sessions", request_body = Option<wire::EndTurn>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn end_turn(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::EndTurn>,
) -> Result<Response, ApiError> {
    let fence = fence(body.run, body.as_actor)?;
    let usage = Usage {
        input_tokens: tokens(body.input_tokens)?,
        output_tokens: tokens(body.output_tokens)?,
        cost_micros: micros(body.cost_usd, Fraction::Up)?,
    };
    let answer = requests.ledger.turns().end(session, fence, usage).await?;
    ok(&requests, answer)
}

/// Asks people something; the session waits.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/ask", tag = "sessions", request_body = wire::Ask,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn ask(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Ask>,
) -> Result<Response, ApiError> {
    let fence = fence(body.run, body.as_actor)?;
    let options = body
        .options
        .iter()
        .map(|o| o.parse())
        .collect::<Result<_, Invalid>>()?;
    let question = Question {
        text: body.question.parse()?,
        options,
        kinds: vec![],
        id: None,
    };
    let answer = requests
        .ledger
        .turns()
        .ask(session, fence, question)
        .await?;
    ok(&requests, answer)
}

/// Takes the question back; the session becomes idle.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/withdraw", tag = "sessions", request_body = Option<wire::BeginTurn>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn withdraw(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::BeginTurn>,
) -> Result<Response, ApiError> {
    let fence = begin_fence(body)?;
    let answer = requests.ledger.turns().withdraw(session, fence).await?;
    ok(&requests, answer)
}

/// Answers the session's question; where it gave options, one of them by text or number.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/answer", tag = "sessions", request_body = wire::Answer,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Receipt), (status = "default", body = wire::ErrorBody)))]
async fn answer(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Answer>,
) -> Result<Response, ApiError> {
    let answer = requests.answer(session, body.text.parse()?).await?;
    ok(&requests, answer)
}

/// Ends the session as done or failed. It can be restored.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/end", tag = "sessions", request_body = Option<wire::EndSession>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn end(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::EndSession>,
) -> Result<Response, ApiError> {
    let fence = fence(body.run, body.as_actor)?;
    let word = body.outcome.as_deref().unwrap_or("done");
    let outcome = Outcome::parse(word)
        .ok_or_else(|| Invalid::new("outcome", word, "expected `done` or `failed`"))?;
    let sessions = requests.ledger.sessions();
    let answer = sessions
        .end(session, fence, outcome, optional(body.reason)?)
        .await?;
    ok(&requests, answer)
}

/// Ends the session from outside, with its live descendants if asked.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/kill", tag = "sessions", request_body = Option<wire::Kill>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn kill(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Kill>,
) -> Result<Response, ApiError> {
    let options = KillOptions {
        reason: optional(body.reason)?,
        tree: body.tree,
        discard: body.discard,
    };
    ok(&requests, requests.kill(session, options).await?)
}

/// Brings an ended session back, on its next run.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/restore", tag = "sessions", request_body = Option<wire::Restore>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn restore(
    Path(session): Path<String>,
    ChangeRequest(requests, _): ChangeRequest<wire::Restore>,
) -> Result<Response, ApiError> {
    ok(&requests, requests.restore(session).await?)
}

/// Moves the session to a new owner.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/handoff", tag = "sessions", request_body = wire::Handoff,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn handoff(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Handoff>,
) -> Result<Response, ApiError> {
    match body.workspace.as_deref() {
        None | Some("keep") => {}
        Some("branch") => {
            let why =
                "not available yet; `keep` hands the session over together with its workspace";
            return Err(Invalid::new("workspace", "branch", why).into());
        }
        Some(other) => {
            return Err(Invalid::new("workspace", other, "expected `keep` or `branch`").into());
        }
    }
    let sessions = requests.ledger.sessions();
    let answer = sessions
        .handoff(session, body.to.parse()?, body.expect_version)
        .await?;
    ok(&requests, answer)
}

/// Gives each recipient a child session; answers with the children.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/broadcast", tag = "sessions", request_body = wire::Broadcast,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::List<wire::Session>), (status = "default", body = wire::ErrorBody)))]
async fn broadcast(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Broadcast>,
) -> Result<Response, ApiError> {
    let to = body
        .to
        .iter()
        .map(|a| a.parse())
        .collect::<Result<_, Invalid>>()?;
    let sessions = requests.ledger.sessions();
    let answer = sessions.broadcast(session, to, body.expect_version).await?;
    ok(&requests, answer)
}

/// Notes that a child's work is taken over.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/merge", tag = "sessions", request_body = wire::Merge,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn merge(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Merge>,
) -> Result<Response, ApiError> {
    let answer = requests.ledger.sessions().merge(session, body.from).await?;
    ok(&requests, answer)
}

/// Shows the session's ancestry and everything below it.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/tree", tag = "sessions", params(("session" = String, Path)),
    responses((status = 200, body = wire::Tree), (status = "default", body = wire::ErrorBody)))]
async fn tree(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
) -> Result<Json<wire::Tree>, ApiError> {
    let tree = requests.ledger.sessions().tree(session).await?;
    Ok(Json(render::tree(&requests, &tree)))
}

/// Creates a session that continues from a point of this one's transcript. It has no parent.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/fork", tag = "sessions", request_body = Option<wire::Fork>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 201, body = wire::Session), (status = "default", body = wire::ErrorBody)))]
async fn fork(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Fork>,
) -> Result<Response, ApiError> {
    let options = ForkOptions {
        source: session,
        at: optional(body.at)?,
        thread: body.thread,
        owner: optional(body.owner)?,
        task: optional(body.task)?,
    };
    let answer = requests.ledger.sessions().fork(options).await?;
    Ok(render::answer(StatusCode::CREATED, &requests, answer))
}
