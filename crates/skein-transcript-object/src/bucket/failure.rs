//! Maps a store's failures to errors. The store's own texts are omitted: they repeat keys and signatures (L14).

use std::error::Error as StdError;
use std::time::Duration;

use object_store::client::{HttpError, HttpErrorKind};
use skein_transcript::Error;

use crate::io::TIER;

/// What a failure means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    NoObject,
    /// The condition does not hold; nothing was written.
    Refused,
    /// Another writer is active, nothing was written, and the store asks for a retry.
    Contended,
    /// The request did not reach the store.
    NotSent,
    Denied,
    Misconfigured,
    /// The request may have been done.
    Unknown,
}

/// The facts of a failure that contain no secrets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Failure {
    status: Option<u16>,
    /// The store's own code, such as `NoSuchKey`.
    code: Option<String>,
    transport: Option<HttpErrorKind>,
    redirected: bool,
}

impl Failure {
    pub(super) fn of(error: &object_store::Error) -> Self {
        let mut failure = Self::default();
        let mut link: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(error) = link {
            if let Some(http) = error.downcast_ref::<HttpError>() {
                failure.transport = Some(http.kind());
            }
            link = error.source();
        }
        // The type with the status is private to `object_store`; only its text is accessible.
        let text = error.to_string();
        failure.status = after(&text, "status code: ").and_then(|rest| rest.get(..3)?.parse().ok());
        failure.code = after(&text, "<Code>")
            .and_then(|rest| rest.split('<').next())
            .and_then(word);
        failure.redirected = text.contains("Received redirect without LOCATION");
        failure
    }

    pub(super) fn means(&self) -> Means {
        let code = self.code.as_deref().unwrap_or("");
        match (self.status, code) {
            (_, "NoSuchBucket" | "ContainerNotFound" | "InvalidBucketName") => Means::Misconfigured,
            (Some(404), "NoSuchKey" | "BlobNotFound") => Means::NoObject,
            // Azure reports an existing object this way.
            (Some(304 | 412), _) | (Some(409), "BlobAlreadyExists") => Means::Refused,
            (Some(409), _) => Means::Contended,
            (Some(401 | 403), _) | (Some(400), "ExpiredToken" | "InvalidToken") => Means::Denied,
            (Some(408 | 429 | 500 | 502..=599), _) => Means::Unknown,
            (Some(301 | 302 | 307 | 308 | 400 | 405 | 501), _) => Means::Misconfigured,
            _ if self.redirected => Means::Misconfigured,
            _ if self.transport == Some(HttpErrorKind::Connect) => Means::NotSent,
            _ => Means::Unknown,
        }
    }

    pub(super) fn to_error(&self, label: &str, timeout: Duration) -> Error {
        let reason = format!("`{label}` {}", self.what(timeout));
        match self.means() {
            Means::Denied => Error::Denied {
                tier: TIER,
                reason,
                hint: self.advice(),
            },
            Means::Misconfigured => Error::Misconfigured {
                tier: TIER,
                reason,
                hint: self.advice(),
            },
            Means::NoObject
            | Means::Refused
            | Means::Contended
            | Means::NotSent
            | Means::Unknown => Error::cold(reason),
        }
    }

    fn what(&self, timeout: Duration) -> String {
        if let Some(status) = self.status {
            let code = self
                .code
                .as_deref()
                .map(|code| format!(" {code}"))
                .unwrap_or_default();
            return format!("answered {status}{code}");
        }
        if self.redirected {
            return "redirected without a target".into();
        }
        match self.transport {
            Some(HttpErrorKind::Connect) => "cannot be reached".into(),
            Some(HttpErrorKind::Timeout) => {
                format!("did not answer within {} s", timeout.as_secs_f64())
            }
            Some(HttpErrorKind::Interrupted | HttpErrorKind::Request) => {
                "closed the connection before its answer was complete".into()
            }
            _ => "sent an answer that cannot be understood".into(),
        }
    }

    fn advice(&self) -> String {
        match self.code.as_deref().unwrap_or("") {
            "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "AuthenticationFailed" => {
                "check the access key and its secret"
            }
            "ExpiredToken" | "InvalidToken" => "get a new session token: this one has expired",
            "RequestTimeTooSkewed" => "correct this machine's clock",
            "NoSuchBucket" | "ContainerNotFound" => "create the bucket, or correct its name",
            "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "IllegalLocationConstraintException" => "set the region of the bucket",
            "NotImplemented" => "use a store that honours If-Match and If-None-Match on puts",
            _ if self.redirected => "set the region of the bucket",
            _ if self.means() == Means::Denied => {
                "allow this key to get, put, delete and list objects in the bucket"
            }
            _ => "check the endpoint, the region and the name of the bucket",
        }
        .into()
    }
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

/// A code is one word of letters; other texts might contain secrets.
fn word(code: &str) -> Option<String> {
    let plain = (1..=48).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_alphabetic());
    plain.then(|| code.to_owned())
}
