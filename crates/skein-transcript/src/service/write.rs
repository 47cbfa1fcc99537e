//! Changes: append, rewind, replace a reply, compact, close open tool calls.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::task::Poll;

use skein_domain::{Conflict, Invalid};

use super::draft::Draft;
use super::turn::LastWrite;
use super::view::View;
use super::{ATTEMPTS, Transcript, WriteContext};
use crate::chain::TranscriptHead;
use crate::error::{Error, Result};
use crate::hot::{Commit, KnownIds};
use crate::id::MessageId;
use crate::message::{CoveredRange, Message, MessageRole};
use crate::record;
use crate::repair;
use crate::state::StateSlice;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    pub added: usize,
    /// Messages that existed with the same content.
    pub already: usize,
    /// The transcript's version afterwards.
    pub version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The transcript's end directly afterwards.
    pub end: u64,
    /// Messages that it no longer shows.
    pub dropped: u64,
}

/// Which calls to close when a session continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenCalls {
    All,
    /// Those of earlier runs; the present run may have begun its own.
    OfEarlierRuns,
}

struct AppliedEdit {
    appended: Appended,
    /// Number of messages before.
    before: u64,
    after: TranscriptHead,
}

impl AppliedEdit {
    fn rewound(&self) -> Rewound {
        Rewound {
            end: self.after.end,
            dropped: self.before.saturating_sub(self.after.marks.messages),
        }
    }
}

