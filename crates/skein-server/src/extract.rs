//! Extractors of the handlers: strict bodies, strict queries, and the requests of the caller.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use skein_domain::{Key, Kind};
use skein_fleet::FleetRequests;
use skein_ledger::{Caller, Idempotency};

use crate::app::App;
use crate::door::text;
use crate::error::ApiError;
use crate::render;

/// Largest body a call takes.
pub(crate) const MOST_BODY: usize = 1024 * 1024;
/// Largest body of the calls that carry a whole message: escaped, 4 MiB may double.
pub(crate) const MOST_MESSAGE: usize = 8 * 1024 * 1024 + 64 * 1024;

/// Largest body of an append: escaped, a message of the largest size may double.
pub(crate) const MOST_APPEND: usize = 2 * skein_transcript::Message::MOST + 64 * 1024;
/// Largest snapshot that can be imported, packed.
pub(crate) const MOST_SNAPSHOT: usize = 64 * 1024 * 1024;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Serves a call that only reads.
#[derive(Debug)]
pub(crate) struct ReadRequest(pub(crate) FleetRequests);

/// Serves a call that changes something; the body was parsed strictly and belongs to the idempotency key.
#[derive(Debug)]
pub(crate) struct ChangeRequest<T, const MOST: usize = MOST_BODY>(
    pub(crate) FleetRequests,
    pub(crate) T,
);

/// Serves a call whose body is a file of any content type; the body belongs to the idempotency key.
#[derive(Debug)]
pub(crate) struct UploadRequest<const MOST: usize>(
    pub(crate) FleetRequests,
    pub(crate) bytes::Bytes,
);

/// Serves a call that can be repeated without harm, and so takes no idempotency key.
#[derive(Debug)]
pub(crate) struct UnkeyedRequest<T, const MOST: usize = MOST_BODY>(
    pub(crate) FleetRequests,
    pub(crate) T,
);

/// The header of every change, as the OpenAPI document describes it; [`Key`] checks it.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct IdempotencyHeader {
    /// A request that is repeated under the same key is carried out once and answered alike.
    #[param(
        rename = "Idempotency-Key",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]+$"
    )]
    #[expect(dead_code, reason = "read from the headers, described here")]
    idempotency_key: Option<String>,
}

/// The body of calls that take none; `{}` is accepted too.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmptyBody {}

#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

fn caller(parts: &Parts) -> Result<Caller, ApiError> {
    let unknown = skein_domain::Refused::Unauthorized {
        why: "the caller is unknown",
    };
    parts
        .extensions
        .get::<Caller>()
        .cloned()
        .ok_or_else(|| unknown.into())
}

/// The parts of a call that takes no query, its body, and its caller.
fn opened(request: Request) -> Result<(Parts, Body, Caller), ApiError> {
    let (parts, body) = request.into_parts();
    let caller = caller(&parts)?;
    refuse_query(&parts)?;
    Ok((parts, body, caller))
}

impl FromRequestParts<App> for ReadRequest {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        Ok(Self(app.fleet().requests(caller(parts)?)))
    }
}

impl<T: DeserializeOwned, const MOST: usize> FromRequest<App> for ChangeRequest<T, MOST> {
    type Rejection = ApiError;
    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (parts, body, caller) = opened(request)?;
        let key = key(&parts)?;
        let body = read(&parts, body, MOST).await?;
        let value = parse(&body)?;
        Ok(Self(keyed(app, &parts, caller, key, &body), value))
    }
}

impl<const MOST: usize> FromRequest<App> for UploadRequest<MOST> {
    type Rejection = ApiError;
    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (parts, body, caller) = opened(request)?;
        let key = key(&parts)?;
        let body = read_bytes(body, MOST).await?;
        Ok(Self(keyed(app, &parts, caller, key, &body), body))
    }
}

fn key(parts: &Parts) -> Result<Option<Key>, ApiError> {
    let key = text(&parts.headers, IDEMPOTENCY_KEY)?;
    Ok(key.map(str::parse::<Key>).transpose()?)
}

