//! What changes a transcript: append, rewind, replies that are said anew, repair, compact, the state slice, import.

use skein_domain::fact::{RewindTarget, SessionChange};
use skein_domain::{Invalid, MessageId, SessionId};
use skein_transcript::service::{Appended, OpenCalls, Rewound};
use skein_transcript::{Message, StateSlice, WriteContext, zeitlich};

use super::access::{Book, is_missing};
use super::live::Notice;
use super::{Delta, TranscriptEdit};
use crate::caller::{Answer, RequestOutcome};
use crate::error::Error;
use crate::requests::LedgerRequests;
use crate::tasks::blocking;

/// Messages of an import that are appended at once.
const IMPORT_MESSAGES: usize = 500;
/// About how many bytes of them.
const IMPORT_BYTES: usize = 8 * 1024 * 1024;
/// How often a state is set anew when others set it at the same time.
const STATE_ATTEMPTS: usize = 8;

fn outcome(session: &SessionId, done: TranscriptEdit) -> RequestOutcome {
    RequestOutcome::Transcript {
        session: session.clone(),
        done,
    }
}

impl LedgerRequests {
    /// Adds messages at the end, all or none. One that is there already is not added again, so a call whose
    /// answer was lost can be repeated, with or without a key.
    pub async fn append(
        &self,
        reference: String,
        run: Option<u64>,
        messages: Vec<Message>,
    ) -> Result<Answer, Error> {
        let op = "append to a transcript";
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        if messages.is_empty() {
            return Err(Invalid::new("messages", "", "there is nothing to append").into());
        }
        let book = self.writable(op, reference, run).await?;
        let by = self.by(&book);
        let messages = timed(messages, by);
        let appended = self.say(&book, by, &messages).await?;
        let done = TranscriptEdit::Appended(appended);
        self.done(op, outcome(&book.session.id, done), None).await
    }

    async fn say(
        &self,
        book: &Book,
        by: WriteContext,
        messages: &[Message],
    ) -> Result<Appended, Error> {
        let id = book.transcript.id();
        self.settle_debt(book).await?;
        if self.books()?.beginnings.is_open(self.tenant(), id) {
            self.ensure(book).await?;
        }
        let appended = match book.transcript.append(by, messages).await {
            Err(error) if is_missing(&error) => {
                self.ensure(book).await?;
                book.transcript.append(by, messages).await?
            }
            other => other?,
        };
        if appended.added > 0 {
            self.tell(book, Notice::Grew)?;
        }
        Ok(appended)
    }

    fn tell(&self, book: &Book, notice: Notice) -> Result<(), Error> {
        let (books, id) = (self.books()?, book.transcript.id());
        if !matches!(notice, Notice::Delta(_)) {
            books.unseen.add(self.tenant(), id);
        }
        books.live.tell(self.tenant(), id, notice);
        Ok(())
    }

    /// Passes a piece of a message that is still being said on to whoever listens. It is written nowhere.
    pub async fn pass_delta(
        &self,
        reference: String,
        run: Option<u64>,
        delta: Delta,
    ) -> Result<SessionId, Error> {
        let op = "stream to a transcript";
        let book = self.writable(op, reference, run).await?;
        self.tell(&book, Notice::Delta(delta.into()))?;
        Ok(book.session.id)
    }

    /// Goes back to just after a message. What came later stays for the forks that share it.
    pub async fn rewind(
        &self,
        reference: String,
        run: Option<u64>,
        to: MessageId,
    ) -> Result<Answer, Error> {
        let op = "rewind a transcript";
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let book = self.writable_by_people(op, reference, run).await?;
        self.ensure(&book).await?;
        let Rewound { end, dropped } = book.transcript.rewind(self.by(&book), &to).await?;
        self.tell(&book, Notice::Rewound { end })?;
        let fact = SessionChange::TranscriptRewound {
            to: RewindTarget::After(to.clone()),
            dropped,
        };
        let done = outcome(&book.session.id, TranscriptEdit::Rewound { to, dropped });
        self.done(op, done, Some(fact.of(&book.session))).await
    }

    /// Makes way for the reply `id`, chosen before its model is asked: if an earlier attempt got as far as
    /// saying it, the transcript goes back to just before. To be called ahead of every attempt, so that
    /// however many there are, and wherever they break off, one reply comes of it.
    pub async fn begin_reply(
        &self,
        reference: String,
        run: Option<u64>,
        id: MessageId,
    ) -> Result<Answer, Error> {
        let op = "begin a reply";
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let book = self.writable_by_its_loop(op, reference, run).await?;
        let dropped = self.make_way(&book, &id).await?;
        let fact = SessionChange::TranscriptRewound {
            to: RewindTarget::Before(id.clone()),
            dropped,
        };
        let fact = (dropped > 0).then(|| fact.of(&book.session));
        let done = outcome(&book.session.id, TranscriptEdit::ReplyBegun { id, dropped });
        self.done(op, done, fact).await
    }

