//! Changes: append, rewind, replace a reply, compact, close what a crash left open.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::task::Poll;

use skein_domain::{Conflict, Invalid};

use super::draft::Draft;
use super::turn::Left;
use super::view::View;
use super::{ATTEMPTS, By, Transcript};
use crate::chain::Head;
use crate::error::{Error, Result};
use crate::hot::{Commit, Ids};
use crate::id::MessageId;
use crate::message::{Covers, Message, Role};
use crate::record;
use crate::repair;
use crate::state::State;

/// What an append found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    pub added: usize,
    /// There already, with the same content.
    pub already: usize,
    /// The transcript's version after it.
    pub version: u64,
}

/// What a rewind found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// Where the transcript ended just after it.
    pub end: u64,
    /// Messages that are no longer part of it.
    pub dropped: u64,
}

/// Which calls are closed when a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenCalls {
    All,
    /// Those of runs before the one that goes on, which may have begun already.
    OfEarlierRuns,
}

/// What became of a transcript by a change.
struct Changed {
    appended: Appended,
    /// How many messages there were.
    before: u64,
    after: Head,
}

impl Changed {
    fn rewound(&self) -> Rewound {
        Rewound {
            end: self.after.end,
            dropped: self.before.saturating_sub(self.after.marks.messages),
        }
    }
}

