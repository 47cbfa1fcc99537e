//! How a supervisor delivers messages through a terminal: which one is next, what is known of it, how far it came; and
//! what becomes of messages when the run ends.

use std::sync::Arc;

use skein_agent::agent::{Draft, ScreenView};
use skein_domain::fact::SessionChange;
use skein_domain::{
    Activity, Delivery, DeliveryDoubt, Exit, Outcome, Phase, PhaseName, Purpose, Question, Reason,
    Receipt, Session, Step,
};
use skein_runtime::runtime::Run;
use skein_store::Writer;
use skein_store::backend::RowFilter;

use super::activity::Finished;
use super::courier::{self, Act, Asked, Doubted, Facts, InputBox, Stage, Took};
use super::record::{note_read, some_question, take_step};
use super::supervisor::Supervisor;
use super::typing::Hand;
use crate::error::Error;
use skein_ledger::ending::{end_session, kill_one};
use skein_ledger::receipt::{close_written, delivered};

type StoreResult<T> = Result<T, skein_store::Error>;

/// Acts for one message without a look at the agent between them.
const ACTS: usize = 8;

impl Supervisor {
    pub(super) async fn write<T: Send + 'static>(
        &self,
        job: impl FnMut(&mut Writer<'_>) -> StoreResult<T> + Send + 'static,
    ) -> Result<T, Error> {
        let actor = skein_domain::Actor::System;
        Ok(self
            .requests
            .store()
            .write(&actor, self.requests.now(), job)
            .await?)
    }

    /// The messages that wait, in the order they were accepted. Publishes how many there are.
    pub(super) async fn open_receipts(&self) -> Result<Vec<Receipt>, Error> {
        let filter = RowFilter {
            parent: Some(self.session_key.session.to_string()),
            live: Some(true),
            ..RowFilter::default()
        };
        let posts = self.parts.board.posts(&self.session_key);
        let mut open = self
            .requests
            .look(move |r| r.all::<Receipt>(&filter))
            .await?;
        open.retain(Receipt::is_open);
        let waiting = open.len() as u64;
        self.parts.board.count(&self.session_key, posts, waiting);
        Ok(open)
    }

    /// Delivers what waits, as far as it goes now. Returns when to try again.
    pub(super) async fn deliver(
        &mut self,
        run: &Arc<dyn Run>,
        mut session: Session,
    ) -> Result<Option<u64>, Error> {
        self.look_up_previous_message().await?;
        session = self.confirm_turn(session).await?;
        for round in 0..ACTS {
            let open = self.open_receipts().await?;
            let Some(receipt) = self.head(&session, &open) else {
                // The last act may have unblocked a message: look again at once.
                return Ok((round > 0).then(|| self.now() + 10));
            };
            if self.agent.is_none() {
                // Its keys and what its screens mean are not known.
                return Ok(None);
            }
            let act = self.decide(&session, &receipt);
            let draft = self.meets_a_draft(&receipt, &act);
            self.parts
                .board
                .change(&self.session_key, |o| o.draft = draft);
            match act {
                Act::Wait(until) if round == 0 => return Ok(until),
                // The last act may have changed the screen: look again at once.
                Act::Wait(_) => return Ok(Some(self.now() + 10)),
                act => session = self.act(run, session, &receipt, act).await?,
            }
        }
        Ok(Some(self.now() + 20))
    }

    /// Answers go before messages while the agent asks; the task of a run goes before what was sent while
    /// there was none.
    pub(super) fn head(&self, session: &Session, open: &[Receipt]) -> Option<Receipt> {
        let busy = session
            .gear
            .as_ref()
            .and_then(|g| g.saga.as_ref())
            .is_some_and(|(_, kind)| !kind.queues());
        if busy {
            return None;
        }
        let answers = |r: &&Receipt| r.purpose == Purpose::Answer;
        if let Some(answer) = open.iter().find(answers) {
            return Some(answer.clone());
        }
        let task = open.iter().find(|r| r.purpose == Purpose::Task);
        task.or(open.first()).cloned()
    }

    fn decide(&mut self, session: &Session, receipt: &Receipt) -> Act {
        let hand = self.hand_of(receipt);
        let facts = self.facts(receipt, hand);
        if receipt.purpose == Purpose::Answer {
            let (asked, by) = (self.asked(session, receipt), self.by(receipt));
            return courier::decide_answer(receipt, hand.stage, asked, &by, &facts);
        }
        courier::decide(receipt, hand.stage, &facts)
    }

    /// Whether a message waits for nothing but somebody's text in the agent's input box.
    fn meets_a_draft(&self, receipt: &Receipt, act: &Act) -> bool {
        matches!(act, Act::Wait(None))
            && receipt.state == Delivery::Accepted
            && self.evidence.activity() == Some(Activity::Ready)
            && self.input_box() == InputBox::Holds
    }

