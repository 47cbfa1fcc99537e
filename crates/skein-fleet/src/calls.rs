//! Delivery through the `Turns` port: messages, answers and interrupts are calls with ids in a file that the driver
//! reads, and receipts advance by the events that name those ids (L6).
//!
//! `accepted → written` (the call is durable in the file) `→ submitted` (the driver recorded that it acts on it)
//! `→ turn_started`. A call that the driver never accepted goes back to `accepted` when the run ends. Nothing here
//! depends on text, and nothing waits for a deadline.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skein_agent::agent::WatchedFile;
use skein_agent::driven::journal_source;
use skein_agent::turns::{CallFuture, CallId, TurnAnswer, TurnCall, TurnEvent, Turns, calls_file};
use skein_domain::fact::SessionChange;
use skein_domain::{
    Activity, Delivery, DeliveryDoubt, Kind, Phase, Purpose, Question, Reason, Receipt, ReceiptId,
    Session, Step,
};
use skein_store::Writer;

use super::commands::run_blocking;
use super::courier::{DoubtWithNote, QuestionShown};
use super::deliver::head;
use super::lines;
use super::record::{note_read, take_step};
use super::supervisor::Supervisor;
use super::tail::was_read;
use super::typing::Interrupt;
use crate::error::Error;
use skein_ledger::receipt::delivered;

/// The port of one run, and what is known of the calls made through it.
#[derive(Debug)]
pub(super) struct TurnsPort {
    port: Arc<dyn Turns>,
    /// The prompt that the driver accepted and whose turn it has not reported.
    pub(super) awaits_turn: Option<ReceiptId>,
}

impl TurnsPort {
    pub(super) fn new(private: PathBuf, run: u64) -> Self {
        Self {
            port: Arc::new(CallsFile { private, run }),
            awaits_turn: None,
        }
    }

    /// Whether the run's driver has reported nothing yet. Its journal's first line comes when its program is there:
    /// until then the record is about the run before.
    pub(super) fn is_silent(&self, session: &Session) -> bool {
        let read = session.gear.as_deref().map(|gear| gear.read.as_slice());
        !was_read(&[self.port.events()], read.unwrap_or_default())
    }

    /// Stops the running turn; `number` is the same when the call is repeated.
    pub(super) async fn interrupt(&self, number: u64) -> Result<(), Error> {
        let id = call_id(&format!("interrupt-{number}"))?;
        let called = self.port.interrupt(id).await;
        called.map_err(|error| not_durable(&error))
    }
}

/// The calls of a protocol driver: lines in a file of the session's private folder. The driver reads it whenever it is
/// there, so a call is at its receiver once its line is on disk.
#[derive(Debug)]
struct CallsFile {
    private: PathBuf,
    run: u64,
}

impl Turns for CallsFile {
    fn call(&self, call: TurnCall) -> CallFuture<'_> {
        let (private, path) = (self.private.clone(), calls_file(&self.private, self.run));
        Box::pin(async move {
            let append = run_blocking(move || append(&private, &path, &call));
            append.await.map_err(std::io::Error::other)?
        })
    }

    fn events(&self) -> WatchedFile {
        journal_source(&self.private, self.run)
    }
}

fn append(private: &Path, path: &Path, call: &TurnCall) -> std::io::Result<()> {
    let line = serde_json::to_string(call).map_err(std::io::Error::other)?;
    lines::append(private, path, &line)
}

/// What the next step for a message depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallFacts {
    run: u64,
    activity: Option<Activity>,
    /// Whether the agent reported that it is finished.
    finished: bool,
    /// Whether an earlier prompt has not begun its turn.
    awaits_turn: bool,
    /// For an answer: whether the agent asks its question.
    question_shown: QuestionShown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallAct {
    /// Until something changes.
    Wait,
    Call,
    Close(DeliveryDoubt),
}

fn decide_call(receipt: &Receipt, facts: &CallFacts) -> CallAct {
    let of_another_run = receipt.call.is_some_and(|run| run != facts.run);
    match (receipt.state, receipt.purpose) {
        _ if of_another_run => CallAct::Close(DeliveryDoubt::RunEnded),
        (Delivery::Accepted, Purpose::Answer) => match facts.question_shown {
            QuestionShown::Yes => CallAct::Call,
            QuestionShown::No => CallAct::Close(DeliveryDoubt::QuestionGone),
            QuestionShown::CannotTell => CallAct::Wait,
        },
        (Delivery::Accepted, Purpose::Task | Purpose::Message) => {
            // The driver would queue it; but a limit, or a message that comes first, holds it back only here.
            let is_free = facts.activity == Some(Activity::Ready);
            match is_free && !facts.finished && !facts.awaits_turn {
                true => CallAct::Call,
                false => CallAct::Wait,
            }
        }
        _ => CallAct::Wait,
    }
}