/// A requested change; the service decides on its effect when it has read the transcript.
enum Request<'a> {
    /// Only fences earlier runs.
    Claim,
    /// Fences earlier runs and closes open calls.
    Resume(OpenCalls),
    Append(&'a [Message]),
    Rewind(&'a MessageId),
    BeginReply(&'a MessageId),
    Compact {
        from: &'a MessageId,
        through: &'a MessageId,
        summary: &'a Message,
    },
    SetState {
        expected: u64,
        state: &'a StateSlice,
    },
}

impl Transcript {
    /// From now on only `by.run` and later runs may write.
    pub async fn claim(&self, by: WriteContext) -> Result<()> {
        self.change(by, Request::Claim).await.map(|_| ())
    }

    /// Appends all messages or none. A message whose id the transcript shows, inherited or own, is not added again; if
    /// its content differs, nothing is added.
    pub async fn append(&self, by: WriteContext, messages: &[Message]) -> Result<Appended> {
        if let Some(summary) = messages.iter().find(|m| m.covers.is_some()) {
            let why = "summaries are written by compaction";
            return Err(Invalid::new("message", summary.id.as_str(), why).into());
        }
        self.add_by(by, Request::Append(messages)).await
    }

    /// Goes back to directly after a message, with its state slice. Forks still share what came later; the transcript
    /// continues without it.
    pub async fn rewind(&self, by: WriteContext, to: &MessageId) -> Result<Rewound> {
        Ok(self.change(by, Request::Rewind(to)).await?.rewound())
    }

    /// Prepares for the reply `id`, which the caller chose before it asked the model: if an earlier attempt wrote that
    /// reply, the transcript goes back to just before it. So a retry, a rewind and a crash lead to the same history.
    pub async fn begin_reply(&self, by: WriteContext, id: &MessageId) -> Result<Rewound> {
        Ok(self.change(by, Request::BeginReply(id)).await?.rewound())
    }

    /// Appends a summary of the messages from `from` to `through`. A model no longer sees these; all other readers do.
    pub async fn compact(
        &self,
        by: WriteContext,
        from: &MessageId,
        through: &MessageId,
        summary: &Message,
    ) -> Result<Appended> {
        let request = Request::Compact {
            from,
            through,
            summary,
        };
        self.add_by(by, request).await
    }

    /// Replaces the state slice if it is at `expected`; returns its new version.
    pub async fn set_state(
        &self,
        by: WriteContext,
        expected: u64,
        state: StateSlice,
    ) -> Result<u64> {
        let request = Request::SetState {
            expected,
            state: &state,
        };
        self.add_by(by, request).await.map(|done| done.version)
    }

    /// Closes open tool calls at the end: each gets a result that says so. Call it before a transcript continues; it is
    /// idempotent.
    pub async fn resume(&self, by: WriteContext, calls: OpenCalls) -> Result<Appended> {
        self.add_by(by, Request::Resume(calls)).await
    }

    async fn add_by(&self, by: WriteContext, request: Request<'_>) -> Result<Appended> {
        Ok(self.change(by, request).await?.appended)
    }

    /// Decides on the present content and commits; repeats if another process was faster. Writers of this process take
    /// turns.
    async fn change(&self, by: WriteContext, request: Request<'_>) -> Result<AppliedEdit> {
        let all = &self.all;
        if let Request::Append(messages) = request
            && let Some(changed) = self.append_unseen(by, messages).await?
        {
            return Ok(changed);
        }
        let mut turn = all.tiers.turns.turn(&all.tenant, &self.id).await;
        *turn = None;
        for _ in 0..ATTEMPTS {
            let Some(row) = all.tiers.hot.head(&all.tenant, &self.id).await? else {
                self.hydrate().await?;
                continue;
            };
            let head = record::head(&row.body)?;
            if by.run < head.run {
                return Err(Error::Fenced {
                    transcript: self.id.clone(),
                    expected: by.run.0,
                    actual: head.run.0,
                });
            }
            let mut draft = Draft::on(&head, by);
            let mut view = all.view_at(&self.id, head);
            let appended = self.decide(&mut view, &mut draft, &request).await?;
            let changed = AppliedEdit {
                appended,
                before: view.head.marks.messages,
                after: draft.head().clone(),
            };
            if !draft.is_change() {
                return Ok(changed);
            }
            let change = draft.into_change(Some(row), KnownIds::Seen)?;
            let row = change.head.clone();
            if all.tiers.hot.commit(&all.tenant, &self.id, change).await? == Commit::Done {
                let head = changed.after.clone();
                // The change is committed. If its sources cannot be determined now, the next writer does it.
                view.head = head.clone();
                let sources = view.sources().await;
                *turn = sources.ok().map(|sources| LastWrite {
                    row,
                    head,
                    sources,
                    manifests: view.foreign_manifests(),
                });
                return Ok(changed);
            }
        }
        Err(all.busy(&self.id))
    }

    /// Appends messages with a single commit, if the last writer's head is known and all messages are new. `None` means
    /// that the caller must read the transcript first.
    async fn append_unseen(
        &self,
        by: WriteContext,
        messages: &[Message],
    ) -> Result<Option<AppliedEdit>> {
        let all = &self.all;
        let (hot, tenant) = (&all.tiers.hot, &all.tenant);
        let mut turn = all.tiers.turns.turn(tenant, &self.id).await;
        let Some(left) = turn.as_ref() else {
            return Ok(None);
        };
        let ids: Vec<MessageId> = messages.iter().map(|m| m.id.clone()).collect();
        let distinct = ids.iter().collect::<HashSet<_>>().len() == ids.len();
        if by.run < left.head.run || messages.is_empty() || !distinct {
            return Ok(None);
        }
        let mut manifests = left.manifests.clone();
        if !left.sources.is_empty() {
            let mut view = all.view_at(&self.id, left.head.clone());
            view.add_manifests(&manifests);
            // The caller decides everything else, errors included.
            if !matches!(view.inherits(&left.sources, &ids).await, Ok(false)) {
                return Ok(None);
            }
            manifests = view.foreign_manifests();
        }
        let mut draft = Draft::on(&left.head, by);
        for message in messages {
            if draft.append(message.clone()).is_err() {
                return Ok(None);
            }
        }
        let changed = AppliedEdit {
            appended: Appended {
                added: messages.len(),
                already: 0,
                version: draft.version(),
            },
            before: left.head.marks.messages,
            after: draft.head().clone(),
        };
        let change = draft.into_change(Some(left.row.clone()), KnownIds::Unseen)?;
        *turn = Some(LastWrite {
            row: change.head.clone(),
            head: changed.after.clone(),
            sources: left.sources.clone(),
            manifests,
        });
        let mut commit = hot.commit(tenant, &self.id, change);
        // Sends the commit during our turn, and waits for it in the next writer's turn.
        let sent = poll_fn(|cx| Poll::Ready(commit.as_mut().poll(cx))).await;
        drop(turn);
        let done = match sent {
            Poll::Ready(done) => done?,
            Poll::Pending => commit.await?,
        };
        Ok((done == Commit::Done).then_some(changed))
    }

    async fn decide(
        &self,
        view: &mut View<'_>,
        draft: &mut Draft,
        request: &Request<'_>,
    ) -> Result<Appended> {
        match request {
            Request::Claim => {}
            Request::Resume(calls) => {
                let shown = view.effective().await?;
                let shown: Vec<Message> = shown.into_iter().map(|p| p.message).collect();
                let last = shown.iter().rfind(|m| m.role == MessageRole::Assistant);
                let is_own = last.is_some_and(|m| m.run >= draft.head().run);
                if *calls == OpenCalls::OfEarlierRuns && is_own {
                    return self.add(view, draft, &[]).await;
                }
                let closing = repair::closing(&shown).into_iter();
                let closing: Vec<Message> = closing
                    .map(|m| Message {
                        at: draft.head().touched_at,
                        ..m
                    })
                    .collect();
                return self.add(view, draft, &closing).await;
            }
            Request::Append(messages) => return self.add(view, draft, messages).await,
            Request::Rewind(to) => {
                let end = view.position_of(to).await? + 1;
                if end < view.head.end {
                    draft.rewind(view.cut(end).await?)?;
                }
            }
            Request::BeginReply(id) => {
                if let [Some(placed)] = view
                    .find_messages(std::slice::from_ref(*id))
                    .await?
                    .as_slice()
                {
                    // Protects the question from being dropped with its answer.
                    if matches!(placed.message.role, MessageRole::User | MessageRole::System) {
                        let why = "it is a question, not a reply";
                        return Err(Invalid::new("reply", id.as_str(), why).into());
                    }
                    draft.rewind(view.cut(placed.position).await?)?;
                }
            }
            Request::Compact {
                from,
                through,
                summary,
            } => {
                let covers = self.covers(view, from, through).await?;
                let summary = Message {
                    covers: Some(covers),
                    ..(*summary).clone()
                };
                return self.add(view, draft, &[summary]).await;
            }
            Request::SetState { expected, state } => {
                let version = self.set(view, draft, *expected, state).await?;
                return Ok(Appended {
                    version,
                    ..Appended::default()
                });
            }
        }
        Ok(Appended {
            version: draft.version(),
            ..Appended::default()
        })
    }

    async fn add(
        &self,
        view: &mut View<'_>,
        draft: &mut Draft,
        messages: &[Message],
    ) -> Result<Appended> {
        let ids: Vec<MessageId> = messages.iter().map(|m| m.id.clone()).collect();
        let before = view.find_messages(&ids).await?;
        // Messages of this batch, by id.
        let mut said: HashMap<&MessageId, &Message> = HashMap::new();
        let mut already = 0;
        for (message, before) in messages.iter().zip(&before) {
            let before = before.as_ref().map(|placed| &placed.message);
            match before.or_else(|| said.get(&message.id).copied()) {
                None => draft.append(message.clone())?,
                Some(there) if there.says_the_same(message) => already += 1,
                Some(_) => {
                    return Err(Error::Reused {
                        transcript: self.id.clone(),
                        message: message.id.clone(),
                    });
                }
            }
            said.insert(&message.id, message);
        }
        Ok(Appended {
            added: messages.len() - already,
            already,
            version: draft.version(),
        })
    }

    async fn covers(
        &self,
        view: &mut View<'_>,
        from: &MessageId,
        through: &MessageId,
    ) -> Result<CoveredRange> {
        let covers = CoveredRange {
            from: view.position_of(from).await?,
            end: view.position_of(through).await? + 1,
        };
        if covers.from < covers.end {
            return Ok(covers);
        }
        let why = format!("it comes after `{through}`");
        Err(Invalid::new("first covered message", from.as_str(), why).into())
    }

    /// Sets the state; returns its version.
    async fn set(
        &self,
        view: &mut View<'_>,
        draft: &mut Draft,
        expected: u64,
        state: &StateSlice,
    ) -> Result<u64> {
        let current = view.state().await?;
        // The caller repeats a call whose answer was lost.
        if current.version > expected && current.state == *state {
            return Ok(current.version);
        }
        if current.version != expected {
            return Err(Conflict::Version {
                what: "state of transcript",
                id: self.id.to_string(),
                expected,
                actual: current.version,
            }
            .into());
        }
        draft.set(state.clone())
    }
}
