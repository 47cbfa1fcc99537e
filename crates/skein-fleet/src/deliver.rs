//! How a supervisor delivers messages through a terminal: which one is next, what is known of it, how far it came; and
//! what becomes of messages when the run ends.

use std::sync::Arc;

use skein_domain::fact::SessionChange;
use skein_domain::{
    Delivery, Exit, Outcome, Phase, PhaseName, Purpose, Reason, Receipt, Session, Step,
};
use skein_runtime::runtime::Run;

use super::activity::Finished;
use super::courier::{self, Act, DoubtWithNote, Facts, PromptOwner};
use super::record::{gear_of_run, note_read, take_step};
use super::supervisor::Supervisor;
use super::typing::TypedMessage;
use crate::error::Error;
use skein_ledger::ending::{end_session, kill_one};
use skein_ledger::receipt::{close_written, delivered};

/// Acts in a row without reading the screen again.
const ACTS: usize = 8;

impl Supervisor {
    /// Delivers what waits, as far as it goes now. Returns when to try again.
    pub(super) async fn deliver(
        &mut self,
        run: &Arc<dyn Run>,
        mut session: Session,
    ) -> Result<Option<u64>, Error> {
        self.terminal
            .look_up_previous_message(&self.context)
            .await?;
        session = self.confirm_turn(session).await?;
        for round in 0..ACTS {
            let open = self.context.open_receipts().await?;
            let Some(receipt) = head(&session, &open) else {
                // The last act may have unblocked a message: look again at once.
                return Ok((round > 0).then(|| self.context.now() + 10));
            };
            if self.agent.program.is_none() {
                // Its keys and what its screens mean are not known.
                return Ok(None);
            }
            let act = self.decide(&session, &receipt);
            let draft = self.agent.meets_a_draft(&receipt, &act);
            self.context.show(|o| o.draft = draft);
            match act {
                Act::Wait(until) if round == 0 => return Ok(until),
                // The last act may have changed the screen: look again at once.
                Act::Wait(_) => return Ok(Some(self.context.now() + 10)),
                act => session = self.act(run, session, &receipt, act).await?,
            }
        }
        Ok(Some(self.context.now() + 20))
    }

    fn decide(&mut self, session: &Session, receipt: &Receipt) -> Act {
        let typed_message = self.terminal.typed_message(receipt, self.context.now());
        let facts = self.facts(receipt, typed_message);
        if receipt.purpose == Purpose::Answer {
            let shown = self.agent.question_shown(session, receipt);
            let method = self.agent.answer_method(receipt);
            return courier::decide_answer(receipt, typed_message.stage, shown, &method, &facts);
        }
        courier::decide(receipt, typed_message.stage, &facts)
    }

    fn facts(&self, receipt: &Receipt, typed_message: TypedMessage) -> Facts {
        let program = self.agent.program.as_ref();
        let evidence = &self.agent.evidence;
        let now = self.context.now();
        let output_at = self.agent.sight.output_at.map(|at| {
            let ago = (self.context.requests.now().as_micros() - at).max(0) / 1000;
            now.saturating_sub(u64::try_from(ago).unwrap_or(0))
        });
        let enter_after = program.map_or(0, |a| {
            u64::try_from(a.abilities().enter_after.as_millis()).unwrap_or(0)
        });
        Facts {
            now,
            run: self.context.run,
            activity: evidence.activity(),
            has_signal: self.agent.has_signal(),
            screens: program.is_some_and(|a| a.abilities().screens),
            input_box: self.agent.input_box(),
            prompt_owner: self.agent.prompt_owner(receipt),
            worked: evidence.turn.worked,
            asked_since: evidence.question.shown_since,
            question_left: evidence.question.left,
            typed: typed_message.typed_at,
            interrupted: typed_message.interrupted_at,
            output_at,
            unsettled: evidence.turn.unsettled(),
            // In a run that was resumed they report nothing before its first prompt.
            hooks: evidence.sources.hooks
                || program.is_some_and(|a| a.abilities().hooks || a.abilities().files),
            previous_message_may_be_in_box: self.terminal.previous_message_may_be_in_box
                == Some(true),
            finished: evidence.finished.is_some(),
            enter_after,
        }
    }