    /// Whether the agent asks what the answer is for.
    pub(super) fn asked(&self, session: &Session, receipt: &Receipt) -> Asked {
        match self.evidence.asks() {
            None => Asked::CannotTell,
            Some(false) => Asked::No,
            Some(true) => {
                let now = self.evidence.question.clone().unwrap_or_else(some_question);
                let recorded = match &session.phase {
                    Phase::AwaitingInput(question) => Some(question),
                    _ => None,
                };
                // Until it is recorded it may be another one in the same words.
                let is_now = |question: &Question| question.is_same(&now);
                let same =
                    receipt.question.as_ref().is_some_and(is_now) && recorded.is_some_and(is_now);
                if same { Asked::Yes } else { Asked::No }
            }
        }
    }

    pub(super) fn input_box(&self) -> InputBox {
        let picture = ScreenView {
            rows: &self.terminal.screen.rows,
            cursor: self.terminal.screen.cursor,
            title: None,
        };
        match self.agent.as_ref().map(|a| a.draft(picture)) {
            None | Some(Draft::Unknown) => InputBox::Unknown,
            Some(Draft::Unseen) => InputBox::Unseen,
            Some(Draft::Empty) => InputBox::Empty,
            Some(Draft::Holds(_)) => InputBox::Holds,
        }
    }

    fn facts(&self, receipt: &Receipt, hand: Hand) -> Facts {
        let agent = self.agent.as_ref();
        let now = self.now();
        let output_at = self.sight.output_at.map(|at| {
            let ago = (self.requests.now().as_micros() - at).max(0) / 1000;
            now.saturating_sub(u64::try_from(ago).unwrap_or(0))
        });
        let enter_after = agent.map_or(0, |a| {
            u64::try_from(a.abilities().enter_after.as_millis()).unwrap_or(0)
        });
        let took = self.took(receipt);
        Facts {
            now,
            run: self.run,
            activity: self.evidence.activity(),
            has_signal: self.has_signal(),
            screens: agent.is_some_and(|a| a.abilities().screens),
            input_box: self.input_box(),
            took,
            worked: self.evidence.worked,
            asked_since: self.evidence.question_since,
            question_left: self.evidence.question_left,
            typed: hand.typed_at,
            interrupted: hand.interrupted_at,
            output_at,
            since: 0,
            unsettled: self.evidence.prompted_at.filter(|_| !self.evidence.worked),
            // In a run that was resumed they have nothing to tell before its first prompt.
            hooks: self.evidence.hooks
                || agent.is_some_and(|a| a.abilities().hooks || a.abilities().files),
            previous_message_may_be_in_box: self.terminal.previous_message_may_be_in_box
                == Some(true),
            finished: self.evidence.finished.is_some(),
            enter_after,
        }
    }

    /// Whose prompt the agent reported to have taken since this message was submitted, if it reported one.
    fn took(&self, receipt: &Receipt) -> Option<Took> {
        let evidence = &self.evidence;
        let told = evidence.prompt_taken.then_some(evidence.prompt.as_deref());
        told.map(|told| courier::took(told, receipt.text.as_str()))
    }

    /// A turn that was over before it was seen at work has begun all the same: once the agent shows that it worked on
    /// a message after its submit, or ended a turn, the message's turn has started.
    async fn confirm_turn(&mut self, session: Session) -> Result<Session, Error> {
        let Some(id) = self.terminal.awaits_turn.clone() else {
            return Ok(session);
        };
        let receipt: Receipt = self.requests.look(move |r| r.get(id.as_str())).await?;
        let is_begun = match self.took(&receipt) {
            Some(Took::Ours | Took::Untold) => true,
            Some(Took::Other) => false,
            None => self.evidence.worked || self.evidence.turn_ended,
        };
        match is_begun {
            true => {
                self.climb(session, &receipt, Delivery::TurnStarted, None)
                    .await
            }
            false => Ok(session),
        }
    }

