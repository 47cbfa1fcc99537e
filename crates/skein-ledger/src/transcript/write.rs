//! What changes a transcript: append, rewind, replies that a model repeats, repair, compact, the state slice, import.

use skein_domain::fact::{RewindTarget, SessionChange};
use skein_domain::{Invalid, Kind, MessageId, SessionId};
use skein_transcript::service::{Appended, OpenCalls, Rewound};
use skein_transcript::{Message, StateSlice, WriteContext, zeitlich};

use super::access::{Editor, OpenTranscript, TranscriptRequests, is_missing};
use super::{Delta, TranscriptEdit};
use crate::caller::Answer;
use crate::error::Error;
use crate::tasks::blocking;

/// Messages of an import that are appended at once.
const IMPORT_MESSAGES: usize = 500;
/// About how many bytes of them.
const IMPORT_BYTES: usize = 8 * 1024 * 1024;
/// How often an import tries again to set the state slice when other writers set it at the same time.
const STATE_ATTEMPTS: usize = 8;

impl TranscriptRequests<'_> {
    /// Adds messages at the end, all or none. A message that is there already is not added again, so a caller that
    /// lost the answer can repeat the call, with or without a key.
    pub async fn append(
        self,
        reference: String,
        run: Option<u64>,
        messages: Vec<Message>,
    ) -> Result<Answer, Error> {
        let op = "append to a transcript";
        if let Some(earlier) = self.core.earlier().await? {
            return Ok(earlier);
        }
        if messages.is_empty() {
            return Err(Invalid::new("messages", "", "there is nothing to append").into());
        }
        let open = self.writable(op, Editor::Any, reference, run).await?;
        let by = open.by();
        let appended = open.append(by, &timed(messages, by)).await?;
        open.done(op, TranscriptEdit::Appended(appended), None)
            .await
    }

    /// Passes a piece of a message that is still being written on to the transcript's followers. Nothing stores it.
    pub async fn pass_delta(
        self,
        reference: String,
        run: Option<u64>,
        delta: Delta,
    ) -> Result<SessionId, Error> {
        let op = "stream to a transcript";
        let open = self.writable(op, Editor::Any, reference, run).await?;
        let (tenant, id) = (self.core.tenant(), open.transcript.id());
        self.transcripts.pass_delta(tenant, id, delta);
        Ok(open.session.id)
    }

    /// Goes back to just after a message. Later messages stay for the forks that share them.
    pub async fn rewind(
        self,
        reference: String,
        run: Option<u64>,
        to: MessageId,
    ) -> Result<Answer, Error> {
        let op = "rewind a transcript";
        if let Some(earlier) = self.core.earlier().await? {
            return Ok(earlier);
        }
        let open = self.writable(op, Editor::People, reference, run).await?;
        open.ensure().await?;
        let Rewound { end, dropped } = open.transcript.rewind(open.by(), &to).await?;
        open.went_back(end);
        let change = SessionChange::TranscriptRewound {
            to: RewindTarget::After(to.clone()),
            dropped,
        };
        let done = TranscriptEdit::Rewound { to, dropped };
        open.done(op, done, Some(change)).await
    }

    /// Makes room for the reply `id`, which the loop chooses before it asks its model: if an earlier attempt got as
    /// far as appending that reply, the transcript goes back to just before it. The loop calls this ahead of every
    /// attempt, so that there is one reply however many attempts break off.
    pub async fn begin_reply(
        self,
        reference: String,
        run: Option<u64>,
        id: MessageId,
    ) -> Result<Answer, Error> {
        let op = "begin a reply";
        if let Some(earlier) = self.core.earlier().await? {
            return Ok(earlier);
        }
        let open = self.writable(op, Editor::Loop, reference, run).await?;
        let dropped = open.drop_reply(&id).await?;
        let change = (dropped > 0).then(|| SessionChange::TranscriptRewound {
            to: RewindTarget::Before(id.clone()),
            dropped,
        });
        let done = TranscriptEdit::ReplyBegun { id, dropped };
        open.done(op, done, change).await
    }

    /// Closes tool calls that were left open: each gets one result, which says that it failed. The loop calls this
    /// before it continues a conversation; a second call finds nothing to do.
    pub async fn repair(self, reference: String, run: Option<u64>) -> Result<Answer, Error> {
        let op = "repair a transcript";
        if let Some(earlier) = self.core.earlier().await? {
            return Ok(earlier);
        }
        let open = self.writable(op, Editor::Loop, reference, run).await?;
        let closed = open.close_calls(OpenCalls::All).await?;
        let done = TranscriptEdit::Repaired { closed };
        open.done(op, done, None).await
    }

    /// Adds a summary that a model is shown in place of the messages from `from` to `through`.
    pub async fn compact(
        self,
        reference: String,
        run: Option<u64>,
        from: MessageId,
        through: MessageId,
        summary: Message,
    ) -> Result<Answer, Error> {
        let op = "compact a transcript";
        if let Some(earlier) = self.core.earlier().await? {
            return Ok(earlier);
        }
        let open = self.writable(op, Editor::Any, reference, run).await?;
        open.ensure().await?;
        let by = open.by();
        let summary = Message {
            at: by.at,
            ..summary
        };
        let transcript = &open.transcript;
        let appended = transcript.compact(by, &from, &through, &summary).await?;
        open.grew();
        open.done(op, TranscriptEdit::Appended(appended), None)
            .await
    }

    /// Replaces the state slice if it is still at `expected`.
    pub async fn set_state(
        self,
        reference: String,
        run: Option<u64>,
        expected: u64,
        state: StateSlice,
    ) -> Result<Answer, Error> {
        let op = "set the state of a transcript";
        if let Some(earlier) = self.core.earlier().await? {
            return Ok(earlier);
        }
        let open = self.writable(op, Editor::Any, reference, run).await?;
        open.ensure().await?;
        let set = open.transcript.set_state(open.by(), expected, state);
        let done = TranscriptEdit::StateSet {
            version: set.await?,
        };
        open.done(op, done, None).await
    }

    /// Appends what a snapshot of zeitlich holds. Repeating the import adds what is missing.
    pub async fn import_zeitlich(self, reference: String, blob: Vec<u8>) -> Result<Answer, Error> {
        let op = "import a transcript";
        if let Some(earlier) = self.core.earlier().await? {
            return Ok(earlier);
        }
        let open = self.writable(op, Editor::People, reference, None).await?;
        let at = self.core.now();
        let snapshot = blocking(move || zeitlich::import(&blob, at))
            .await
            .map_err(|_| Error::Stopped)??;
        open.ensure().await?;
        let (mut added, mut already) = (0, 0);
        for part in parts(&snapshot.messages) {
            let appended = open.append(open.by(), part).await?;
            added += appended.added as u64;
            already += appended.already as u64;
        }
        if let Some(state) = snapshot.state {
            open.take_state(state).await?;
        }
        let change = SessionChange::TranscriptImported {
            format: zeitlich::PROVIDER,
            added,
            already,
        };
        let done = TranscriptEdit::Imported { added, already };
        open.done(op, done, Some(change)).await
    }
}

