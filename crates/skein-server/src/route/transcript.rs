//! Transcripts: appended to, read, followed, searched, exported, moved between tiers.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde::Deserialize;
use skein_domain::Invalid;
use skein_fleet::Error;
use skein_ledger::transcript::{
    Delta, FollowedChange, SearchOptions, TranscriptFollower, TranscriptView,
};
use skein_transcript::message::CoveredRange;
use skein_transcript::service::{Direction, HotCopy, MessageQuery};
use skein_wire as wire;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::event::StreamAccess;
use super::session::ok;
use super::{cursor, limit};
use crate::app::App;
use crate::door::{StreamToken, text};
use crate::error::ApiError;
use crate::extract::{
    ChangeRequest, IdempotencyHeader, MOST_APPEND, MOST_SNAPSHOT, Path, Query, ReadRequest,
    UnkeyedRequest, UploadRequest,
};
use crate::render;
use crate::render::export::{self, Format};
use crate::serve::EndlessAnswer;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(read, append))
        .routes(routes!(deltas))
        .routes(routes!(get_state, set_state))
        .routes(routes!(rewind))
        .routes(routes!(reply))
        .routes(routes!(repair))
        .routes(routes!(compact))
        .routes(routes!(flush))
        .routes(routes!(hydrate))
        .routes(routes!(usage))
        .routes(routes!(export))
        .routes(routes!(import))
        .routes(routes!(search))
}

const HEARTBEAT: Duration = Duration::from_secs(15);
/// Messages rendered at a time in an export.
const PART: usize = 200;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReadQuery {
    /// `oldest` (default) or `newest` first.
    order: Option<String>,
    /// `all` (default), or `model`: what a model is shown, in one piece.
    view: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// A position: messages beyond it in the direction of reading.
    cursor: Option<String>,
}

/// Reads messages, or follows them with `Accept: text/event-stream`. A stream has events `message` (its id is
/// the position, by which `Last-Event-ID` resumes), `rewound`, and `delta` for a piece of an unfinished message.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/transcript", tag = "transcripts",
    params(("session" = String, Path), ReadQuery, ("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, content((wire::List<wire::Message> = "application/json"), (String = "text/event-stream"))),
        (status = "default", body = wire::ErrorBody)))]
async fn read(
    State(app): State<App>,
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
    Query(query): Query<ReadQuery>,
    Extension(endless): Extension<EndlessAnswer>,
    token: Option<Extension<StreamToken>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let position = cursor(query.cursor.as_deref())?;
    // Every parameter is checked, also those that this kind of read does not use.
    let limit = limit(query.limit)?;
    let direction = direction(query.order.as_deref())?;
    let is_model = is_model_view(query.view.as_deref())?;
    let resume = match text(&headers, "last-event-id")? {
        Some(id) => Some(
            id.parse()
                .map_err(|_| Invalid::new("Last-Event-ID", id, "expected a message's position"))?,
        ),
        None => position,
    };
    let wants_stream =
        text(&headers, header::ACCEPT.as_str())?.is_some_and(|a| a.contains("text/event-stream"));
    let transcripts = requests.ledger.transcripts()?;
    if wants_stream {
        let access = StreamAccess::new(&app, token.map(|Extension(token)| token));
        let follower = transcripts.follow(session, resume).await?;
        let over = Box::pin(access.clone().over());
        let events = changes(access, follower).take_until(over);
        endless.set();
        let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT));
        return Ok(sse.into_response());
    }
    if is_model {
        let (_, messages) = transcripts.context(session).await?;
        let data = messages.iter().map(render::transcript::message).collect();
        return Ok(Json(wire::List { data, next: None }).into_response());
    }
    let query = MessageQuery {
        direction,
        cursor: position,
        limit,
    };
    let (_, page) = transcripts.page(session, query).await?;
    Ok(Json(wire::List {
        data: page
            .messages
            .iter()
            .map(render::transcript::placed)
            .collect(),
        next: page.next.map(|n| n.to_string()),
    })
    .into_response())
}

