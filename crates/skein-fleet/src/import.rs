//! How what an agent said becomes the session's transcript.
//!
//! What was read of an agent's files is appended, on behalf of the run, before it is recorded that it was read: a
//! crash in between repeats it, and ids make it count once. A transcript that cannot be written holds up nothing
//! (L3). What was said waits, and is tried again; when more waits than is good, it is let go and read again later,
//! from where the record says that it is not in the transcript yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use skein_agent::agent::Reading;
use skein_domain::{Kind, TenantId, Timestamp};
use skein_ledger::transcript::SessionTranscripts;
use skein_transcript::{
    Error, Message, MessageId, RunNumber, Transcript, TranscriptId, WriteContext,
};
use tokio::sync::oneshot;

use super::supervisor::{RETRY_PAUSES, Supervisor};
use super::tail::process;

/// How much may wait: more is read again later.
const ROOM: usize = 1_024;
const ROOM_BYTES: usize = 16 * 1024 * 1024;
/// How much is appended at once.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// A tier that takes longer is taken for one that is not there.
const LONGEST: Duration = Duration::from_secs(30);
/// How long a supervisor waits for an append before it looks at other things.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);
/// The same when there is nothing else to look at.
pub(super) const LAST_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum Word {
    Said(Message),
    Rewound(MessageId),
}

/// What was said and is not known to be in the transcript.
#[derive(Debug, Default)]
pub(super) struct Import {
    waiting: VecDeque<Arc<Word>>,
    bytes: usize,
    /// How many of those are being appended, and who tells of it.
    going: Option<(usize, oneshot::Receiver<Result<(), Error>>)>,
    /// Whether the transcript is known to be there.
    begun: bool,
    pub(super) failures: u32,
    /// Not before this.
    due: u64,
}

impl Import {
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < ROOM && self.bytes < ROOM_BYTES
    }

    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    fn push(&mut self, word: Word) {
        self.bytes += weight(&word);
        self.waiting.push_back(Arc::new(word));
    }

    fn batch(&self) -> Vec<Arc<Word>> {
        let mut bytes = 0;
        let fits = |word: &&Arc<Word>| {
            let first = bytes == 0;
            bytes += weight(word);
            first || bytes <= BATCH_BYTES
        };
        let words = self.waiting.iter().take(BATCH).take_while(fits);
        words.cloned().collect()
    }

    fn appended(&mut self, count: usize) {
        for word in self.waiting.drain(..count) {
            self.bytes -= weight(&word);
        }
        self.begun = true;
        self.failures = 0;
    }
}

impl Supervisor {
    /// Keeps what was said until it is appended; gives back the rest.
    pub(super) fn take_words(&mut self, readings: Vec<Reading>) -> Vec<Reading> {
        let now = self.requests.now();
        let mut rest = vec![];
        for reading in readings {
            match reading {
                Reading::Said(mut message) => {
                    if message.at <= Timestamp::from_micros(0) {
                        message.at = now;
                    }
                    // Agents cannot be told of a refusal.
                    self.files.import.push(Word::Said(message.within_limits()));
                }
                Reading::Rewound { to } => self.files.import.push(Word::Rewound(to)),
                other => rest.push(other),
            }
        }
        rest
    }

    /// Has what was said appended, and stays for `patience` to hear of it. Returns when to come back although
    /// nothing rings.
    pub(super) async fn import(&mut self, patience: Duration) -> Option<u64> {
        if self.requests.session_transcripts().is_none() {
            // This daemon keeps no transcripts.
            self.files.import = Import::default();
            self.read_again();
            return None;
        }
        loop {
            if let Some((count, going)) = &mut self.files.import.going {
                let count = *count;
                // It rings when it is done.
                let heard = tokio::time::timeout(patience, going).await.ok()?;
                self.files.import.going = None;
                match heard {
                    Ok(Ok(())) => self.files.import.appended(count),
                    Ok(Err(error)) => self.cannot_import(&error),
                    // Everything stops.
                    Err(_) => return None,
                }
                if self.files.import.is_done() && self.read_again() {
                    return Some(self.now());
                }
            }
            if self.files.import.is_done() {
                return None;
            }
            if self.files.import.due > self.now() {
                return Some(self.files.import.due);
            }
            self.append_next();
        }
    }

