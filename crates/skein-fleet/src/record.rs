//! What a supervisor records of what it saw: turns and questions, names, and what was spent.

use skein_domain::fact::SessionChange;
use skein_domain::{
    Activity, Delivery, DeliveryDoubt, Gear, NativeId, Phase, Purpose, ReadFile, Reason, Receipt,
    Session, Spent, Step, Usage,
};
use skein_store::Writer;
use skein_store::backend::RowFilter;

use super::calls::TurnsPort;
use super::supervisor::{ObservedAgent, Supervisor};
use crate::error::Error;
use skein_ledger::ending::carry_up;
use skein_ledger::receipt::delivered;

type StoreResult<T> = Result<T, skein_store::Error>;

impl Supervisor {
    /// Records what the agent was seen to do as steps of the session.
    pub(super) async fn record(&mut self, session: Session) -> Result<Session, Error> {
        let session = self.record_calls(session).await?;
        let answering = self.is_answering(&session).await?;
        let steps = if answering {
            vec![]
        } else {
            self.agent
                .steps(&session, self.context.now(), self.turns.as_ref())
        };
        let session = self.note(session, steps).await?;
        if !answering {
            self.agent.evidence.question.left = false;
        }
        Ok(session)
    }

    /// Records these steps with the name and the spending that the agent's files showed. What could not be written is
    /// kept, and written the next time.
    pub(super) async fn note(
        &mut self,
        session: Session,
        steps: Vec<Step>,
    ) -> Result<Session, Error> {
        let before = self.files.spent_before(&session, self.context.run);
        let spent = self.agent.evidence.journal.spent_since(before);
        let more = (spent.sum() != before.sum()).then_some(spent);
        let native = self.agent.evidence.journal.native.clone().filter(|n| {
            session
                .gear
                .as_ref()
                .is_some_and(|g| g.native.as_ref() != Some(n))
        });
        if steps.is_empty() && more.is_none() && native.is_none() {
            self.noted(spent);
            return Ok(session);
        }
        let turned = !steps.is_empty();
        let written = self.write_note(session, steps, more, native).await?;
        self.agent.evidence.turn.recorded |= turned;
        self.noted(spent);
        Ok(written)
    }

    async fn write_note(
        &self,
        session: Session,
        steps: Vec<Step>,
        spent: Option<Spent>,
        native: Option<NativeId>,
    ) -> Result<Session, Error> {
        let read = self.files.positions();
        if let (true, Some(pid)) = (steps.contains(&Step::EndTurn), self.agent.sight.pid) {
            self.context.parts.memory.measure(&session.agent, pid);
        }
        let (id, run) = (session.id.clone(), self.context.run);
        let phase = session.phase.clone();
        self.context
            .write(move |writer| {
                let mut now: Session = writer.reader().get(id.as_str())?;
                if now.run != run {
                    return Ok(now);
                }
                // Before anything is written of it: what was counted must not be read again.
                note_read(&mut now, &read);
                if let (Some(spent), Some(gear)) = (spent, now.gear.as_deref()) {
                    now = count(writer, &now, gear.clone(), spent)?;
                }
                if let (Some(native), Some(gear)) = (&native, now.gear.as_deref()) {
                    let mut gear = gear.clone();
                    gear.native = Some(native.clone());
                    now = now.with_gear(gear, writer.now());
                    writer.update(&now)?;
                    let native = native.clone();
                    writer.append_event(&SessionChange::Named { native }.of(&now))?;
                }
                // A request or a saga moved the session meanwhile: the next look decides anew.
                if now.phase != phase {
                    return Ok(now);
                }
                for step in &steps {
                    now = take_step(writer, &now, step.clone())?;
                }
                Ok(now)
            })
            .await
    }

    /// Whether an answer was typed and is not seen taken yet: the receipt's next step is the question's end.
    async fn is_answering(&self, session: &Session) -> Result<bool, Error> {
        if self.turns.is_some() || !matches!(session.phase, Phase::AwaitingInput(_)) {
            return Ok(false);
        }
        let typed = |r: &Receipt| {
            r.purpose == Purpose::Answer
                && r.state > Delivery::Accepted
                && r.written.is_some_and(|w| w.run == self.context.run)
        };
        Ok(self.context.open_receipts().await?.iter().any(typed))
    }

    /// What the agent's files showed is in the record.
    fn noted(&mut self, spent: Spent) {
        self.files.spent = Some(spent);
        self.agent.evidence.journal.recorded();
    }
}