fn direction(word: Option<&str>) -> Result<Direction, Invalid> {
    match word {
        None | Some("oldest") => Ok(Direction::OldestFirst),
        Some("newest") => Ok(Direction::NewestFirst),
        Some(other) => Err(Invalid::new(
            "order",
            other,
            "expected `oldest` or `newest`",
        )),
    }
}

fn is_model_view(word: Option<&str>) -> Result<bool, Invalid> {
    match word {
        None | Some("all") => Ok(false),
        Some("model") => Ok(true),
        Some(other) => Err(Invalid::new("view", other, "expected `all` or `model`")),
    }
}

/// Each message as one event. A reading error is sent and ends the stream; so does the end of the reader's token,
/// before any later message is sent.
fn changes(
    access: StreamAccess,
    follower: TranscriptFollower,
) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    stream::unfold(Some(follower), move |follower| {
        let access = access.clone();
        async move {
            let mut follower = follower?;
            let next = follower.next().await;
            if !access.allows().await {
                return None;
            }
            match next {
                Ok(Some(change)) => Some((events(change), Some(follower))),
                Ok(None) => None,
                Err(error) => Some((vec![failure(&error.into())], None)),
            }
        }
    })
    .flat_map(|events| stream::iter(events.into_iter().map(Ok)))
}

fn failure(error: &Error) -> SseEvent {
    let body = wire::ErrorBody {
        error: crate::error::object(error),
    };
    SseEvent::default().event("error").data(json(&body))
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn events(change: FollowedChange) -> Vec<SseEvent> {
    match change {
        FollowedChange::Messages(messages) => messages
            .iter()
            .map(|placed| {
                SseEvent::default()
                    .id(placed.position.to_string())
                    .event("message")
                    .data(json(&render::transcript::placed(placed)))
            })
            .collect(),
        FollowedChange::Rewound { to } => {
            let event = SseEvent::default().event("rewound");
            let event = match to {
                Some(position) => event.id(position.to_string()),
                None => event,
            };
            // The last position that stays, and the first that is gone.
            let end = to.map_or(0, |position| position + 1);
            vec![event.data(json(&serde_json::json!({"position": to, "end": end})))]
        }
        // Without an id: a reader resumes from the last whole message.
        FollowedChange::Delta(delta) => {
            vec![SseEvent::default().event("delta").data(json(&wire::Delta {
                message: delta.message.to_string(),
                kind: Some(delta.kind.into()),
                block: delta.block,
                text: delta.text.clone(),
                run: None,
            }))]
        }
    }
}

/// Adds messages at the end, all or none. One that is there already is not added again.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/transcript", tag = "transcripts", request_body = wire::Append,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Appended), (status = "default", body = wire::ErrorBody)))]
async fn append(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Append, MOST_APPEND>,
) -> Result<Response, ApiError> {
    let messages = body.messages.into_iter();
    let messages = messages.map(render::transcript::parse_message);
    let messages = messages.collect::<Result<_, Invalid>>()?;
    let transcripts = requests.ledger.transcripts()?;
    let answer = transcripts.append(session, body.run, messages).await?;
    ok(&requests, answer)
}

/// Sends a piece of an unfinished message to the callers that follow the transcript. It is not stored.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/transcript/deltas", tag = "transcripts", request_body = wire::Delta,
    params(("session" = String, Path)),
    responses((status = 200, body = wire::DeltaPassed), (status = "default", body = wire::ErrorBody)))]
async fn deltas(
    Path(session): Path<String>,
    UnkeyedRequest(requests, body): UnkeyedRequest<wire::Delta>,
) -> Result<Json<wire::DeltaPassed>, ApiError> {
    let word = body.kind.as_deref().unwrap_or("text");
    let kind = Delta::KINDS.into_iter().find(|kind| *kind == word);
    let why = "expected `text`, `thinking` or `tool_input`";
    if body.text.len() > Delta::MOST {
        let message = format!("a piece has at most {} bytes", Delta::MOST);
        return Err(ApiError::misuse(message, &["send it in several pieces"]));
    }
    let delta = Delta {
        message: body.message.parse()?,
        kind: kind.ok_or_else(|| Invalid::new("kind", word, why))?,
        block: body.block,
        text: body.text,
    };
    let transcripts = requests.ledger.transcripts()?;
    let session = transcripts.pass_delta(session, body.run, delta).await?;
    Ok(Json(wire::DeltaPassed {
        session: session.to_string(),
    }))
}