    /// All that was read is in the transcript. Whether some file has more to say than was kept of it.
    fn read_again(&mut self) -> bool {
        let process = self.sight.pid.and_then(process);
        let agent = self.agent.clone();
        agent.is_some_and(|agent| self.files.tails.appended(&agent, process))
    }

    fn cannot_import(&mut self, error: &Error) {
        let session = &self.session_key.session;
        if self.files.import.failures == 0 {
            tracing::warn!(%session, %error, "what was said cannot be written to the transcript yet");
        }
        let index = usize::try_from(self.files.import.failures).unwrap_or(usize::MAX);
        let pause = RETRY_PAUSES[index.min(RETRY_PAUSES.len() - 1)];
        self.files.import.failures = self.files.import.failures.saturating_add(1);
        self.files.import.due = self.now() + pause;
    }

    fn append_next(&mut self) {
        let batch = self.files.import.batch();
        let writing = Writing {
            books: self.requests.session_transcripts().cloned(),
            tenant: self.session_key.tenant.clone(),
            id: TranscriptId::from(&self.session_key.session),
            by: WriteContext {
                run: RunNumber(self.run),
                at: self.requests.now(),
            },
        };
        let (count, begun, bell) = (
            batch.len(),
            self.files.import.begun,
            self.files.changed.clone(),
        );
        let work = async move {
            let done = tokio::time::timeout(LONGEST, writing.write(begun, batch)).await;
            bell.notify_one();
            done.unwrap_or_else(|_| Err(Error::hot("it takes too long")))
        };
        let going = self.requests.tasks().run("import", work);
        self.files.import.going = Some((count, going));
    }
}

/// One session's transcript, written on behalf of one run.
struct Writing {
    books: Option<Arc<SessionTranscripts>>,
    tenant: TenantId,
    id: TranscriptId,
    by: WriteContext,
}

impl Writing {
    async fn write(self, begun: bool, words: Vec<Arc<Word>>) -> Result<(), Error> {
        let Some(books) = &self.books else {
            return Ok(());
        };
        if !begun {
            books.begin(&self.tenant, &self.id, self.by).await?;
        }
        let transcript = books.of(&self.tenant).open(&self.id);
        let mut messages = vec![];
        for word in words {
            match &*word {
                Word::Said(message) => messages.push(message.clone()),
                Word::Rewound(to) => {
                    self.append(&transcript, &std::mem::take(&mut messages))
                        .await?;
                    match transcript.rewind(self.by, to).await {
                        Ok(rewound) => books.went_back(&self.tenant, &self.id, rewound.end),
                        Err(error) if !may_pass(&error) => return Err(error),
                        // It goes back to what it never said here.
                        Err(_) => {}
                    }
                }
            }
        }
        self.append(&transcript, &messages).await?;
        books.grew(&self.tenant, &self.id);
        Ok(())
    }

    /// What one message does not allow is no reason to leave out the others.
    async fn append(&self, transcript: &Transcript, messages: &[Message]) -> Result<(), Error> {
        if messages.is_empty() {
            return Ok(());
        }
        match transcript.append(self.by, messages).await {
            Ok(_) => return Ok(()),
            Err(error) if !may_pass(&error) => return Err(error),
            Err(_) => {}
        }
        for message in messages {
            let one = std::slice::from_ref(message);
            match transcript.append(self.by, one).await {
                Err(error) if !may_pass(&error) => return Err(error),
                Err(error) => {
                    let message = &message.id;
                    tracing::warn!(transcript = %self.id, %message, %error, "a message was left out");
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// Whether trying again would not help. A run that was fenced off has a successor, who reads what is left.
fn may_pass(error: &Error) -> bool {
    !matches!(error.kind(), Kind::Unavailable | Kind::Failed)
}

/// About how many bytes it has.
fn weight(word: &Word) -> usize {
    let Word::Said(message) = word else {
        return 64;
    };
    64 + message.weight()
}