    /// A turn that was over before it was seen at work has begun all the same: once the agent shows that it worked on
    /// a message after its submit, or ended a turn, the message's turn has started.
    async fn confirm_turn(&mut self, session: Session) -> Result<Session, Error> {
        let Some(id) = self.terminal.awaits_turn.clone() else {
            return Ok(session);
        };
        let receipt: Receipt = self
            .context
            .requests
            .read(move |r| r.get(id.as_str()))
            .await?;
        let is_begun = match self.agent.prompt_owner(&receipt) {
            Some(PromptOwner::Ours | PromptOwner::Unreported) => true,
            Some(PromptOwner::Other) => false,
            None => self.agent.evidence.turn.worked || self.agent.evidence.turn.ended,
        };
        match is_begun {
            true => {
                self.record_delivery(session, &receipt, Delivery::TurnStarted, None)
                    .await
            }
            false => Ok(session),
        }
    }

    /// The run has ended: records that the last message's turn has begun if what the agent wrote until then proves that.
    pub(super) async fn confirm_last_message(&mut self) -> Result<(), Error> {
        let session = self.context.session().await?;
        let saga = session.gear.as_ref().and_then(|g| g.saga.as_ref());
        let is_held = saga.is_some_and(|(_, kind)| !kind.queues());
        if session.run != self.context.run || is_held || self.turns.is_some() {
            return Ok(());
        }
        self.load_agent(&session).await;
        self.read_files(&session).await?;
        self.terminal
            .look_up_previous_message(&self.context)
            .await?;
        let session = self.confirm_turn(session).await?;
        let open = self.context.open_receipts().await?;
        let typed = |r: &&Receipt| r.state > Delivery::Accepted && r.purpose != Purpose::Answer;
        let Some(receipt) = open.iter().find(typed) else {
            return Ok(());
        };
        let act = self.decide(&session, receipt);
        if act == Act::Record(Delivery::TurnStarted) {
            self.record_delivery(session, receipt, Delivery::TurnStarted, None)
                .await?;
        }
        Ok(())
    }

    async fn act(
        &mut self,
        run: &Arc<dyn Run>,
        session: Session,
        receipt: &Receipt,
        act: Act,
    ) -> Result<Session, Error> {
        match act {
            Act::Wait(_) => Ok(session),
            Act::Paste => self.paste(run, session, receipt).await,
            Act::Enter { number } => {
                self.enter(run, receipt, number).await?;
                Ok(session)
            }
            Act::Record(state) => self.record_delivery(session, receipt, state, None).await,
            Act::Close(doubt_with_note) => {
                self.record_delivery(session, receipt, Delivery::Unknown, Some(doubt_with_note))
                    .await
            }
        }
    }

    /// Records the state of a delivery; a submitted message begins a turn.
    pub(super) async fn record_delivery(
        &mut self,
        session: Session,
        receipt: &Receipt,
        state: Delivery,
        doubt_with_note: Option<DoubtWithNote>,
    ) -> Result<Session, Error> {
        let doubt = doubt_with_note
            .as_ref()
            .map(|doubt_with_note| doubt_with_note.doubt);
        let tries = self.terminal.apply_delivery(receipt, state, doubt);
        let (id, receipt) = (session.id.clone(), receipt.id.clone());
        let note = doubt_with_note.as_ref().map(DoubtWithNote::reason);
        let turned = self.agent.evidence.turn.recorded;
        let read = self.files.tails.positions();
        let session = self
            .context
            .write(move |writer| {
                let mut session: Session = writer.reader().get(id.as_str())?;
                note_read(&mut session, &read);
                let before: Receipt = writer.reader().get(receipt.as_str())?;
                let mut after = before.clone();
                // A skipped state was passed unseen: the history has it all the same.
                if state == Delivery::TurnStarted && before.state < Delivery::Submitted {
                    after = after.moved(Delivery::Submitted, writer.now());
                    after.version = before.version;
                }
                let after = Receipt {
                    attempts: before
                        .attempts
                        .max(u32::try_from(tries).unwrap_or(u32::MAX)),
                    note: note.clone().or(before.note.clone()),
                    doubt: doubt.or(before.doubt),
                    version: before.version + 1,
                    ..after.moved(state, writer.now())
                };
                writer.update(&after)?;
                writer.append_event(&delivered(&after).of(&session))?;
                let began = matches!(state, Delivery::Submitted | Delivery::TurnStarted);
                match (&session.phase, after.purpose) {
                    (Phase::Idle, Purpose::Task | Purpose::Message) if began && !turned => {
                        session = take_step(writer, &session, Step::BeginTurn)?;
                    }
                    (Phase::AwaitingInput(_), Purpose::Answer) if began => {
                        let before = session;
                        session = before.step(Step::Answer, writer.now())?;
                        writer.update(&session)?;
                        let answered = SessionChange::Answered {
                            receipt: after.id.clone(),
                            text: Reason::from_text(after.text.as_str()),
                        };
                        writer.append_event(&answered.of(&session))?;
                    }
                    _ => {}
                }
                Ok(session)
            })
            .await?;
        self.agent.evidence.turn.recorded |=
            matches!(state, Delivery::Submitted | Delivery::TurnStarted);
        self.mailbox.publish(|state| state.moves += 1);
        Ok(session)
    }