/// How far an event shows a call to have come, for the receipt of a message with this purpose.
fn state_by(event: &TurnEvent, purpose: Purpose) -> Option<Delivery> {
    match (event, purpose) {
        (TurnEvent::Refused { .. }, _) => Some(Delivery::Unknown),
        // The driver reports `answered` with it; the question is settled by that.
        (TurnEvent::Accepted(_), Purpose::Answer) => None,
        (TurnEvent::Answered(_), Purpose::Answer) => Some(Delivery::Submitted),
        (TurnEvent::Accepted(_), Purpose::Task | Purpose::Message) => Some(Delivery::Submitted),
        (TurnEvent::TurnStarted(_) | TurnEvent::TurnEnded(_), Purpose::Task | Purpose::Message) => {
            Some(Delivery::TurnStarted)
        }
        (TurnEvent::TurnStarted(_) | TurnEvent::TurnEnded(_), Purpose::Answer)
        | (TurnEvent::Answered(_), Purpose::Task | Purpose::Message) => None,
    }
}

impl Supervisor {
    /// Makes the calls that can be made now. Nothing has to be tried again: events wake the supervisor.
    pub(super) async fn deliver_calls(
        &mut self,
        mut session: Session,
    ) -> Result<Option<u64>, Error> {
        let mut open = self.context.open_receipts().await?;
        // Those that the driver has are settled by its events.
        let is_called = |receipt: &Receipt| receipt.call == Some(self.context.run);
        let called = open
            .iter()
            .any(|r| is_called(r) && r.purpose != Purpose::Answer);
        open.retain(|receipt| !is_called(receipt));
        while let Some(receipt) = head(&session, &open) {
            let Some(turns) = self.turns.as_ref().filter(|_| self.agent.program.is_some()) else {
                return Ok(None);
            };
            let facts = CallFacts {
                run: self.context.run,
                activity: self.agent.evidence.activity(),
                finished: self.agent.evidence.finished.is_some(),
                awaits_turn: called || turns.awaits_turn.is_some(),
                question_shown: self.agent.question_shown(&session, &receipt),
            };
            match decide_call(&receipt, &facts) {
                CallAct::Wait => return Ok(None),
                CallAct::Call => session = self.call(session, &receipt).await?,
                CallAct::Close(doubt) => {
                    let doubt_with_note = Some(named(doubt, &receipt));
                    session = self
                        .record_delivery(session, &receipt, Delivery::Unknown, doubt_with_note)
                        .await?;
                }
            }
            open.retain(|other| other.id != receipt.id);
            if receipt.purpose != Purpose::Answer {
                // One prompt at a time: the next may have to wait for something this one brings.
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Makes the call of a message, then records that it is durable. A crash in between repeats the call, which the
    /// driver ignores.
    async fn call(&mut self, session: Session, receipt: &Receipt) -> Result<Session, Error> {
        let Some(turns) = &self.turns else {
            return Ok(session);
        };
        let id = call_id(receipt.id.as_str())?;
        let asked = receipt.question.as_ref();
        let called = match asked.and_then(|q| Some((q, q.id.clone()?))) {
            None if receipt.purpose == Purpose::Answer => {
                // It was recorded by a build that knew no ids.
                let doubt_with_note = Some(named(DeliveryDoubt::QuestionGone, receipt));
                return self
                    .record_delivery(session, receipt, Delivery::Unknown, doubt_with_note)
                    .await;
            }
            None => turns.port.prompt(id, receipt.text.to_string()),
            Some((question, id_of_question)) => {
                turns
                    .port
                    .answer(id, id_of_question, chosen(question, receipt))
            }
        };
        self.context.requests.reach("deliver.claimed");
        called.await.map_err(|error| not_durable(&error))?;
        self.context.requests.reach("deliver.written");
        let (id, run) = (receipt.id.clone(), self.context.run);
        self.context
            .write(move |writer| {
                let before: Receipt = writer.reader().get(id.as_str())?;
                let after = Receipt {
                    call: Some(run),
                    attempts: 1,
                    ..before.moved(Delivery::Written, writer.now())
                };
                writer.update(&after)?;
                writer.append_event(&delivered(&after).of(&session))?;
                Ok(())
            })
            .await?;
        self.context.requests.reach("deliver.recorded");
        self.mailbox.publish(|state| state.moves += 1);
        self.context.session().await
    }

    /// Interrupts the turn by a call. It is done once the call is durable.
    pub(super) async fn call_interrupt(&mut self, interrupt: Interrupt) -> Result<(), Error> {
        let Some(turns) = &self.turns else {
            return Ok(());
        };
        let called = turns.interrupt(interrupt.number).await;
        let _ = interrupt.done.send(called.clone());
        called
    }

    /// Records what the driver reported of calls, together with how far its journal was read. Comes before any other
    /// write of that position: an event whose effect is not recorded is read again.
    pub(super) async fn record_calls(&mut self, session: Session) -> Result<Session, Error> {
        let events = self.agent.evidence.journal.calls.clone();
        if events.is_empty() {
            return Ok(session);
        }
        let (id, run, read) = (session.id, self.context.run, self.files.positions());
        let job = events.clone();
        let (session, moved) = self
            .context
            .write(move |writer| {
                let mut session: Session = writer.reader().get(id.as_str())?;
                let mut moved = vec![];
                if session.run == run {
                    note_read(&mut session, &read);
                    for event in &job {
                        moved.extend(apply(writer, &mut session, run, event)?);
                    }
                }
                Ok((session, moved))
            })
            .await?;
        self.agent.evidence.journal.calls.clear();
        if let Some(turns) = &mut self.turns {
            for (receipt, state, purpose) in &moved {
                match state {
                    _ if *purpose == Purpose::Answer => {}
                    Delivery::Submitted => turns.awaits_turn = Some(receipt.clone()),
                    _ if turns.awaits_turn.as_ref() == Some(receipt) => turns.awaits_turn = None,
                    _ => {}
                }
            }
        }
        if !moved.is_empty() {
            self.mailbox.publish(|state| state.moves += 1);
        }
        Ok(session)
    }
}

/// Moves the receipt of the call by what its event shows. None when there is nothing to move: interrupts have no
/// receipt, and an event may be read twice.
fn apply(
    writer: &mut Writer<'_>,
    session: &mut Session,
    run: u64,
    event: &TurnEvent,
) -> Result<Option<(ReceiptId, Delivery, Purpose)>, skein_store::Error> {
    let Some(before) = writer.reader().find::<Receipt>(event.call().as_str())? else {
        return Ok(None);
    };
    let Some(state) = state_by(event, before.purpose) else {
        return Ok(None);
    };
    let is_ours = before.session == session.id && before.call.is_none_or(|of| of == run);
    if !is_ours || !before.state.may_become(state) {
        return Ok(None);
    }
    let mut after = before.clone();
    // States in between were passed: a call that was accepted was written.
    for passed in [Delivery::Written, Delivery::Submitted] {
        if passed < state && state != Delivery::Unknown {
            after = after.moved(passed, writer.now());
        }
    }
    after = Receipt {
        call: Some(run),
        ..after.moved(state, writer.now())
    };
    after.version = before.version + 1;
    if let TurnEvent::Refused { reason, .. } = event {
        after.doubt = Some(DeliveryDoubt::Refused);
        after.note = Some(Reason::from_text(reason));
    }
    writer.update(&after)?;
    writer.append_event(&delivered(&after).of(session))?;
    match (&session.phase, after.purpose) {
        (Phase::Idle, Purpose::Task | Purpose::Message) if state == Delivery::Submitted => {
            *session = take_step(writer, session, Step::BeginTurn)?;
        }
        (Phase::AwaitingInput(asked), Purpose::Answer)
            if state == Delivery::Submitted && is_same(asked, after.question.as_ref()) =>
        {
            *session = session.step(Step::Answer, writer.now())?;
            writer.update(&*session)?;
            let answered = SessionChange::Answered {
                receipt: after.id.clone(),
                text: Reason::from_text(after.text.as_str()),
            };
            writer.append_event(&answered.of(session))?;
        }
        _ => {}
    }
    Ok(Some((after.id, state, after.purpose)))
}

/// The doubt with a note that names the question by its id.
fn named(doubt: DeliveryDoubt, receipt: &Receipt) -> DoubtWithNote {
    let id = receipt.question.as_ref().and_then(|q| q.id.as_ref());
    let note = id
        .filter(|_| doubt == DeliveryDoubt::QuestionGone)
        .map(|id| format!("the agent no longer asks question {id}; nothing was sent"));
    DoubtWithNote { doubt, note }
}

fn is_same(asked: &Question, answered: Option<&Question>) -> bool {
    answered.is_some_and(|question| question.id == asked.id)
}

/// The option that the answer names, else its text.
fn chosen(question: &Question, receipt: &Receipt) -> TurnAnswer {
    let text = receipt.text.as_str();
    let option = question.options.iter().position(|o| o.as_str() == text);
    option.map_or_else(|| TurnAnswer::Text(text.to_owned()), TurnAnswer::Choice)
}

fn call_id(id: &str) -> Result<CallId, Error> {
    id.parse()
        .map_err(|_| Error::step(Kind::Failed, format!("`{id}` cannot name a call")))
}

fn not_durable(error: &std::io::Error) -> Error {
    Error::step(
        Kind::Unavailable,
        format!("the call could not be written: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::courier::receipt_of;
    use super::*;

    fn facts(activity: Option<Activity>) -> CallFacts {
        CallFacts {
            run: 2,
            activity,
            finished: false,
            awaits_turn: false,
            question_shown: QuestionShown::CannotTell,
        }
    }

    #[test]
    fn l6_a_prompt_is_called_when_the_driver_reported_that_it_is_ready() {
        let message = receipt_of(Purpose::Message, Delivery::Accepted);
        let act = |facts: &CallFacts| decide_call(&message, facts);
        assert_eq!(act(&facts(None)), CallAct::Wait, "it has not begun");
        assert_eq!(act(&facts(Some(Activity::Ready))), CallAct::Call);
        for busy in [
            Activity::Active,
            Activity::Blocked,
            Activity::WaitingInput,
            Activity::Unknown,
        ] {
            assert_eq!(act(&facts(Some(busy))), CallAct::Wait, "{busy:?}");
        }
        let ready = facts(Some(Activity::Ready));
        let finished = CallFacts {
            finished: true,
            ..ready
        };
        let behind = CallFacts {
            awaits_turn: true,
            ..ready
        };
        assert_eq!([act(&finished), act(&behind)], [CallAct::Wait; 2]);
    }

    #[test]
    fn l6_an_answer_is_called_only_while_its_question_is_asked() {
        let answer = receipt_of(Purpose::Answer, Delivery::Accepted);
        for (question_shown, expected) in [
            (QuestionShown::Yes, CallAct::Call),
            (
                QuestionShown::No,
                CallAct::Close(DeliveryDoubt::QuestionGone),
            ),
            (QuestionShown::CannotTell, CallAct::Wait),
        ] {
            let facts = CallFacts {
                question_shown,
                ..facts(Some(Activity::WaitingInput))
            };
            assert_eq!(decide_call(&answer, &facts), expected);
        }
    }

    #[test]
    fn l6_what_was_called_is_settled_by_events_and_by_nothing_else() {
        for state in Delivery::ALL {
            for purpose in [Purpose::Task, Purpose::Message, Purpose::Answer] {
                let mut receipt = receipt_of(purpose, state);
                if state == Delivery::Accepted {
                    continue;
                }
                receipt.call = Some(2);
                let mut facts = facts(Some(Activity::Ready));
                facts.question_shown = QuestionShown::No;
                assert_eq!(decide_call(&receipt, &facts), CallAct::Wait, "{state:?}");
            }
        }
    }

    #[test]
    fn l6_events_move_receipts_of_their_purpose_only() {
        let call = || "a".parse::<CallId>().unwrap();
        let refused = TurnEvent::Refused {
            call: call(),
            reason: "no".into(),
        };
        let rows = [
            (TurnEvent::Accepted(call()), Some(Delivery::Submitted), None),
            (
                TurnEvent::TurnStarted(call()),
                Some(Delivery::TurnStarted),
                None,
            ),
            (
                TurnEvent::TurnEnded(call()),
                Some(Delivery::TurnStarted),
                None,
            ),
            (TurnEvent::Answered(call()), None, Some(Delivery::Submitted)),
            (refused, Some(Delivery::Unknown), Some(Delivery::Unknown)),
        ];
        for (event, of_message, of_answer) in rows {
            assert_eq!(state_by(&event, Purpose::Message), of_message, "{event:?}");
            assert_eq!(state_by(&event, Purpose::Task), of_message, "{event:?}");
            assert_eq!(state_by(&event, Purpose::Answer), of_answer, "{event:?}");
        }
    }
}
