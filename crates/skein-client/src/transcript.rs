//! Transcripts as files: import and export.

use std::fmt;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use skein_wire::Imported;

use crate::call::Client;
use crate::error::Error;
use crate::key::IdempotencyKey;
use crate::query::Target;
use crate::transport::{Driver, drive};

fn part(session: &str, part: &str) -> Target {
    Target::new(["sessions", session, "transcript", part])
}

impl Client {
    /// Imports a zeitlich snapshot.
    pub async fn import_transcript(
        &self,
        session: &str,
        blob: Bytes,
        key: &IdempotencyKey,
    ) -> Result<Imported, Error> {
        let target = part(session, "import");
        let request = || {
            let blob = Some(blob.clone());
            let mut request = self.request(Method::POST, &target, blob, Some(key))?;
            let kind = HeaderValue::from_static("application/gzip");
            request.headers_mut().insert(header::CONTENT_TYPE, kind);
            Ok(request)
        };
        self.decode(&self.exchange(&request).await?)
    }

    /// The whole transcript as a file: `jsonl`, `markdown`, `html` or `zeitlich`.
    pub async fn export_transcript(
        &self,
        session: &str,
        format: &str,
    ) -> Result<Download<'_>, Error> {
        let target = part(session, "export").with("format", Some(format));
        let mut request = self.request(Method::GET, &target, None, None)?;
        let trailers = HeaderValue::from_static("trailers");
        request.headers_mut().insert(header::TE, trailers);
        let (body, driver) = self.start(request).await?;
        Ok(Download {
            client: self,
            body,
            driver,
        })
    }
}

/// A file that arrives piece by piece.
pub struct Download<'a> {
    client: &'a Client,
    body: Incoming,
    driver: Option<Driver>,
}

impl fmt::Debug for Download<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download").finish_non_exhaustive()
    }
}

impl Download<'_> {
    /// The next piece, or `None` at the end. A file that breaks off is an error, never an end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let Some(frame) = drive(&mut self.driver, self.body.frame()).await else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| self.client.transport().broken(error))?;
            match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(frame) => {
                    let trailers = frame.trailers_ref();
                    if let Some(error) = trailers.and_then(|t| t.get(skein_wire::ERROR_TRAILER)) {
                        let status = hyper::StatusCode::INTERNAL_SERVER_ERROR;
                        return Err(self.client.refusal(status, error.as_bytes()));
                    }
                }
            }
        }
    }
}
