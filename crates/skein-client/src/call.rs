//! The client: how a call becomes a request and an answer. The calls themselves are in `routes`.

use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use skein_wire::{ErrorBody, ErrorKind, ErrorObject};

use crate::endpoint::{Endpoint, Identity};
use crate::error::Error;
use crate::key::IdempotencyKey;
use crate::query::Target;
use crate::transport::{Body, Driver, Transport, drive};

/// Builds the request again for each attempt.
pub(crate) type RequestMaker<'a> = &'a (dyn Fn() -> Result<Request<Body>, Error> + Send + Sync);

/// The answer of a call. Boxed, so that a call is compiled here once and not again by everyone who awaits it.
pub type ResponseFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Cheap to make. It connects with the first call, and concurrent calls may share it.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    identity: Identity,
    daemon_version: OnceLock<String>,
}

impl Client {
    pub fn new(endpoint: Endpoint, identity: Identity) -> Self {
        Self {
            transport: Transport::new(endpoint),
            identity,
            daemon_version: OnceLock::new(),
        }
    }

    #[must_use]
    pub fn with_deadlines(mut self, connect: Duration, call: Duration) -> Self {
        self.transport.set_deadlines(connect, call);
        self
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.transport.endpoint()
    }

    /// The version that the daemon reported in its first answer.
    pub fn daemon_version(&self) -> Option<&str> {
        self.daemon_version.get().map(String::as_str)
    }

    /// Fails with [`Error::Unreachable`] when no daemon listens.
    pub async fn connect(&self) -> Result<(), Error> {
        self.transport.connect().await
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, target: Target) -> ResponseFuture<'_, T> {
        self.call(Method::GET, target, None::<&()>, None)
    }

    pub(crate) fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        target: Target,
        body: Option<&impl Serialize>,
        key: Option<&IdempotencyKey>,
    ) -> ResponseFuture<'_, T> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map(|body| body.map(Bytes::from));
        let answer: ResponseFuture<'_, Bytes> =
            Box::pin(self.send_request(method, target, body, key.cloned()));
        Box::pin(async move { self.decode(&answer.await?) })
    }

    async fn send_request(
        &self,
        method: Method,
        target: Target,
        body: serde_json::Result<Option<Bytes>>,
        key: Option<IdempotencyKey>,
    ) -> Result<Bytes, Error> {
        let body = body.map_err(|error| Error::Unsendable {
            what: "the request",
            reason: error.to_string(),
        })?;
        let request = || self.request(method.clone(), &target, body.clone(), key.as_ref());
        self.exchange(&request).await
    }

    /// Answers with the body of a successful answer.
    pub(crate) async fn exchange(&self, request: RequestMaker<'_>) -> Result<Bytes, Error> {
        let (parts, answer) = self.transport.exchange(request).await?;
        self.note_version(&parts.headers);
        if !parts.status.is_success() {
            return Err(self.refusal(parts.status, &answer));
        }
        Ok(answer)
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(answer).map_err(|error| self.unreadable(error.to_string()))
    }

    /// Sends a request whose answer is read piece by piece, and checks the status.
    pub(crate) async fn start(
        &self,
        request: Request<Body>,
    ) -> Result<(Incoming, Option<Driver>), Error> {
        let (answer, mut driver) = self.transport.start(request).await?;
        self.note_version(answer.headers());
        let (parts, body) = answer.into_parts();
        if !parts.status.is_success() {
            let body = drive(&mut driver, body.collect()).await;
            let body = body.map_err(|error| self.transport.broken(error))?;
            return Err(self.refusal(parts.status, &body.to_bytes()));
        }
        Ok((body, driver))
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn request(
        &self,
        method: Method,
        target: &Target,
        body: Option<Bytes>,
        key: Option<&IdempotencyKey>,
    ) -> Result<Request<Body>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(target.as_str())
            .header(header::HOST, self.endpoint().host())
            .header(
                skein_wire::TENANT_HEADER,
                value("the tenant", &self.identity.tenant)?,
            )
            .header(
                skein_wire::ACTOR_HEADER,
                value("the actor", &self.identity.actor)?,
            );
        if let Some(bearer) = self.endpoint().bearer() {
            let mut secret = value("the token", &format!("Bearer {bearer}"))?;
            secret.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, secret);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", value("the key", key.as_str())?);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| Error::Unsendable {
                what: "the request",
                reason: error.to_string(),
            })
    }

    pub(crate) fn note_version(&self, headers: &HeaderMap) {
        if let Some(version) = headers
            .get(skein_wire::VERSION_HEADER)
            .and_then(|value| value.to_str().ok())
        {
            let _ = self.daemon_version.set(version.to_owned());
        }
    }

    /// The error of an unsuccessful answer, also when the body is not an error object of Skein.
    pub(crate) fn refusal(&self, status: StatusCode, body: &[u8]) -> Error {
        let object = serde_json::from_slice::<ErrorBody>(body).map_or_else(
            |_| ErrorObject {
                kind: kind_of(status),
                message: format!(
                    "the daemon at {} answered {status}",
                    self.transport.endpoint()
                ),
                hints: vec![],
                details: serde_json::Map::new(),
            },
            |body| body.error,
        );
        Error::Answered {
            status: status.as_u16(),
            object,
        }
    }

    pub(crate) fn unreadable(&self, reason: String) -> Error {
        Error::Unreadable {
            endpoint: self.transport.endpoint().to_string(),
            reason,
        }
    }
}

fn value(what: &'static str, text: &str) -> Result<HeaderValue, Error> {
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    match HeaderValue::from_str(text) {
        Ok(value) if plain => Ok(value),
        _ => Err(Error::Unsendable {
            what,
            reason: "it may contain only printable ASCII".to_owned(),
        }),
    }
}

fn kind_of(status: StatusCode) -> ErrorKind {
    match status.as_u16() {
        400 | 405 | 406 | 411 | 413 | 414 | 415 | 422 | 431 => ErrorKind::Misuse,
        401 | 403 => ErrorKind::Refused,
        404 => ErrorKind::NotFound,
        409 | 412 => ErrorKind::Conflict,
        429 | 502 | 503 => ErrorKind::Unavailable,
        408 | 504 => ErrorKind::TimedOut,
        _ => ErrorKind::Failed,
    }
}