    /// Looks up once whether the last message of this run may still be in the agent's input box, unseen.
    async fn look_up_previous_message(&mut self) -> Result<(), Error> {
        if self.terminal.previous_message_may_be_in_box.is_some() {
            return Ok(());
        }
        let filter = RowFilter {
            parent: Some(self.session_key.session.to_string()),
            ..RowFilter::default()
        };
        let all = self
            .requests
            .look(move |r| r.all::<Receipt>(&filter))
            .await?;
        let ours = |r: &&Receipt| {
            !r.is_open()
                && r.purpose != Purpose::Answer
                && r.written.is_some_and(|w| w.run == self.run)
        };
        let last = all
            .iter()
            .filter(ours)
            .max_by_key(|r| r.written.map(|w| w.input));
        self.terminal.previous_message_may_be_in_box =
            Some(last.is_some_and(|r| may_be_in_box(r.state, r.doubt)));
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
            Act::Say(state) => self.climb(session, receipt, state, None).await,
            Act::Close(doubted) => {
                self.climb(session, receipt, Delivery::Unknown, Some(doubted))
                    .await
            }
        }
    }

    /// Records how far a message came; a submitted one begins a turn.
    pub(super) async fn climb(
        &mut self,
        session: Session,
        receipt: &Receipt,
        state: Delivery,
        doubted: Option<Doubted>,
    ) -> Result<Session, Error> {
        let doubt = doubted.as_ref().map(|doubted| doubted.doubt);
        let is_message = receipt.purpose != Purpose::Answer;
        if state > Delivery::Echoed && is_message && receipt.written.is_some() {
            self.terminal.previous_message_may_be_in_box = Some(may_be_in_box(state, doubt));
            let awaits = (state == Delivery::Submitted).then(|| receipt.id.clone());
            self.terminal.awaits_turn = awaits;
        }
        let (id, receipt) = (session.id.clone(), receipt.id.clone());
        let note = doubted.as_ref().map(Doubted::reason);
        let tries = match self.terminal.hands.get(&receipt).map(|h| h.stage) {
            Some(Stage::Entered { tries, .. }) => tries,
            _ => 0,
        };
        if state > Delivery::Echoed {
            self.terminal.hands.remove(&receipt);
        }
        let turned = self.evidence.turned;
        let read = self.files.tails.positions();
        let session = self
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
                writer.tell(&delivered(&after).of(&session))?;
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
                        writer.tell(&answered.of(&session))?;
                    }
                    _ => {}
                }
                Ok(session)
            })
            .await?;
        self.evidence.turned |= matches!(state, Delivery::Submitted | Delivery::TurnStarted);
        self.publish(|state| state.moves += 1);
        Ok(session)
    }

    /// Returns whether the end is recorded; not yet while the session is being handed over.
    pub(super) async fn record_end(&mut self, exit: Exit) -> Result<bool, Error> {
        let (id, run) = (self.session_key.session.clone(), self.run);
        let said = self.evidence.finished.clone();
        let read = self.files.tails.positions();
        let kill = self.parts.kills.find(&self.session_key, run);
        let recorded = self
            .write(move |writer| {
                let mut session: Session = writer.reader().get(id.as_str())?;
                let ours = session.run == run && session.has_run();
                let busy = session.gear.as_ref().is_some_and(|g| g.saga.is_some());
                if !ours || busy {
                    return Ok(Some(false));
                }
                if session.phase.name() == PhaseName::Locked {
                    return Ok(None);
                }
                if let Some(kill) = &kill {
                    // The saga records the end, with the backup and the removal that go with a kill.
                    kill_one(writer, &session, &kill.order, kill.saga.clone())?;
                    return Ok(Some(false));
                }
                close_written(writer, &session)?;
                // Whatever it told last: the next run does not read it again.
                note_read(&mut session, &read);
                let mut gear = session.gear.as_deref().cloned().ok_or_else(|| {
                    skein_store::Error::Bug(format!("session {id} lost its gear"))
                })?;
                gear.handle = None;
                let after = session.with_gear(gear, writer.now());
                writer.update(&after)?;
                if after.phase.is_live() {
                    let (outcome, why) = ending(said.as_ref(), exit);
                    end_session(writer, &after, outcome, Some(Reason::from_text(&why)))?;
                } else {
                    writer.tell(&SessionChange::Interrupted { run }.of(&after))?;
                }
                Ok(Some(true))
            })
            .await?;
        match recorded {
            None => Ok(false),
            Some(false) => {
                self.parts.kills.recorded(&self.session_key);
                self.parts.signals.ring();
                Ok(true)
            }
            Some(true) => {
                self.requests.reach("exit.recorded");
                self.forget_run().await;
                self.parts.board.forget_run(&self.session_key);
                // What was written to the run waits no longer.
                let _ = self.open_receipts().await;
                self.parts.places.leave(&self.session_key);
                self.parts.signals.ring();
                Ok(true)
            }
        }
    }
}

fn may_be_in_box(state: Delivery, doubt: Option<DeliveryDoubt>) -> bool {
    state == Delivery::Unknown && doubt == Some(DeliveryDoubt::NotSeenTaken)
}

/// How a session ends when its agent's process does.
fn outcome(exit: Exit) -> (Outcome, String) {
    match exit {
        Exit::Code(0) => (Outcome::Done, "its agent exited with code 0".into()),
        Exit::Code(_) | Exit::Signal(_) => (Outcome::Failed, format!("its agent {exit}")),
        Exit::Dismissed => (Outcome::Lost, format!("its agent {exit}")),
        Exit::Unseen => (
            Outcome::Lost,
            "its agent is gone, and nobody saw how it ended".into(),
        ),
    }
}

/// Its own word says how it ended, unless the code of its exit says worse.
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
