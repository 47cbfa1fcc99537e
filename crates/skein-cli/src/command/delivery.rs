//! Following a message or an answer on its way to an agent.

use std::time::Duration;

use skein_client::{Client, Error, ErrorKind, EventStream};
use skein_wire::{Receipt, Session};
use tokio::time::{Instant, timeout_at};

use super::wait::follow;
use crate::context::Context;
use crate::error::UserError;

/// Look again after this long without an event, because a break of the stream may have hidden one. Longer than the
/// stream waits for an absent daemon, so that its error comes first.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// The receipt and its session, as last seen.
pub(super) struct Waiting<'a> {
    context: &'a Context,
    pub(super) client: &'a Client,
    pub(super) stream: EventStream<'a>,
    pub(super) receipt: Receipt,
    pub(super) session: Session,
}

impl<'a> Waiting<'a> {
    /// Hands a message over with `give`, and subscribes before if `waits`. If the daemon is lost before its answer,
    /// `give` is called again; its idempotency key keeps the message from being sent twice.
    pub(super) async fn begin<F>(
        context: &'a Context,
        session: Session,
        waits: bool,
        give: impl Fn() -> F,
    ) -> Result<Self, UserError>
    where
        F: Future<Output = Result<Receipt, Error>>,
    {
        let client = context.client().await?;
        let mut stream = follow(context, client, None, Some(&session.id));
        if waits {
            stream.open().await?;
        }
        let receipt = match give().await {
            Ok(receipt) => receipt,
            Err(error) => {
                context.reconnect(client, error).await?;
                give().await?
            }
        };
        Ok(Self {
            context,
            client,
            stream,
            receipt,
            session,
        })
    }

    async fn refresh(&mut self) -> Result<(), UserError> {
        // In this order: a session that has ended leaves no receipt open.
        let session = self.client.get_session(&self.session.id).await;
        let receipt = self.client.get_receipt(&self.receipt.id).await;
        match (receipt, session) {
            (Ok(receipt), Ok(session)) => {
                self.receipt = receipt;
                self.session = session;
                Ok(())
            }
            // The stream reports an absent daemon and waits for it.
            (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::Unavailable => Ok(()),
            (Err(error), _) | (_, Err(error)) => Err(error.into()),
        }
    }

    /// An error names the receipt: the message is stored.
    async fn reconnect(&self, error: Error) -> Result<(), UserError> {
        let back = self.context.reconnect(self.client, error).await;
        let id = &self.receipt.id;
        back.map_err(|error| {
            error.detail("receipt", id.as_str()).hint(format!(
                "the {} is stored; `skein show {id}` shows how far it came",
                what(&self.receipt)
            ))
        })
    }

    /// Looks after every event until `reached`; false when the time is over.
    pub(super) async fn until(
        &mut self,
        deadline: Option<Instant>,
        reached: impl Fn(&Receipt, &Session) -> bool,
    ) -> Result<bool, UserError> {
        loop {
            self.refresh().await?;
            if reached(&self.receipt, &self.session) {
                return Ok(true);
            }
            let again = Instant::now() + LOOK_AGAIN;
            let until = deadline.map_or(again, |deadline| deadline.min(again));
            match timeout_at(until, self.stream.next()).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => match deadline {
                    None => self.reconnect(error).await?,
                    Some(deadline) => match timeout_at(deadline, self.reconnect(error)).await {
                        Ok(back) => back?,
                        Err(_) => return Ok(false),
                    },
                },
                Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    return Ok(false);
                }
                Err(_) => {}
            }
        }
    }
}

pub(super) fn is_submitted(receipt: &Receipt) -> bool {
    matches!(
        receipt.state.as_str(),
        "submitted" | "turn_started" | "unknown"
    )
}

pub(super) fn is_over(session: &Session) -> bool {
    matches!(session.phase.as_str(), "ended" | "archived")
}

/// Whether it is certain that the agent did not get it.
fn was_not_given(receipt: &Receipt) -> bool {
    matches!(
        receipt.doubt.as_deref(),
        Some("question_gone" | "refused" | "no_such_answer" | "run_ended_unanswered")
    )
}

fn what(receipt: &Receipt) -> &'static str {
    match receipt.purpose.as_str() {
        "answer" => "answer",
        _ => "message",
    }
}

/// An error if the message is known to have failed.
pub(super) fn delivered(waiting: &Waiting<'_>) -> Result<(), UserError> {
    let (receipt, session) = (&waiting.receipt, &waiting.session);
    let what = what(receipt);
    if receipt.state == "unknown" {
        let error = UserError::failed(match was_not_given(receipt) {
            true => format!("the {what} was not given to the agent"),
            false => format!("nothing proves what happened to the {what}"),
        });
        let error = match &receipt.note {
            Some(note) => error.cause(note),
            None => error,
        };
        return Err(error
            .detail("receipt", receipt.id.as_str())
            .hint(format!("`skein screen {}` shows its terminal", session.id)));
    }
    if is_over(session) && !is_submitted(receipt) {
        let error = UserError::conflict(format!(
            "session {} ended as {} before the {what} was delivered",
            session.id, session.status
        ))
        .detail("receipt", receipt.id.as_str());
        // A question ends with the run that asked it.
        if what == "answer" {
            return Err(error);
        }
        return Err(error.hint(format!(
            "`skein restore {}` brings it back and delivers the message",
            session.id
        )));
    }
    Ok(())
}
