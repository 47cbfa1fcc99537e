//! The calls about transcripts.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use skein_wire::{
    Append, Appended, BeginReply, Compact, Delta, DeltaPassed, Flush, Flushed, Fork, Hit, Hydrate,
    Hydrated, Imported, List, Message, Repair, Repaired, ReplyBegun, Rewind, Rewound, Session,
    SetState, State, StateSet, TranscriptUsage,
};

use crate::call::Client;
use crate::error::Error;
use crate::key::Key;
use crate::query::{Page, Target};
use crate::transport::drive;

/// Which messages to read.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    pub newest_first: bool,
    /// What a model is shown.
    pub model: bool,
    pub page: Page,
}

/// What to look for in transcripts.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    pub text: String,
    pub session: Option<String>,
    pub project: Option<String>,
    pub role: Option<String>,
    /// RFC 3339.
    pub since: Option<String>,
    pub page: Page,
}

fn of(session: &str) -> Target {
    Target::new(["sessions", session, "transcript"])
}

fn part(session: &str, part: &str) -> Target {
    Target::new(["sessions", session, "transcript", part])
}

impl Client {
    pub async fn fork(&self, session: &str, body: &Fork, key: &Key) -> Result<Session, Error> {
        self.act(session, "fork", body, key).await
    }

    pub async fn list_messages(
        &self,
        session: &str,
        which: &Messages,
    ) -> Result<List<Message>, Error> {
        let target = of(session)
            .with("order", which.newest_first.then_some("newest"))
            .with("view", which.model.then_some("model"))
            .page(&which.page);
        self.get(&target).await
    }

    /// The messages' own ids make it safe to repeat; a key keeps the answer too.
    pub async fn append(
        &self,
        session: &str,
        body: &Append,
        key: Option<&Key>,
    ) -> Result<Appended, Error> {
        self.call(Method::POST, &of(session), Some(body), key).await
    }

    /// Has no key: it is heard by those who listen now, and stored nowhere.
    pub async fn pass_delta(&self, session: &str, body: &Delta) -> Result<DeltaPassed, Error> {
        let target = part(session, "deltas");
        self.call(Method::POST, &target, Some(body), None).await
    }

    pub async fn get_state(&self, session: &str) -> Result<State, Error> {
        self.get(&part(session, "state")).await
    }

    pub async fn set_state(
        &self,
        session: &str,
        body: &SetState,
        key: &Key,
    ) -> Result<StateSet, Error> {
        let target = part(session, "state");
        self.call(Method::PUT, &target, Some(body), Some(key)).await
    }

    pub async fn rewind_transcript(
        &self,
        session: &str,
        body: &Rewind,
        key: &Key,
    ) -> Result<Rewound, Error> {
        self.post(&part(session, "rewind"), body, key).await
    }

    pub async fn begin_reply(
        &self,
        session: &str,
        body: &BeginReply,
        key: &Key,
    ) -> Result<ReplyBegun, Error> {
        self.post(&part(session, "reply"), body, key).await
    }

    pub async fn repair_transcript(
        &self,
        session: &str,
        body: &Repair,
        key: &Key,
    ) -> Result<Repaired, Error> {
        self.post(&part(session, "repair"), body, key).await
    }

    pub async fn compact(
        &self,
        session: &str,
        body: &Compact,
        key: &Key,
    ) -> Result<Appended, Error> {
        self.post(&part(session, "compact"), body, key).await
    }

    pub async fn flush(&self, session: &str, body: &Flush, key: &Key) -> Result<Flushed, Error> {
        self.post(&part(session, "flush"), body, key).await
    }

    pub async fn hydrate(&self, session: &str, key: &Key) -> Result<Hydrated, Error> {
        self.post(&part(session, "hydrate"), &Hydrate {}, key).await
    }

    pub async fn transcript_usage(&self, session: &str) -> Result<TranscriptUsage, Error> {
        self.get(&part(session, "usage")).await
    }

    pub async fn search_transcripts(&self, which: &Hits) -> Result<List<Hit>, Error> {
        let target = Target::new(["transcripts", "search"])
            .with("q", Some(&which.text))
            .with("session", which.session.as_deref())
            .with("project", which.project.as_deref())
            .with("role", which.role.as_deref())
            .with("since", which.since.as_deref())
            .page(&which.page);
        self.get(&target).await
    }

    /// Takes over a snapshot of zeitlich.
    pub async fn import_transcript(
        &self,
        session: &str,
        blob: Bytes,
        key: &Key,
    ) -> Result<Imported, Error> {
        let target = part(session, "import");
        self.exchange(|| {
            let blob = Some(blob.clone());
            let mut request = self.request(Method::POST, &target, blob, Some(key))?;
            let kind = HeaderValue::from_static("application/gzip");
            request.headers_mut().insert(header::CONTENT_TYPE, kind);
            Ok(request)
        })
        .await
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
        let (answer, mut driver) = self.transport().start(request).await?;
        self.note_version(answer.headers());
        let (parts, body) = answer.into_parts();
        if !parts.status.is_success() {
            let body = drive(&mut driver, body.collect()).await;
            let body = body.map_err(|error| self.transport().broken(error))?;
            return Err(self.refusal(parts.status, &body.to_bytes()));
        }
        Ok(Download {
            client: self,
            body,
            driver,
        })
    }
}

/// A file as it comes.
pub struct Download<'a> {
    client: &'a Client,
    body: Incoming,
    driver: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
}

impl fmt::Debug for Download<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download").finish_non_exhaustive()
    }
}

impl Download<'_> {
    /// The next piece; none at the end. A file that breaks off is an error, never an end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let Some(frame) = drive(&mut self.driver, self.body.frame()).await else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| self.client.transport().broken(error))?;
            match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(frame) => {
                    let told = frame.trailers_ref();
                    if let Some(told) = told.and_then(|t| t.get(skein_wire::ERROR_TRAILER)) {
                        let status = hyper::StatusCode::INTERNAL_SERVER_ERROR;
                        return Err(self.client.refusal(status, told.as_bytes()));
                    }
                }
            }
        }
    }
}
