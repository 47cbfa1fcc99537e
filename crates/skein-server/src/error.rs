//! Errors as answers: one table from kind to status, one rendering.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use skein_domain::{Detail, Kind, Refused};
use skein_fleet::Error;
use skein_wire::{ErrorBody, ErrorKind, ErrorObject};

/// A failed request.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    object: ErrorObject,
}

/// The documented table of kinds in answers and their statuses; the command line has its own to exit codes.
fn answered(kind: Kind) -> (ErrorKind, StatusCode) {
    match kind {
        Kind::Misuse => (ErrorKind::Misuse, StatusCode::BAD_REQUEST),
        Kind::NotFound => (ErrorKind::NotFound, StatusCode::NOT_FOUND),
        Kind::Conflict => (ErrorKind::Conflict, StatusCode::CONFLICT),
        Kind::Refused => (ErrorKind::Refused, StatusCode::FORBIDDEN),
        Kind::Unavailable => (ErrorKind::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
        Kind::TimedOut => (ErrorKind::TimedOut, StatusCode::GATEWAY_TIMEOUT),
        Kind::Failed => (ErrorKind::Failed, StatusCode::INTERNAL_SERVER_ERROR),
    }
}

pub fn exit_status(kind: Kind) -> StatusCode {
    answered(kind).1
}

impl ApiError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>, hints: &[&str]) -> Self {
        let object = ErrorObject {
            kind: answered(kind).0,
            message: message.into(),
            hints: hints.iter().map(|h| (*h).into()).collect(),
            details: Map::new(),
        };
        Self {
            status: exit_status(kind),
            object,
        }
    }

    pub(crate) fn misuse(message: impl Into<String>, hints: &[&str]) -> Self {
        Self::new(Kind::Misuse, message, hints)
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }
}

/// The error as the API and the command line show it.
pub fn object(error: &Error) -> ErrorObject {
    let details = error
        .domain()
        .map(skein_domain::Error::details)
        .unwrap_or_default();
    ErrorObject {
        kind: answered(error.kind()).0,
        message: error.to_string(),
        hints: error.hints(),
        details: details
            .into_iter()
            .map(|(name, value)| (name.to_owned(), detail(value)))
            .collect(),
    }
}

fn detail(value: Detail) -> Value {
    match value {
        Detail::Text(text) => text.into(),
        Detail::Number(number) => number.into(),
        Detail::Rows(rows) => rows
            .into_iter()
            .map(|row| {
                Value::Object(
                    row.into_iter()
                        .map(|(k, v)| (k.to_owned(), v.into()))
                        .collect(),
                )
            })
            .collect(),
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        if error.kind() == Kind::Failed {
            tracing::error!(%error, "a request failed");
        }
        let status = match error.domain() {
            Some(skein_domain::Error::Refused(Refused::Unauthorized { .. })) => {
                StatusCode::UNAUTHORIZED
            }
            _ => exit_status(error.kind()),
        };
        Self {
            status,
            object: object(&error),
        }
    }
}

macro_rules! through_fleet {
    ($($error:ty),+) => {
        $(impl From<$error> for ApiError {
            fn from(error: $error) -> Self {
                Error::from(error).into()
            }
        })+
    };
}
through_fleet!(
    skein_ledger::Error,
    skein_domain::Invalid,
    skein_domain::Refused
);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorBody { error: self.object })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = axum::http::HeaderValue::from_static("Bearer realm=\"skein\"");
            response
                .headers_mut()
                .insert(axum::http::header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