/// Shows the state slice: tasks and custom JSON beside the messages.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/transcript/state", tag = "transcripts", params(("session" = String, Path)),
    responses((status = 200, body = wire::State), (status = "default", body = wire::ErrorBody)))]
async fn get_state(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
) -> Result<Json<wire::State>, ApiError> {
    let (session, state) = requests.ledger.transcripts()?.state(session).await?;
    Ok(Json(render::transcript::state(&session.id, &state)))
}

/// Replaces the state slice if it is still at the version named.
#[utoipa::path(put, path = "/api/v1/sessions/{session}/transcript/state", tag = "transcripts", request_body = wire::SetState,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::StateSet), (status = "default", body = wire::ErrorBody)))]
async fn set_state(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::SetState>,
) -> Result<Response, ApiError> {
    let (run, expected) = (body.run, body.expect);
    let state = render::transcript::parse_state(body)?;
    let transcripts = requests.ledger.transcripts()?;
    let answer = transcripts.set_state(session, run, expected, state).await?;
    ok(&requests, answer)
}

/// Goes back to just after a message. What came later stays for the forks that share it.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/transcript/rewind", tag = "transcripts", request_body = wire::Rewind,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Rewound), (status = "default", body = wire::ErrorBody)))]
async fn rewind(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Rewind>,
) -> Result<Response, ApiError> {
    let to = body.to.parse()?;
    let transcripts = requests.ledger.transcripts()?;
    let answer = transcripts.rewind(session, body.run, to).await?;
    ok(&requests, answer)
}

/// Makes way for a reply whose id was chosen before the model is asked: what an earlier attempt said of it, and
/// all after it, is no longer part of the transcript.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/transcript/reply", tag = "transcripts", request_body = wire::BeginReply,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::ReplyBegun), (status = "default", body = wire::ErrorBody)))]
async fn reply(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::BeginReply>,
) -> Result<Response, ApiError> {
    let id = body.id.parse()?;
    let transcripts = requests.ledger.transcripts()?;
    let answer = transcripts.begin_reply(session, body.run, id).await?;
    ok(&requests, answer)
}

/// Closes tool calls that were left open, each with one result that says so. The second time there is nothing to do.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/transcript/repair", tag = "transcripts", request_body = Option<wire::Repair>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Repaired), (status = "default", body = wire::ErrorBody)))]
async fn repair(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Repair>,
) -> Result<Response, ApiError> {
    let transcripts = requests.ledger.transcripts()?;
    let answer = transcripts.repair(session, body.run).await?;
    ok(&requests, answer)
}

/// Adds a summary that a model is shown in place of the messages it covers. They stay for everybody else.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/transcript/compact", tag = "transcripts", request_body = wire::Compact,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Appended), (status = "default", body = wire::ErrorBody)))]
async fn compact(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Compact>,
) -> Result<Response, ApiError> {
    let summary = render::transcript::summary(&body)?;
    let (from, through) = (body.from.parse()?, body.through.parse()?);
    let transcripts = requests.ledger.transcripts()?;
    let done = transcripts.compact(session, body.run, from, through, summary);
    ok(&requests, done.await?)
}

/// Puts everything of the transcript into the cold tier; what is there already is not written again.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/transcript/flush", tag = "transcripts", request_body = Option<wire::Flush>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Flushed), (status = "default", body = wire::ErrorBody)))]
async fn flush(
    Path(session): Path<String>,
    ChangeRequest(requests, body): ChangeRequest<wire::Flush>,
) -> Result<Response, ApiError> {
    let keep = if body.keep_hot {
        HotCopy::Hot
    } else {
        HotCopy::ColdOnly
    };
    let tiers = requests.ledger.transcripts()?.tiers();
    let answer = tiers.flush(session, keep).await?;
    ok(&requests, answer)
}

