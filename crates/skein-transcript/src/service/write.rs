//! Changes: append, rewind, replace a reply, compact, close what a crash left open.

use skein_domain::Invalid;

use super::draft::Draft;
use super::view::View;
use super::{ATTEMPTS, By, Transcript, Transcripts};
use crate::error::{Error, Result};
use crate::hot::Commit;
use crate::id::{MessageId, TranscriptId};
use crate::message::{Covers, Message};
use crate::record;
use crate::repair;

/// What an append found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub added: usize,
    /// There already, with the same content.
    pub already: usize,
    /// The transcript's version after it.
    pub version: u64,
}

impl Transcripts {
    /// Lets `decide` work on what is there and commits what it drafts; again if someone was faster.
    pub(super) async fn change<T>(
        &self,
        id: &TranscriptId,
        by: By,
        decide: impl AsyncFn(&mut View<'_>, &mut Draft) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..ATTEMPTS {
            let Some(row) = self.tiers.hot.look(&self.tenant, id).await? else {
                self.open(id).hydrate().await?;
                continue;
            };
            let head = record::head(&row.body)?;
            if by.run < head.run {
                return Err(Error::Fenced {
                    transcript: id.clone(),
                    expected: by.run.0,
                    actual: head.run.0,
                });
            }
            let mut draft = Draft::on(&head, by);
            let mut view = self.view_at(id, head);
            let answer = decide(&mut view, &mut draft).await?;
            if !draft.is_change() {
                return Ok(answer);
            }
            if self.commit(id, draft, Some(row.version)).await? == Commit::Done {
                return Ok(answer);
            }
        }
        Err(self.busy(id))
    }
}

impl Transcript {
    /// Lets only `by.run` and later ones write from now on.
    pub async fn claim(&self, by: By) -> Result<()> {
        self.all.change(&self.id, by, async |_, _| Ok(())).await
    }

    /// Adds messages at the end, all or none. One whose id this transcript has written before (and not
    /// rewound since) is not added again; if it says something else, nothing is added.
    pub async fn append(&self, by: By, messages: &[Message]) -> Result<Appended> {
        if let Some(summary) = messages.iter().find(|m| m.covers.is_some()) {
            let why = "summaries are written by compacting";
            return Err(Invalid::new("message", summary.id.as_str(), why).into());
        }
        self.all
            .change(&self.id, by, async |view, draft| self.add(view, draft, messages).await)
            .await
    }

    async fn add(
        &self,
        view: &mut View<'_>,
        draft: &mut Draft,
        messages: &[Message],
    ) -> Result<Appended> {
        let ids: Vec<MessageId> = messages.iter().map(|m| m.id.clone()).collect();
        let own = view.own(&ids).await?;
        let mut already = 0;
        for (n, (message, own)) in messages.iter().zip(own).enumerate() {
            let own = own.map(|placed| placed.message);
            let earlier = || messages[..n].iter().find(|m| m.id == message.id).cloned();
            match own.or_else(earlier) {
                None => draft.say(message.clone())?,
                Some(there) if there.says_the_same(message) => already += 1,
                Some(_) => {
                    return Err(Error::Reused {
                        transcript: self.id.clone(),
                        message: message.id.clone(),
                    });
                }
            }
        }
        let version = if draft.is_change() {
            draft.head().version
        } else {
            view.head.version
        };
        Ok(Appended {
            added: messages.len() - already,
            already,
            version,
        })
    }

    /// Goes back to just after a message, the state slice with it. What came later stays for the forks
    /// that share it; the transcript goes on without.
    pub async fn rewind(&self, by: By, to: &MessageId) -> Result<()> {
        self.all
            .change(&self.id, by, async |view, draft| {
                let end = view.position_of(to).await? + 1;
                if end < view.head.end {
                    draft.rewind(view.cut(end).await?)?;
                }
                Ok(())
            })
            .await
    }

    /// Makes way for the reply `id`, which was chosen before the model is asked: if an earlier attempt got
    /// as far as writing it, the transcript goes back to just before. A retry, a rewind and a crash all
    /// come to the same history this way.
    pub async fn begin_reply(&self, by: By, id: &MessageId) -> Result<()> {
        self.all
            .change(&self.id, by, async |view, draft| {
                if let [Some(placed)] = view.own(std::slice::from_ref(id)).await?.as_slice() {
                    draft.rewind(view.cut(placed.position).await?)?;
                }
                Ok(())
            })
            .await
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
        self.all
            .change(&self.id, by, async |view, draft| {
                let covers = Covers {
                    from: view.position_of(from).await?,
                    end: view.position_of(through).await? + 1,
                };
                if covers.from >= covers.end {
                    let why = format!("it comes after `{through}`");
                    return Err(Invalid::new("first covered message", from.as_str(), why).into());
                }
                let summary = Message {
                    covers: Some(covers),
                    ..summary.clone()
                };
                self.add(view, draft, std::slice::from_ref(&summary)).await
            })
            .await
    }

    /// Closes tool calls that were left open when the last run ended: each gets a result that says so. To be
    /// called before a transcript is gone on with; the second time it finds nothing to do.
    pub async fn resume(&self, by: By) -> Result<Appended> {
        let shown = self.effective().await?;
        let shown: Vec<Message> = shown.into_iter().map(|p| p.message).collect();
        self.all
            .change(&self.id, by, async |view, draft| {
                let at = draft.time();
                let closing = repair::closing(&shown).into_iter();
                let closing: Vec<Message> = closing.map(|m| Message { at, ..m }).collect();
                self.add(view, draft, &closing).await
            })
            .await
    }
}