    /// Returns whether the end is recorded; not yet while the session is being handed over, or the saga that started the
    /// run goes on.
    pub(super) async fn record_end(&mut self, exit: Exit) -> Result<bool, Error> {
        let (id, run) = (self.context.session_key.session.clone(), self.context.run);
        let said = self.agent.evidence.finished.clone();
        let read = self.files.tails.positions();
        let kill = self
            .context
            .parts
            .kills
            .find(&self.context.session_key, run);
        let recorded = self
            .context
            .write(move |writer| {
                let mut session: Session = writer.reader().get(id.as_str())?;
                let ours = session.run == run && session.has_run();
                let saga = session.gear.as_ref().and_then(|g| g.saga.as_ref());
                let is_starting = saga.is_some_and(|(_, kind)| kind.queues());
                if !ours || (saga.is_some() && !is_starting) {
                    return Ok(Some(false));
                }
                if is_starting || session.phase.name() == PhaseName::Locked {
                    return Ok(None);
                }
                if let Some(kill) = &kill {
                    // The saga records the end, with the backup and the removal that go with a kill.
                    kill_one(writer, &session, &kill.order, kill.saga.clone())?;
                    return Ok(Some(false));
                }
                close_written(writer, &session)?;
                // The last words of this run count as read: the next run does not read them again.
                note_read(&mut session, &read);
                let mut gear = gear_of_run(&session)?;
                gear.handle = None;
                let after = session.with_gear(gear, writer.now());
                writer.update(&after)?;
                if after.phase.is_live() {
                    let (outcome, why) = ending(said.as_ref(), exit);
                    end_session(writer, &after, outcome, Some(Reason::from_text(&why)))?;
                } else {
                    writer.append_event(&SessionChange::Interrupted { run }.of(&after))?;
                }
                Ok(Some(true))
            })
            .await?;
        match recorded {
            None => Ok(false),
            Some(false) => {
                self.context.parts.kills.recorded(&self.context.session_key);
                self.context.parts.signals.wake_dispatcher();
                Ok(true)
            }
            Some(true) => {
                self.context.requests.reach("exit.recorded");
                self.context.forget_run().await;
                self.context
                    .parts
                    .board
                    .forget_run(&self.context.session_key);
                // What was written to the run waits no longer.
                let _ = self.context.open_receipts().await;
                self.context.parts.places.leave(&self.context.session_key);
                self.context.parts.signals.wake_dispatcher();
                Ok(true)
            }
        }
    }
}

/// The message that goes next. Answers go before messages while the agent asks; the task of a run goes before what was
/// sent while there was none.
pub(super) fn head(session: &Session, open: &[Receipt]) -> Option<Receipt> {
    let saga = session.gear.as_ref().and_then(|g| g.saga.as_ref());
    if saga.is_some_and(|(_, kind)| !kind.queues()) {
        return None;
    }
    let first = |purpose: Purpose| open.iter().find(move |r| r.purpose == purpose);
    let next = first(Purpose::Answer).or(first(Purpose::Task));
    next.or(open.first()).cloned()
}

/// How a session ends when its agent's process does.
fn outcome(exit: Exit) -> (Outcome, String) {
    match exit {
        Exit::Code(0) => (Outcome::Done, "its agent exited with code 0".into()),
        Exit::Code(_) | Exit::Signal(_) => (Outcome::Failed, format!("its agent {exit}")),
        Exit::Dismissed => (Outcome::Lost, format!("its agent {exit}")),
        Exit::Unseen => (
            Outcome::Lost,
            "its agent is gone, and how it ended is not known".into(),
        ),
    }
}

/// How the session ends: as the agent reported, unless its exit code is a failure.
fn ending(said: Option<&Finished>, exit: Exit) -> (Outcome, String) {
    let worse = matches!(exit, Exit::Code(code) if code != 0);
    let Some(said) = said.filter(|_| !worse) else {
        return outcome(exit);
    };
    let (outcome, what) = if said.failed {
        (Outcome::Failed, "its agent said that it failed")
    } else {
        (Outcome::Done, "its agent said that it is done")
    };
    let why = match &said.reason {
        Some(reason) => format!("{what}: {reason}"),
        None => what.to_owned(),
    };
    (outcome, why)
}