/// A change that is wanted; what it takes is decided on what is there.
enum Wish<'a> {
    /// Nothing but the fence.
    Claim,
    /// The fence, and results for the calls that were left open.
    Resume(OpenCalls),
    Say(&'a [Message]),
    Rewind(&'a MessageId),
    BeginReply(&'a MessageId),
    Compact {
        from: &'a MessageId,
        through: &'a MessageId,
        summary: &'a Message,
    },
    SetState {
        expected: u64,
        state: &'a State,
    },
}

impl Transcript {
    /// Lets only `by.run` and later ones write from now on.
    pub async fn claim(&self, by: By) -> Result<()> {
        self.change(by, Wish::Claim).await.map(|_| ())
    }

    /// Adds messages at the end, all or none. One whose id the transcript shows, inherited or its own, is not
    /// added again; if it says something else, nothing is added.
    pub async fn append(&self, by: By, messages: &[Message]) -> Result<Appended> {
        if let Some(summary) = messages.iter().find(|m| m.covers.is_some()) {
            let why = "summaries are written by compacting";
            return Err(Invalid::new("message", summary.id.as_str(), why).into());
        }
        self.add_by(by, Wish::Say(messages)).await
    }

    /// Goes back to just after a message, the state slice with it. What came later stays for the forks
    /// that share it; the transcript goes on without.
    pub async fn rewind(&self, by: By, to: &MessageId) -> Result<Rewound> {
        Ok(self.change(by, Wish::Rewind(to)).await?.rewound())
    }

    /// Makes way for the reply `id`, which was chosen before the model is asked: if an earlier attempt got
    /// as far as writing it, the transcript goes back to just before. A retry, a rewind and a crash all
    /// come to the same history this way.
    pub async fn begin_reply(&self, by: By, id: &MessageId) -> Result<Rewound> {
        Ok(self.change(by, Wish::BeginReply(id)).await?.rewound())
    }

    /// Adds a summary that stands for the messages from `from` to `through`, which are hidden from a
    /// model and kept for everybody else.
    pub async fn compact(
        &self,
        by: By,
        from: &MessageId,
        through: &MessageId,
        summary: &Message,
    ) -> Result<Appended> {
        let wish = Wish::Compact {
            from,
            through,
            summary,
        };
        self.add_by(by, wish).await
    }

    /// Replaces the state slice if it is at `expected`; answers its new version.
    pub async fn set_state(&self, by: By, expected: u64, state: State) -> Result<u64> {
        let wish = Wish::SetState {
            expected,
            state: &state,
        };
        self.add_by(by, wish).await.map(|done| done.version)
    }

    /// Closes the tool calls that were left open at the end: each gets a result that says so. To be called before a
    /// transcript is gone on with; the second time it finds nothing to do.
    pub async fn resume(&self, by: By, calls: OpenCalls) -> Result<Appended> {
        self.add_by(by, Wish::Resume(calls)).await
    }

    async fn add_by(&self, by: By, wish: Wish<'_>) -> Result<Appended> {
        Ok(self.change(by, wish).await?.appended)
    }

    /// Decides on what is there, and commits; again if someone was faster. Writers of this process take turns, so
    /// only those of others can be.
    async fn change(&self, by: By, wish: Wish<'_>) -> Result<Changed> {
        let all = &self.all;
        if let Wish::Say(messages) = wish
            && let Some(changed) = self.say_unseen(by, messages).await?
        {
            return Ok(changed);
        }
        let mut turn = all.tiers.slates.turn(&all.tenant, &self.id).await;
        *turn = None;
        for _ in 0..ATTEMPTS {
            let Some(row) = all.tiers.hot.look(&all.tenant, &self.id).await? else {
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
            let appended = self.decide(&mut view, &mut draft, &wish).await?;
            let changed = Changed {
                appended,
                before: view.head.marks.messages,
                after: draft.head().clone(),
            };
            if !draft.is_change() {
                return Ok(changed);
            }
            let change = draft.into_change(Some(row), Ids::Seen)?;
            let row = change.head.clone();
            if all.tiers.hot.commit(&all.tenant, &self.id, change).await? == Commit::Done {
                let head = changed.after.clone();
                // It is done; that its sources cannot be told now is the next writer's trouble.
                view.head = head.clone();
                let sources = view.sources().await;
                *turn = sources.ok().map(|sources| Left {
                    row,
                    head,
                    sources,
                    manifests: view.known(),
                });
                return Ok(changed);
            }
        }
        Err(all.busy(&self.id))
    }

    /// Adds messages after what the last writer left, if that is known and none of them was said before: then a
    /// commit is all it takes. `None`: it has to be looked at.
    async fn say_unseen(&self, by: By, messages: &[Message]) -> Result<Option<Changed>> {
        let all = &self.all;
        let (hot, tenant) = (&all.tiers.hot, &all.tenant);
        let mut turn = all.tiers.slates.turn(tenant, &self.id).await;
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
            view.know(&manifests);
            // What cannot be decided on a guess is looked at, errors too.
            if !matches!(view.inherits(&left.sources, &ids).await, Ok(false)) {
                return Ok(None);
            }
            manifests = view.known();
        }
        let mut draft = Draft::on(&left.head, by);
        for message in messages {
            if draft.say(message.clone()).is_err() {
                return Ok(None);
            }
        }
        let changed = Changed {
            appended: Appended {
                added: messages.len(),
                already: 0,
                version: draft.version(),
            },
            before: left.head.marks.messages,
            after: draft.head().clone(),
        };
        let change = draft.into_change(Some(left.row.clone()), Ids::Unseen)?;
        *turn = Some(Left {
            row: change.head.clone(),
            head: changed.after.clone(),
            sources: left.sources.clone(),
            manifests,
        });
        let mut commit = hot.commit(tenant, &self.id, change);
        // Sent while it is our turn, and waited for when it is the next one's.
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
        wish: &Wish<'_>,
    ) -> Result<Appended> {
        match wish {
            Wish::Claim => {}
            Wish::Resume(calls) => {
                let shown = view.effective().await?;
                let shown: Vec<Message> = shown.into_iter().map(|p| p.message).collect();
                let last = shown.iter().rfind(|m| m.role == Role::Assistant);
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
            Wish::Say(messages) => return self.add(view, draft, messages).await,
            Wish::Rewind(to) => {
                let end = view.position_of(to).await? + 1;
                if end < view.head.end {
                    draft.rewind(view.cut(end).await?)?;
                }
            }
            Wish::BeginReply(id) => {
                if let [Some(placed)] = view.said(std::slice::from_ref(*id)).await?.as_slice() {
                    // A slip of the pen would drop the question with the answer.
                    if matches!(placed.message.role, Role::User | Role::System) {
                        let why = "it names what was asked, not a reply";
                        return Err(Invalid::new("reply", id.as_str(), why).into());
                    }
                    draft.rewind(view.cut(placed.position).await?)?;
                }
            }
            Wish::Compact {
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
            Wish::SetState { expected, state } => {
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
        let before = view.said(&ids).await?;
        // Those of this batch, by id.
        let mut said: HashMap<&MessageId, &Message> = HashMap::new();
        let mut already = 0;
        for (message, before) in messages.iter().zip(&before) {
            let before = before.as_ref().map(|placed| &placed.message);
            match before.or_else(|| said.get(&message.id).copied()) {
                None => draft.say(message.clone())?,
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
    ) -> Result<Covers> {
        let covers = Covers {
            from: view.position_of(from).await?,
            end: view.position_of(through).await? + 1,
        };
        if covers.from < covers.end {
            return Ok(covers);
        }
        let why = format!("it comes after `{through}`");
        Err(Invalid::new("first covered message", from.as_str(), why).into())
    }

    /// Sets the state; answers its version.
    async fn set(
        &self,
        view: &mut View<'_>,
        draft: &mut Draft,
        expected: u64,
        state: &State,
    ) -> Result<u64> {
        let current = view.state().await?;
        // The answer to an earlier call like this one was lost.
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
