//! How the messages that an agent wrote to its files become the session's transcript.
//!
//! What was read of an agent's files is appended, on behalf of the run, before it is recorded that it was read: a
//! crash in between repeats it, and ids make it count once. A transcript that cannot be written holds up nothing
//! (L3): messages wait in a queue and are tried again. When the queue is full, further messages are dropped and read
//! again later, from the position that the record has for that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use skein_agent::agent::Reading;
use skein_domain::{Kind, TenantId, Timestamp};
use skein_ledger::transcript::SessionTranscripts;
use skein_transcript::{
    Error, Message, MessageId, RunNumber, Transcript, TranscriptId, WriteContext,
};
use tokio::sync::{Notify, oneshot};

use super::listen::AgentFiles;
use super::supervisor::{ObservedAgent, RETRY_PAUSES, RunContext};

/// How much the queue holds; what does not fit is read again later.
const CAPACITY: usize = 1_024;
const CAPACITY_BYTES: usize = 16 * 1024 * 1024;
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
enum TranscriptChange {
    Message(Message),
    Rewound(MessageId),
}

/// The queue of messages that are not known to be in the transcript.
#[derive(Debug, Default)]
pub(super) struct Import {
    waiting: VecDeque<Arc<TranscriptChange>>,
    bytes: usize,
    /// How many of those are being appended, and where the result arrives.
    going: Option<(usize, oneshot::Receiver<Result<(), Error>>)>,
    /// Whether the transcript is known to be there.
    begun: bool,
    pub(super) failures: u32,
    /// Not before this.
    due: u64,
}

impl Import {
    pub(super) fn has_capacity(&self) -> bool {
        self.waiting.len() < CAPACITY && self.bytes < CAPACITY_BYTES
    }

    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    fn push(&mut self, change: TranscriptChange) {
        self.bytes += weight(&change);
        self.waiting.push_back(Arc::new(change));
    }

    fn batch(&self) -> Vec<Arc<TranscriptChange>> {
        let mut bytes = 0;
        let fits = |change: &&Arc<TranscriptChange>| {
            let first = bytes == 0;
            bytes += weight(change);
            first || bytes <= BATCH_BYTES
        };
        let changes = self.waiting.iter().take(BATCH).take_while(fits);
        changes.cloned().collect()
    }

    fn remove_imported(&mut self, count: usize) {
        for change in self.waiting.drain(..count) {
            self.bytes -= weight(&change);
        }
        self.begun = true;
        self.failures = 0;
    }

    /// Adds messages to the queue.
    pub(super) fn enqueue(&mut self, readings: Vec<Reading>, now: Timestamp) {
        for reading in readings {
            match reading {
                Reading::Message(mut message) => {
                    if message.at <= Timestamp::from_micros(0) {
                        message.at = now;
                    }
                    // A refusal could not be reported to the agent.
                    self.push(TranscriptChange::Message(message.within_limits()));
                }
                Reading::Rewound { to } => self.push(TranscriptChange::Rewound(to)),
                _ => {}
            }
        }
    }

    fn failed(&mut self, context: &RunContext, error: &Error) {
        let session = &context.session_key.session;
        if self.failures == 0 {
            tracing::warn!(%session, %error, "messages cannot be written to the transcript yet");
        }
        let index = usize::try_from(self.failures).unwrap_or(usize::MAX);
        let pause = RETRY_PAUSES[index.min(RETRY_PAUSES.len() - 1)];
        self.failures = self.failures.saturating_add(1);
        self.due = context.now() + pause;
    }

    /// Starts a task that appends the next messages and then notifies `done`.
    fn append_next(&mut self, context: &RunContext, done: &Arc<Notify>) {
        let batch = self.batch();
        let writing = Writing {
            transcripts: context.requests.session_transcripts().cloned(),
            tenant: context.session_key.tenant.clone(),
            id: TranscriptId::from(&context.session_key.session),
            by: WriteContext {
                run: RunNumber(context.run),
                at: context.requests.now(),
            },
        };
        let (count, begun, done) = (batch.len(), self.begun, done.clone());
        let work = async move {
            let written = tokio::time::timeout(LONGEST, writing.write(begun, batch)).await;
            done.notify_one();
            written.unwrap_or_else(|_| Err(Error::hot("it takes too long")))
        };
        let going = context.requests.tasks().run("import", work);
        self.going = Some((count, going));
    }
}

impl AgentFiles {
    /// Has the messages appended, and waits for `patience` for the result. Returns when to come back although the
    /// task that appends has not woken the supervisor.
    pub(super) async fn import(
        &mut self,
        context: &RunContext,
        agent: &ObservedAgent,
        patience: Duration,
    ) -> Option<u64> {
        if context.requests.session_transcripts().is_none() {
            // This daemon keeps no transcripts.
            self.import = Import::default();
            self.read_again(agent);
            return None;
        }
        loop {
            if let Some((count, going)) = &mut self.import.going {
                let count = *count;
                // The task wakes the supervisor when it is done.
                let result = tokio::time::timeout(patience, going).await.ok()?;
                self.import.going = None;
                match result {
                    Ok(Ok(())) => self.import.remove_imported(count),
                    Ok(Err(error)) => self.import.failed(context, &error),
                    // The daemon stops.
                    Err(_) => return None,
                }
                if self.import.is_done() && self.read_again(agent) {
                    return Some(context.now());
                }
            }
            if self.import.is_done() {
                return None;
            }
            if self.import.due > context.now() {
                return Some(self.import.due);
            }
            self.import.append_next(context, &self.changed);
        }
    }

    /// All that was read is in the transcript. Returns whether some file holds more than was kept of it.
    fn read_again(&mut self, agent: &ObservedAgent) -> bool {
        let program = agent.program.as_ref();
        program.is_some_and(|program| self.tails.mark_imported(program, agent.process()))
    }
}

/// One session's transcript, written on behalf of one run.
struct Writing {
    transcripts: Option<Arc<SessionTranscripts>>,
    tenant: TenantId,
    id: TranscriptId,
    by: WriteContext,
}

impl Writing {
    async fn write(self, begun: bool, changes: Vec<Arc<TranscriptChange>>) -> Result<(), Error> {
        let Some(transcripts) = &self.transcripts else {
            return Ok(());
        };
        if !begun {
            transcripts.begin(&self.tenant, &self.id, self.by).await?;
        }
        let transcript = transcripts.of(&self.tenant).open(&self.id);
        let mut messages = vec![];
        for change in changes {
            match &*change {
                TranscriptChange::Message(message) => messages.push(message.clone()),
                TranscriptChange::Rewound(to) => {
                    self.append(&transcript, &std::mem::take(&mut messages))
                        .await?;
                    match transcript.rewind(self.by, to).await {
                        Ok(rewound) => transcripts.went_back(&self.tenant, &self.id, rewound.end),
                        Err(error) if !may_pass(&error) => return Err(error),
                        // It goes back to what it never said here.
                        Err(_) => {}
                    }
                }
            }
        }
        self.append(&transcript, &messages).await?;
        transcripts.grew(&self.tenant, &self.id);
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
fn weight(change: &TranscriptChange) -> usize {
    let TranscriptChange::Message(message) = change else {
        return 64;
    };
    64 + message.weight()
}
