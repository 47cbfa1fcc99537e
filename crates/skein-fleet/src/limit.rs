//! Limits of agents' providers: recorded with their end, so that they outlast the daemon, and lifted when it
//! comes. Messages wait meanwhile.

use skein_domain::fact::SessionChange;
use skein_domain::{Limit, Message, Purpose, Reason, Receipt, ReceiptId, Session};
use skein_store::Writer;

use super::activity::LimitSeen;
use super::record::live_of;
use super::supervisor::{RunContext, Supervisor};
use crate::error::Error;
use skein_ledger::receipt::{insert_receipt, new_receipt};

/// The message for an agent that is to go on with the turn a limit stopped.
const GO_ON: &str = "continue";

impl Supervisor {
    /// Records a limit that was seen, or that it is over. Returns the session as it is then.
    pub(super) async fn update_limit(&mut self, session: Session) -> Result<Session, Error> {
        if self.agent.program.is_none() {
            // What is recorded has not been read yet.
            return Ok(session);
        }
        if let Some(limit) = self.agent.evidence.limit.missed.as_ref().and_then(as_limit) {
            // The agent reported it while no daemon ran, and it is over: an agent that was to go on then goes on now.
            let session = self.context.record_limit(session, limit.clone()).await?;
            self.agent.evidence.limit.missed = None;
            return self.context.lift(session, &limit).await;
        }
        let recorded = session.gear.as_ref().and_then(|g| g.limit.clone());
        match (&mut self.agent.evidence.limit.now, recorded) {
            (Some(limit), recorded) if !limit.recorded => {
                let Some(found) = as_limit(limit) else {
                    return Ok(session);
                };
                limit.recorded = true;
                let limit = found;
                if recorded.as_ref() == Some(&limit) {
                    return Ok(session);
                }
                self.context.record_limit(session, limit).await
            }
            (None, Some(recorded)) => self.context.lift(session, &recorded).await,
            _ => Ok(session),
        }
    }
}

impl RunContext {
    async fn record_limit(&self, session: Session, limit: Limit) -> Result<Session, Error> {
        let (id, run) = (session.id, self.run);
        self.write(move |writer| {
            let now: Session = writer.reader().get(id.as_str())?;
            let Some(gear) = now.gear.as_deref().filter(|_| now.run == run) else {
                return Ok(now);
            };
            let mut gear = gear.clone();
            gear.limit = Some(limit.clone());
            let after = now.with_gear(gear, writer.now());
            writer.update(&after)?;
            writer.append_event(&SessionChange::Limited(limit.clone()).of(&after))?;
            Ok(after)
        })
        .await
    }

    /// It is over: by the clock, or because the agent works again.
    async fn lift(&self, session: Session, recorded: &Limit) -> Result<Session, Error> {
        let by_the_clock = self.requests.now() >= recorded.until;
        let (id, run) = (session.id, self.run);
        let receipt = ReceiptId::from_random(self.requests.ids().bits());
        self.write(move |writer| {
            let now: Session = writer.reader().get(id.as_str())?;
            let Some(gear) = now.gear.as_deref().filter(|_| now.run == run) else {
                return Ok(now);
            };
            let resumed = by_the_clock
                && gear.launch.resume_after_limit
                && now.phase.is_live()
                && !has_messages(writer, &now)?;
            let mut gear = gear.clone();
            gear.limit = None;
            let after = now.with_gear(gear, writer.now());
            writer.update(&after)?;
            writer.append_event(&SessionChange::LimitOver { resumed }.of(&after))?;
            if resumed {
                let text = Message::from(&Reason::from_text(GO_ON));
                let message = new_receipt(writer, receipt.clone(), &after, Purpose::Message, text);
                insert_receipt(writer, &after, &message)?;
            }
            Ok(after)
        })
        .await
    }
}

/// As it is recorded, once it is known when it ends.
fn as_limit(seen: &LimitSeen) -> Option<Limit> {
    let text = seen.text.as_deref().map(Reason::from_text);
    seen.until.map(|until| Limit { until, text })
}

/// Whether a message waits for the agent.
fn has_messages(writer: &Writer<'_>, session: &Session) -> Result<bool, skein_store::Error> {
    let open = writer.reader().all::<Receipt>(&live_of(session))?;
    Ok(open.iter().any(Receipt::is_open))
}