/// The requests of the caller, with the idempotency of this request.
fn keyed(
    app: &App,
    parts: &Parts,
    mut caller: Caller,
    key: Option<Key>,
    body: &[u8],
) -> FleetRequests {
    if let Some(key) = key {
        let viewer = app.fleet().requests(caller.clone());
        caller.idempotency = Some(Idempotency {
            key,
            fingerprint: fingerprint(parts, &caller, body),
            render: Arc::new(move |outcome| render::outcome(&viewer, outcome).to_string()),
        });
    }
    app.fleet().requests(caller)
}

impl<T: DeserializeOwned, const MOST: usize> FromRequest<App> for UnkeyedRequest<T, MOST> {
    type Rejection = ApiError;
    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (parts, body, caller) = opened(request)?;
        let body = read(&parts, body, MOST).await?;
        Ok(Self(app.fleet().requests(caller), parse(&body)?))
    }
}

/// Refuses a query, so that a caller who writes `?dry_run=true` does not believe that it has an effect.
fn refuse_query(parts: &Parts) -> Result<(), ApiError> {
    match parts.uri.query().filter(|q| !q.is_empty()) {
        None => Ok(()),
        Some(query) => Err(ApiError::misuse(
            format!("this call takes no query, not `{}`", query.escape_debug()),
            &["`/api/v1/openapi.json` describes every call"],
        )),
    }
}

fn too_large(most: usize) -> ApiError {
    let message = format!("the body is larger than {most} bytes");
    let error = if most == MOST_APPEND {
        let limit = skein_transcript::Message::MOST / 1024 / 1024;
        let hint = format!(
            "a message may have {limit} MiB; put larger things into a file and refer to it, and send many messages in parts"
        );
        ApiError::new(Kind::Refused, message, &[&hint])
    } else {
        ApiError::misuse(message, &["send less at once"])
    };
    error.with_status(StatusCode::PAYLOAD_TOO_LARGE)
}

async fn read_bytes(body: Body, most: usize) -> Result<bytes::Bytes, ApiError> {
    // A body whose announced length is too large is not read.
    if body.size_hint().lower() > most as u64 {
        return Err(too_large(most));
    }
    match Limited::new(body, most).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large(most)),
        Err(_) => Err(ApiError::misuse(
            "the body ended before it was complete",
            &[],
        )),
    }
}

async fn read(parts: &Parts, body: Body, most: usize) -> Result<bytes::Bytes, ApiError> {
    let bytes = read_bytes(body, most).await?;
    let kind = text(&parts.headers, header::CONTENT_TYPE.as_str())?.unwrap_or_default();
    let is_json = kind
        .split(';')
        .next()
        .is_some_and(|k| k.trim().eq_ignore_ascii_case("application/json"));
    if !bytes.is_empty() && !is_json {
        let hints = &["send `Content-Type: application/json`"];
        return Err(ApiError::misuse("the body is not declared as JSON", hints)
            .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Ok(bytes)
}

/// Reads a missing body or `null` as an empty object: calls whose fields are all optional need no body, as the document
/// says.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let nothing = matches!(body.trim_ascii(), b"" | b"null");
    let body = if nothing { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|e| {
        ApiError::misuse(
            format!("the body is not what this call takes: {e}"),
            &["`/api/v1/openapi.json` describes every call"],
        )
    })
}

/// The hash of everything that makes two requests the same.
fn fingerprint(parts: &Parts, caller: &Caller, body: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let actor = caller.actor.to_string();
    // Several tokens and runs may act as one actor; none gets the answer of another.
    let holder = caller.holder();
    let same = [
        parts.method.as_str().as_bytes(),
        parts.uri.path().as_bytes(),
        actor.as_bytes(),
        body,
    ];
    for part in same.into_iter().chain(holder.as_deref().map(str::as_bytes)) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, app).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(PathRejection::FailedToDeserializePathParams(e)) => {
                Err(ApiError::misuse(e.body_text(), &[]))
            }
            Err(e) => Err(ApiError::misuse(e.body_text(), &[])),
        }
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Query<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match axum::extract::Query::from_request_parts(parts, app).await {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(QueryRejection::FailedToDeserializeQueryString(e)) => Err(ApiError::misuse(
                e.body_text(),
                &["`/api/v1/openapi.json` describes every call"],
            )),
            Err(e) => Err(ApiError::misuse(e.body_text(), &[])),
        }
    }
}