impl OpenTranscript<'_> {
    async fn append(&self, by: WriteContext, messages: &[Message]) -> Result<Appended, Error> {
        let (tenant, id) = (self.requests.core.tenant(), self.transcript.id());
        self.close_overdue().await?;
        if self
            .requests
            .transcripts
            .creations
            .may_have_none(tenant, id)
        {
            self.ensure().await?;
        }
        let appended = match self.transcript.append(by, messages).await {
            Err(error) if is_missing(&error) => {
                self.ensure().await?;
                self.transcript.append(by, messages).await?
            }
            other => other?,
        };
        if appended.added > 0 {
            self.grew();
        }
        Ok(appended)
    }

    /// Goes back to just before the reply, if it is there. Returns how many messages that dropped.
    async fn drop_reply(&self, id: &MessageId) -> Result<u64, Error> {
        if self.is_known_empty().await? {
            return Ok(0);
        }
        let Rewound { end, dropped } = match self.transcript.begin_reply(self.by(), id).await {
            Err(error) if is_missing(&error) => return Ok(0),
            other => other?,
        };
        if dropped > 0 {
            self.went_back(end);
        }
        Ok(dropped)
    }

    /// Returns how many calls were closed.
    pub(super) async fn close_calls(&self, calls: OpenCalls) -> Result<u64, Error> {
        if self.is_known_empty().await? {
            return Ok(0);
        }
        let closed = match self.transcript.resume(self.by(), calls).await {
            Err(error) if is_missing(&error) => 0,
            other => other?.added as u64,
        };
        if closed > 0 {
            self.grew();
        }
        Ok(closed)
    }

    async fn take_state(&self, state: StateSlice) -> Result<(), Error> {
        let mut attempts = 0;
        loop {
            let now = self.transcript.state().await?;
            if now.state == state {
                return Ok(());
            }
            let set = self
                .transcript
                .set_state(self.by(), now.version, state.clone());
            match set.await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == Kind::Conflict && attempts < STATE_ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Messages with their writer's times, none later than now: a time in the future would delay the times of all later
/// messages.
fn timed(messages: Vec<Message>, by: WriteContext) -> Vec<Message> {
    let at = |m: Message| Message {
        at: m.at.min(by.at),
        ..m
    };
    messages.into_iter().map(at).collect()
}

/// The messages in parts that are appended one by one.
fn parts(messages: &[Message]) -> Vec<&[Message]> {
    let (mut parts, mut from, mut bytes) = (vec![], 0, 0);
    for (n, message) in messages.iter().enumerate() {
        let size = message.weight();
        if n > from && (n - from == IMPORT_MESSAGES || bytes + size > IMPORT_BYTES) {
            parts.push(&messages[from..n]);
            (from, bytes) = (n, 0);
        }
        bytes += size;
    }
    if from < messages.len() {
        parts.push(&messages[from..]);
    }
    parts
}