/// Brings the transcript into the hot tier.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/transcript/hydrate", tag = "transcripts", request_body = Option<wire::Hydrate>,
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Hydrated), (status = "default", body = wire::ErrorBody)))]
async fn hydrate(
    Path(session): Path<String>,
    ChangeRequest(requests, wire::Hydrate {}): ChangeRequest<wire::Hydrate>,
) -> Result<Response, ApiError> {
    let tiers = requests.ledger.transcripts()?.tiers();
    let answer = tiers.hydrate(session).await?;
    ok(&requests, answer)
}

/// Shows what the session's messages cost, and those of everything delegated below it.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/transcript/usage", tag = "transcripts", params(("session" = String, Path)),
    responses((status = 200, body = wire::TranscriptUsage), (status = "default", body = wire::ErrorBody)))]
async fn usage(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
) -> Result<Json<wire::TranscriptUsage>, ApiError> {
    let (session, usage) = requests.ledger.transcripts()?.usage(session).await?;
    Ok(Json(render::transcript::totals(&session.id, usage)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ExportQuery {
    /// `jsonl` (default), `markdown`, `html` or `zeitlich`.
    format: Option<String>,
}

/// Gives the whole transcript as a file.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/transcript/export", tag = "transcripts",
    params(("session" = String, Path), ExportQuery),
    responses((status = 200, content((String = "application/x-ndjson"), (String = "text/markdown"), (String = "text/html"),
        (String = "application/gzip"))), (status = "default", body = wire::ErrorBody)))]
async fn export(
    ReadRequest(requests): ReadRequest,
    Path(session): Path<String>,
    Query(query): Query<ExportQuery>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let format = Format::parse(query.format.as_deref().unwrap_or("jsonl"))?;
    let kind = HeaderValue::from_static(format.media_type());
    let headers = [(header::CONTENT_TYPE, kind)];
    let transcripts = requests.ledger.transcripts()?;
    if format == Format::Zeitlich {
        let (_, blob) = transcripts.export_zeitlich(session).await?;
        return Ok((StatusCode::OK, headers, blob).into_response());
    }
    let view = transcripts.view(session).await?;
    let hidden = match format {
        Format::JsonLines | Format::Zeitlich => vec![],
        Format::Markdown | Format::Html => view.hidden_parts().await?,
    };
    let writing = Writing {
        view,
        format,
        hidden,
        wants_cause: wants_trailers(&request),
    };
    // An export that cannot begin is refused like any other request.
    let (first, next) = writing.part(None).await?;
    let begin = export::begin(format, &writing.view.session) + &first;
    let declared = writing
        .wants_cause
        .then_some(HeaderValue::from_static(wire::ERROR_TRAILER));
    let body = Body::new(StreamBody::new(file(writing, begin, next)));
    let mut answer = (StatusCode::OK, headers, body).into_response();
    if let Some(declared) = declared {
        answer.headers_mut().insert(header::TRAILER, declared);
    }
    Ok(answer)
}

/// Whether the caller understands fields that follow the body.
fn wants_trailers(request: &HeaderMap) -> bool {
    let words = request.get_all(header::TE).iter();
    words
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case("trailers"))
}

/// How far an export is.
enum Stage {
    /// A text to write, and what comes after it.
    Piece(String, Next),
    Read(u64),
    Over,
}

/// What comes after a piece.
enum Next {
    Beyond(u64),
    End,
}

/// An export that is being written.
struct Writing {
    view: TranscriptView,
    format: Format,
    hidden: Vec<CoveredRange>,
    /// The caller reads trailers, so one names the error that ends the export early; others only see it end.
    wants_cause: bool,
}

impl Writing {
    /// The messages beyond a position, as many as are read together.
    async fn part(&self, cursor: Option<u64>) -> Result<(String, Next), Error> {
        let query = MessageQuery {
            direction: Direction::OldestFirst,
            cursor,
            limit: PART,
        };
        let page = self.view.page(query).await?;
        let rendered = page.messages.iter();
        let rendered = rendered.map(|m| export::message(self.format, m, &self.hidden));
        Ok((
            rendered.collect(),
            page.next.map_or(Next::End, Next::Beyond),
        ))
    }

