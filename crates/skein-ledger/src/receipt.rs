//! Messages and their receipts: accepted here, delivered by the fleet, closed with the run they were written to.

use skein_domain::fact::SessionChange;
use skein_domain::{
    Conflict, Delivery, DeliveryDoubt, Message, Purpose, Reason, Receipt, ReceiptId, Refused, Role,
    RunScope, Session, SessionId,
};
use skein_store::{RecordPage, Writer};

use crate::caller::{Answer, RequestOutcome};
use crate::error::{Error, StoreResult};
use crate::filter::{live_of_parent, newest_first, of_parent};
use crate::requests::MessageRequests;

impl MessageRequests<'_> {
    /// Accepts a message for the session's agent. It is delivered when the agent is ready, in order.
    pub async fn send(
        self,
        reference: String,
        text: Message,
        from: Option<String>,
    ) -> Result<Answer, Error> {
        let id = ReceiptId::from_random(self.0.ledger.ids.bits());
        let key = self.0.caller.idempotency.as_ref().map(|i| i.key.clone());
        let must_own = self.0.must_own();
        let scope = self.0.caller.scope.clone();
        self.0
            .change("send a message", Role::Operate, move |writer| {
                let session: Session = writer.reader().resolve(&reference)?;
                session.check_owner(must_own.as_ref())?;
                check_has_agent(&session)?;
                let from = match &from {
                    Some(from) => Some(writer.reader().resolve::<Session>(from)?),
                    None => None,
                };
                if let Some(from) = &from {
                    from.check_owner(must_own.as_ref())?;
                }
                let from = sender(from.map(|session| session.id), scope.as_ref())?;
                let receipt = Receipt {
                    key: key.clone(),
                    from,
                    ..new_receipt(writer, id.clone(), &session, Purpose::Message, text.clone())
                };
                insert_receipt(writer, &session, &receipt)?;
                Ok(RequestOutcome::Receipt(Box::new(receipt)))
            })
            .await
    }

    /// Accepts the task of a run for delivery. Returns the earlier receipt of a task that was accepted and never written,
    /// because a task is delivered once.
    pub async fn accept_task(
        self,
        session: &Session,
        id: ReceiptId,
        text: Message,
    ) -> Result<ReceiptId, Error> {
        let session = session.id.clone();
        let accepted = self
            .0
            .write(move |writer| {
                if writer.reader().find::<Receipt>(id.as_str())?.is_some() {
                    return Ok(id.clone());
                }
                let open = live_of_parent(&session);
                let waits =
                    |r: &Receipt| r.purpose == Purpose::Task && r.is_open() && r.written.is_none();
                if let Some(known) = writer.reader().all(&open)?.into_iter().find(waits) {
                    return Ok(known.id);
                }
                let session: Session = writer.reader().get(session.as_str())?;
                let receipt =
                    new_receipt(writer, id.clone(), &session, Purpose::Task, text.clone());
                insert_receipt(writer, &session, &receipt)?;
                Ok(id.clone())
            })
            .await?;
        Ok(accepted)
    }

    pub async fn receipt(self, id: String) -> Result<Receipt, Error> {
        self.0.read(move |r| r.resolve(&id)).await
    }

    /// A session's messages, newest first.
    pub async fn receipts(
        self,
        reference: String,
        after: Option<u64>,
        limit: usize,
    ) -> Result<RecordPage<Receipt>, Error> {
        self.0
            .read(move |r| {
                let session: Session = r.resolve(&reference)?;
                r.list(&newest_first(of_parent(&session.id), after, limit))
            })
            .await
    }
}

/// The session that a message comes from; an agent can only send from its own.
fn sender(
    named: Option<SessionId>,
    scope: Option<&RunScope>,
) -> Result<Option<SessionId>, Refused> {
    match (named, scope) {
        (named, None) => Ok(named),
        (Some(named), Some(scope)) if named != scope.session => Err(Refused::NotBelow {
            caller: scope.session.clone(),
            session: named,
            op: "send a message in the name of",
        }),
        (_, Some(scope)) => Ok(Some(scope.session.clone())),
    }
}

/// The refusal of a request that needs a session with an agent.
pub fn no_agent(session: &Session) -> Refused {
    Refused::NoAgent {
        session: session.id.clone(),
        why: "people or external programs drive it",
    }
}

/// Refuses a message to a session that has no live agent.
fn check_has_agent(session: &Session) -> StoreResult<()> {
    if session.gear.is_none() {
        return Err(no_agent(session).into());
    }
    if !session.phase.is_live() {
        return Err(Conflict::WrongPhase {
            session: session.id.clone(),
            phase: session.phase.name(),
            wanted: "only a live session can be talked to",
        }
        .into());
    }
    Ok(())
}

pub fn new_receipt(
    writer: &Writer<'_>,
    id: ReceiptId,
    session: &Session,
    purpose: Purpose,
    text: Message,
) -> Receipt {
    Receipt {
        id,
        session: session.id.clone(),
        key: None,
        purpose,
        from: None,
        text,
        question: None,
        state: Delivery::Accepted,
        attempts: 0,
        history: vec![(Delivery::Accepted, writer.now())],
        written: None,
        call: None,
        note: None,
        doubt: None,
        version: 1,
    }
}

pub fn insert_receipt(
    writer: &mut Writer<'_>,
    session: &Session,
    receipt: &Receipt,
) -> StoreResult<()> {
    writer.insert(receipt)?;
    let change = SessionChange::Sent {
        receipt: receipt.id.clone(),
        purpose: receipt.purpose,
        from: receipt.from.clone(),
        bytes: receipt.text.as_str().len() as u64,
    };
    writer.append_event(&change.of(session))
}

/// Closes the messages that were written to a run that has ended, because there will be no more evidence of them. The
/// driver did not act on a call that it never accepted, so that call waits for the next run; callers have read the
/// driver's journal to its end and recorded what it accepted.
pub fn close_written(writer: &mut Writer<'_>, session: &Session) -> StoreResult<()> {
    let filter = live_of_parent(&session.id);
    for receipt in writer.reader().all::<Receipt>(&filter)? {
        let is_answer = receipt.purpose == Purpose::Answer;
        let is_written = receipt.written.is_some() || receipt.call.is_some();
        if !receipt.is_open() || !(is_written || is_answer) {
            continue;
        }
        let after = if receipt.is_unaccepted_call() && !is_answer {
            receipt.returned(writer.now())
        } else {
            let doubt = match is_written {
                true => DeliveryDoubt::RunEnded,
                false => DeliveryDoubt::RunEndedUnanswered,
            };
            Receipt {
                note: Some(Reason::from_text(doubt.note())),
                doubt: Some(doubt),
                ..receipt.moved(Delivery::Unknown, writer.now())
            }
        };
        writer.update(&after)?;
        writer.append_event(&delivered(&after).of(session))?;
    }
    Ok(())
}

pub fn delivered(receipt: &Receipt) -> SessionChange {
    SessionChange::Delivered {
        receipt: receipt.id.clone(),
        state: receipt.state,
        note: receipt.note.clone(),
    }
}