    /// How many messages were dropped.
    async fn make_way(&self, book: &Book, id: &MessageId) -> Result<u64, Error> {
        if self.is_silent(book).await? {
            return Ok(0);
        }
        let Rewound { end, dropped } = match book.transcript.begin_reply(self.by(book), id).await {
            // Nothing was said yet, so nothing is in the way.
            Err(error) if is_missing(&error) => return Ok(0),
            other => other?,
        };
        if dropped > 0 {
            self.tell(book, Notice::Rewound { end })?;
        }
        Ok(dropped)
    }

    /// Closes tool calls that were left open: each gets one result, which says that it failed. To be called
    /// before a conversation is gone on with; the second time there is nothing to do.
    pub async fn repair(&self, reference: String, run: Option<u64>) -> Result<Answer, Error> {
        let op = "repair a transcript";
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let book = self.writable_by_its_loop(op, reference, run).await?;
        let closed = self.close_calls(&book, OpenCalls::All).await?;
        let done = outcome(&book.session.id, TranscriptEdit::Repaired { closed });
        self.done(op, done, None).await
    }

    /// How many calls were closed.
    pub(super) async fn close_calls(&self, book: &Book, calls: OpenCalls) -> Result<u64, Error> {
        if self.is_silent(book).await? {
            return Ok(0);
        }
        let closed = match book.transcript.resume(self.by(book), calls).await {
            Err(error) if is_missing(&error) => 0,
            other => other?.added as u64,
        };
        if closed > 0 {
            self.tell(book, Notice::Grew)?;
        }
        Ok(closed)
    }

    /// Adds a summary that a model is shown in place of the messages from `from` to `through`.
    pub async fn compact(
        &self,
        reference: String,
        run: Option<u64>,
        from: MessageId,
        through: MessageId,
        summary: Message,
    ) -> Result<Answer, Error> {
        let op = "compact a transcript";
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let book = self.writable(op, reference, run).await?;
        self.ensure(&book).await?;
        let by = self.by(&book);
        let summary = Message {
            at: by.at,
            ..summary
        };
        let appended = book
            .transcript
            .compact(by, &from, &through, &summary)
            .await?;
        self.tell(&book, Notice::Grew)?;
        let done = outcome(&book.session.id, TranscriptEdit::Appended(appended));
        self.done(op, done, None).await
    }

    /// Replaces the state slice if it is still at `expected`.
    pub async fn set_state(
        &self,
        reference: String,
        run: Option<u64>,
        expected: u64,
        state: StateSlice,
    ) -> Result<Answer, Error> {
        let op = "set the state of a transcript";
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let book = self.writable(op, reference, run).await?;
        self.ensure(&book).await?;
        let by = self.by(&book);
        let version = book.transcript.set_state(by, expected, state).await?;
        let done = outcome(&book.session.id, TranscriptEdit::StateSet { version });
        self.done(op, done, None).await
    }

    /// Takes over what a snapshot of zeitlich holds, after what is there. Repeating it adds what is missing.
    pub async fn import_zeitlich(&self, reference: String, blob: Vec<u8>) -> Result<Answer, Error> {
        let op = "import a transcript";
        if let Some(earlier) = self.earlier().await? {
            return Ok(earlier);
        }
        let book = self.writable_by_people(op, reference, None).await?;
        let at = self.now();
        let snapshot = blocking(move || zeitlich::import(&blob, at))
            .await
            .map_err(|_| Error::Stopped)??;
        self.ensure(&book).await?;
        let (mut added, mut already) = (0, 0);
        for part in parts(&snapshot.messages) {
            let appended = self.say(&book, self.by(&book), part).await?;
            added += appended.added as u64;
            already += appended.already as u64;
        }
        if let Some(state) = snapshot.state {
            self.take_state(&book, state).await?;
        }
        let fact = SessionChange::TranscriptImported {
            format: zeitlich::PROVIDER,
            added,
            already,
        };
        let done = outcome(
            &book.session.id,
            TranscriptEdit::Imported { added, already },
        );
        self.done(op, done, Some(fact.of(&book.session))).await
    }

    async fn take_state(&self, book: &Book, state: StateSlice) -> Result<(), Error> {
        let mut attempts = 0;
        loop {
            let now = book.transcript.state().await?;
            if now.state == state {
                return Ok(());
            }
            let by = self.by(book);
            match book
                .transcript
                .set_state(by, now.version, state.clone())
                .await
            {
                Ok(_) => return Ok(()),
                Err(error)
                    if error.kind() == skein_domain::Kind::Conflict
                        && attempts < STATE_ATTEMPTS =>
                {
                    attempts += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What is said was said now, or when its sayer says, if that is past: a time to come would hold up the
/// times of everything after it.
fn timed(messages: Vec<Message>, by: WriteContext) -> Vec<Message> {
    let at = |m: Message| Message {
        at: m.at.min(by.at),
        ..m
    };
    messages.into_iter().map(at).collect()
}

/// Cut into parts that are appended one by one.
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