    /// Ends the export with an error, so that the caller does not take a part for the whole.
    fn broken(&self, error: &Error) -> Result<Frame<Bytes>, std::io::Error> {
        let session = &self.view.session.id;
        tracing::warn!(%session, %error, "an export broke off");
        let body = wire::ErrorBody {
            error: crate::error::object(error),
        };
        match HeaderValue::from_str(&ascii(&json(&body))) {
            Ok(value) if self.wants_cause => {
                let name = HeaderName::from_static(wire::ERROR_TRAILER);
                Ok(Frame::trailers(HeaderMap::from_iter([(name, value)])))
            }
            _ => Err(std::io::Error::other(error.to_string())),
        }
    }
}

/// JSON with all other than ASCII escaped.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// The file piece by piece.
fn file(
    writing: Writing,
    begin: String,
    next: Next,
) -> impl Stream<Item = Result<Frame<Bytes>, std::io::Error>> {
    let first = (writing, Stage::Piece(begin, next));
    stream::unfold(first, |(writing, stage)| async move {
        let (text, next) = match stage {
            Stage::Over => return None,
            Stage::Piece(text, next) => (text, next),
            Stage::Read(cursor) => match writing.part(Some(cursor)).await {
                Ok(part) => part,
                Err(error) => return Some((writing.broken(&error), (writing, Stage::Over))),
            },
        };
        let (text, stage) = match next {
            Next::Beyond(cursor) => (text, Stage::Read(cursor)),
            Next::End => (text + export::end(writing.format), Stage::Over),
        };
        Some((Ok(Frame::data(Bytes::from(text))), (writing, stage)))
    })
}

/// Takes over a snapshot of zeitlich (gzip JSON, version 1): its messages are added after what is there.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/transcript/import", tag = "transcripts",
    request_body(content = String, content_type = "application/gzip"),
    params(("session" = String, Path), IdempotencyHeader),
    responses((status = 200, body = wire::Imported), (status = "default", body = wire::ErrorBody)))]
async fn import(
    Path(session): Path<String>,
    UploadRequest(requests, blob): UploadRequest<MOST_SNAPSHOT>,
) -> Result<Response, ApiError> {
    let transcripts = requests.ledger.transcripts()?;
    let answer = transcripts.import_zeitlich(session, blob.to_vec()).await?;
    ok(&requests, answer)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SearchQuery {
    /// Words and "phrases"; messages are found that hold all of them.
    q: String,
    session: Option<String>,
    /// Id or name.
    project: Option<String>,
    /// `system`, `user`, `assistant` or `tool`.
    role: Option<String>,
    /// Only what was said at this time or later.
    since: Option<String>,
    /// At most 200 are given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Finds text in all transcripts of the tenant, best first.
#[utoipa::path(get, path = "/api/v1/transcripts/search", tag = "transcripts", params(SearchQuery),
    responses((status = 200, body = wire::List<wire::Hit>), (status = "default", body = wire::ErrorBody)))]
async fn search(
    ReadRequest(requests): ReadRequest,
    Query(query): Query<SearchQuery>,
) -> Result<Json<wire::List<wire::Hit>>, ApiError> {
    let limit = limit(query.limit.or(Some(HITS)))?;
    let role = query.role.as_deref().map(render::transcript::parse_role);
    let since = query.since.as_deref();
    let since = since.map(|since| render::transcript::parse_time("since", since));
    let options = SearchOptions {
        text: query.q,
        session: query.session,
        project: query.project,
        role: role.transpose()?,
        since: since.transpose()?,
        limit,
        cursor: query.cursor,
    };
    let hits = requests
        .ledger
        .transcripts()?
        .search()
        .find(options)
        .await?;
    Ok(Json(wire::List {
        data: hits.hits.iter().map(render::transcript::hit).collect(),
        next: hits.next,
    }))
}

/// Hits in a page when the caller does not say.
const HITS: usize = 20;