impl ObservedAgent {
    /// What follows from the activity for the session's phase.
    fn steps(&self, session: &Session, now: u64, turns: Option<&TurnsPort>) -> Vec<Step> {
        // A limit ends no turn and begins none.
        let Some(activity) = self.evidence.now.as_ref().map(|n| n.activity) else {
            return vec![];
        };
        if self.evidence.is_about_to_ask(now) {
            return vec![];
        }
        let turn_is_over = || match turns {
            Some(turns) => turns.awaits_turn.is_none(),
            None => self.evidence.turn.is_over(now),
        };
        let question = || self.question();
        match (&session.phase, activity) {
            (Phase::Idle, Activity::Active) => vec![Step::BeginTurn],
            (Phase::Active, Activity::Ready) if turn_is_over() => vec![Step::EndTurn],
            (Phase::Idle, Activity::WaitingInput) => vec![Step::BeginTurn, Step::Ask(question())],
            (Phase::Active, Activity::WaitingInput) => vec![Step::Ask(question())],
            (Phase::AwaitingInput(_), Activity::Active) => vec![Step::Answer],
            (Phase::AwaitingInput(_), Activity::Ready) => vec![Step::Withdraw],
            (Phase::AwaitingInput(asked), Activity::WaitingInput) => {
                match &self.evidence.question.asked {
                    Some(now) if !now.is_same(asked) => vec![Step::Answer, Step::Ask(now.clone())],
                    // The same words, but asked once more.
                    _ if self.evidence.question.left => vec![Step::Answer, Step::Ask(question())],
                    _ => vec![],
                }
            }
            _ => vec![],
        }
    }
}

/// The live records of a session, such as the messages that are still open.
pub(super) fn live_of(session: &Session) -> RowFilter {
    RowFilter {
        parent: Some(session.id.to_string()),
        live: Some(true),
        ..RowFilter::default()
    }
}

/// The gear of a session that has a run.
pub(super) fn gear_of_run(session: &Session) -> StoreResult<Gear> {
    let gear = session.gear.as_deref().cloned();
    gear.ok_or_else(|| skein_store::Error::Bug(format!("session {} lost its gear", session.id)))
}

/// How far files were read is recorded together with what they said, whatever that was.
pub(super) fn note_read(session: &mut Session, read: &[ReadFile]) {
    if let Some(gear) = session.gear.as_deref_mut()
        && !read.is_empty()
    {
        gear.read = read.to_vec();
    }
}

/// Counts what was spent since the last time; each run begins with nothing.
fn count(
    writer: &mut Writer<'_>,
    before: &Session,
    mut gear: Gear,
    spent: Spent,
) -> StoreResult<Session> {
    if gear.spent == Some(spent) {
        // It was written, and only the reply was lost.
        return Ok(before.clone());
    }
    let counted = gear.spent.unwrap_or_default().of(spent.run);
    let usage = spent.sum().minus(counted.sum());
    gear.spent = Some(spent);
    let after = Session {
        usage: before.usage.plus(usage),
        ..before.with_gear(gear, writer.now())
    };
    writer.update(&after)?;
    carry_up(writer, before, &after)?;
    writer.append_event(&SessionChange::UsageRead { usage }.of(&after))?;
    Ok(after)
}

/// One step of the agent's, with its event. A question that is left takes the answers with it that were not
/// typed: they were for no other.
pub(super) fn take_step(
    writer: &mut Writer<'_>,
    before: &Session,
    step: Step,
) -> StoreResult<Session> {
    let change = match &step {
        Step::BeginTurn => SessionChange::TurnBegan { run: before.run },
        Step::EndTurn => SessionChange::TurnEnded {
            usage: Usage::default(),
        },
        Step::Ask(question) => SessionChange::Asked(question.clone()),
        Step::Withdraw | Step::Answer => {
            close_answers(writer, before)?;
            SessionChange::Withdrawn
        }
        _ => return Ok(before.clone()),
    };
    let after = before.step(step, writer.now())?;
    writer.update(&after)?;
    writer.append_event(&change.of(&after))?;
    Ok(after)
}

fn close_answers(writer: &mut Writer<'_>, session: &Session) -> StoreResult<()> {
    for receipt in writer.reader().all::<Receipt>(&live_of(session))? {
        let waits = receipt.state == Delivery::Accepted && receipt.written.is_none();
        if waits && receipt.purpose == Purpose::Answer {
            let doubt = DeliveryDoubt::QuestionGone;
            let after = Receipt {
                note: Some(Reason::from_text(doubt.note())),
                doubt: Some(doubt),
                ..receipt.moved(Delivery::Unknown, writer.now())
            };
            writer.update(&after)?;
            writer.append_event(&delivered(&after).of(session))?;
        }
    }
    Ok(())
}
