//! How a message or an answer is followed on its way to an agent.

use std::time::Duration;

use skein_client::{Client, EventStream, Kind};
use skein_wire::{Receipt, Session};
use tokio::time::{Instant, timeout_at};

use crate::error::UserError;

/// Without an event for so long it is looked again: a break of the stream may have hidden one. Longer than
/// the stream's patience with an absent daemon, so that its end is told.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// What is waited for, as it was last seen.
pub(super) struct Waiting<'a> {
    pub(super) client: &'a Client,
    pub(super) stream: EventStream<'a>,
    pub(super) receipt: Receipt,
    pub(super) session: Session,
}

impl Waiting<'_> {
    async fn look(&mut self) -> Result<(), UserError> {
        // In this order: a session that is over leaves no receipt open.
        let session = self.client.get_session(&self.session.id).await;
        let receipt = self.client.get_receipt(&self.receipt.id).await;
        match (receipt, session) {
            (Ok(receipt), Ok(session)) => {
                self.receipt = receipt;
                self.session = session;
                Ok(())
            }
            // The stream tells about a daemon that is away, and waits for it.
            (Err(error), _) | (_, Err(error)) if error.kind() == Kind::Unavailable => Ok(()),
            (Err(error), _) | (_, Err(error)) => Err(error.into()),
        }
    }

    /// Looks after every event until `reached`; false when time ran out.
    pub(super) async fn until(
        &mut self,
        deadline: Option<Instant>,
        reached: impl Fn(&Receipt, &Session) -> bool,
    ) -> Result<bool, UserError> {
        loop {
            self.look().await?;
            if reached(&self.receipt, &self.session) {
                return Ok(true);
            }
            let again = Instant::now() + LOOK_AGAIN;
            let until = deadline.map_or(again, |deadline| deadline.min(again));
            match timeout_at(until, self.stream.next()).await {
                Ok(event) => drop(event?),
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

/// Whether what is known of the message is no failure.
pub(super) fn delivered(waiting: &Waiting<'_>) -> Result<(), UserError> {
    let (receipt, session) = (&waiting.receipt, &waiting.session);
    let what = if receipt.purpose == "answer" {
        "answer"
    } else {
        "message"
    };
    if receipt.state == "unknown" {
        let error = UserError::failed(format!("what became of the {what} cannot be known"));
        let error = match &receipt.note {
            Some(note) => error.cause(note),
            None => error,
        };
        return Err(error
            .detail("receipt", receipt.id.as_str())
            .hint(format!("`skein screen {}` shows its terminal", session.id)));
    }
    if is_over(session) && !is_submitted(receipt) {
        let error = UserError::new(
            Kind::Conflict,
            format!(
                "session {} ended as {} before the {what} was delivered",
                session.id, session.status
            ),
        )
        .detail("receipt", receipt.id.as_str());
        // A question goes with the run that asked it.
        if what == "answer" {
            return Err(error);
        }
        return Err(error.hint(format!(
            "`skein restore {}` brings it back, and the message with it",
            session.id
        )));
    }
    Ok(())
}
