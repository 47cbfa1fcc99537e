//! How a keeper brings messages: which one is next, what is known of it, how far it came; and what becomes of
//! them with the end of the run.

use std::sync::Arc;

use skein_agent::agent::{Draft, Picture};
use skein_domain::fact::Change;
use skein_domain::{
    Activity, Delivery, Exit, Outcome, Phase, PhaseName, Purpose, Receipt, Session, Step,
};
use skein_runtime::runtime::Run;
use skein_store::Writer;
use skein_store::backend::Filter;

use super::activity::Finished;
use super::courier::{self, Act, Asked, Facts, InputBox, Stage, UNSEEN};
use super::journal::reason;
use super::keeper::Keeper;
use super::record::{note_read, some_question, take_step};
use super::typing::Hand;
use crate::ending::{end_session, kill_one};
use crate::error::Error;

type StoreResult<T> = Result<T, skein_store::Error>;

/// Acts for one message without a look at the agent between them.
const ACTS: usize = 8;

impl Keeper {
    pub(super) async fn write<T: Send + 'static>(
        &self,
        job: impl FnMut(&mut Writer<'_>) -> StoreResult<T> + Send + 'static,
    ) -> Result<T, Error> {
        let actor = skein_domain::Actor::System;
        Ok(self.desk.store.write(&actor, self.desk.now(), job).await?)
    }

    /// What waits, in the order it was accepted; how many that are is told.
    pub(super) async fn open_receipts(&self) -> Result<Vec<Receipt>, Error> {
        let filter = Filter {
            parent: Some(self.member.session.to_string()),
            live: Some(true),
            ..Filter::default()
        };
        let posts = self.fleet.board.posts(&self.member);
        let mut open = self.desk.look(move |r| r.all::<Receipt>(&filter)).await?;
        open.retain(Receipt::is_open);
        let waiting = open.len() as u64;
        self.fleet.board.count(&self.member, posts, waiting);
        Ok(open)
    }

    /// Brings what waits, as far as it goes now. Returns when to try again.
    pub(super) async fn deliver(
        &mut self,
        run: &Arc<dyn Run>,
        mut session: Session,
    ) -> Result<Option<u64>, Error> {
        self.know_box().await?;
        for round in 0..ACTS {
            let open = self.open_receipts().await?;
            let Some(receipt) = self.head(&session, open) else {
                // What was done may have let in what the screen shows already.
                return Ok((round > 0).then(|| self.now() + 10));
            };
            if self.agent.is_none() {
                // Nobody knows its keys, or what its screens mean.
                return Ok(None);
            }
            let act = self.decide(&session, &receipt);
            let draft = self.meets_a_draft(&receipt, &act);
            self.fleet.board.change(&self.member, |o| o.draft = draft);
            match act {
                Act::Wait(until) if round == 0 => return Ok(until),
                // Something was done: what follows from it is looked at at once.
                Act::Wait(_) => return Ok(Some(self.now() + 10)),
                act => session = self.act(run, session, &receipt, act).await?,
            }
        }
        Ok(Some(self.now() + 20))
    }

    /// Answers go before messages while the agent asks; the task of a run goes before what was sent while
    /// there was none.
    fn head(&self, session: &Session, open: Vec<Receipt>) -> Option<Receipt> {
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
        let task = open.iter().position(|r| r.purpose == Purpose::Task);
        open.into_iter().nth(task.unwrap_or(0))
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
            && self.seen.activity() == Some(Activity::Ready)
            && self.input_box() == InputBox::Holds
    }

    /// Whether the agent asks what the answer is for.
    fn asked(&self, session: &Session, receipt: &Receipt) -> Asked {
        match self.seen.asks() {
            None => Asked::CannotTell,
            Some(false) => Asked::No,
            Some(true) => {
                let now = self.seen.question.clone().unwrap_or_else(some_question);
                let recorded = match &session.phase {
                    Phase::AwaitingInput(question) => Some(question),
                    _ => None,
                };
                // Until it is recorded it may be another one in the same words.
                let same = receipt.question.as_ref() == Some(&now) && recorded == Some(&now);
                if same { Asked::Yes } else { Asked::No }
            }
        }
    }

    pub(super) fn input_box(&self) -> InputBox {
        let picture = Picture {
            rows: &self.screen.rows,
            cursor: self.screen.cursor,
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
            let ago = (self.desk.now().as_micros() - at).max(0) / 1000;
            now.saturating_sub(u64::try_from(ago).unwrap_or(0))
        });
        let enter_after = agent.map_or(0, |a| {
            u64::try_from(a.abilities().enter_after.as_millis()).unwrap_or(0)
        });
        let took = self
            .seen
            .prompt_taken
            .then_some(self.seen.prompt.as_deref());
        let took = took.map(|told| courier::took(told, receipt.text.as_str()));
        Facts {
            now,
            run: self.run,
            activity: self.seen.activity(),
            has_signal: self.has_signal(),
            screens: agent.is_some_and(|a| a.abilities().screens),
            greets: self.driven,
            input_box: self.input_box(),
            took,
            worked: self.seen.worked,
            asked_since: self.seen.question_since,
            question_left: self.seen.question_left,
            typed: hand.typed_at,
            interrupted: hand.interrupted_at,
            output_at,
            since: 0,
            unsettled: self.seen.prompted_at.filter(|_| !self.seen.worked),
            // In a run that was resumed they have nothing to tell before its first prompt.
            hooks: self.seen.hooks
                || agent.is_some_and(|a| a.abilities().hooks || a.abilities().files),
            murky: self.murky == Some(true),
            finished: self.seen.finished.is_some(),
            enter_after,
        }
    }

    /// Whether the last message of this run may still be in the agent's input box, unseen.
    async fn know_box(&mut self) -> Result<(), Error> {
        if self.murky.is_some() {
            return Ok(());
        }
        let filter = Filter {
            parent: Some(self.member.session.to_string()),
            ..Filter::default()
        };
        let all = self.desk.look(move |r| r.all::<Receipt>(&filter)).await?;
        let ours = |r: &&Receipt| {
            !r.is_open()
                && r.purpose != Purpose::Answer
                && r.written.is_some_and(|w| w.run == self.run)
        };
        let last = all
            .iter()
            .filter(ours)
            .max_by_key(|r| r.written.map(|w| w.input));
        self.murky =
            Some(last.is_some_and(|r| unseen(r.state, r.note.as_ref().map(|n| n.as_str()))));
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
            Act::Close(note) => {
                self.climb(session, receipt, Delivery::Unknown, Some(&note))
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
        note: Option<&str>,
    ) -> Result<Session, Error> {
        if state > Delivery::Echoed
            && receipt.purpose != Purpose::Answer
            && receipt.written.is_some()
        {
            self.murky = Some(unseen(state, note));
        }
        let (id, receipt) = (session.id.clone(), receipt.id.clone());
        let note = note.map(reason);
        let tries = match self.hands.get(&receipt).map(|h| h.stage) {
            Some(Stage::Entered { tries, .. }) => tries,
            _ => 0,
        };
        if state > Delivery::Echoed {
            self.hands.remove(&receipt);
        }
        let turned = self.seen.turned;
        let read = self.tails.positions();
        let session = self
            .write(move |writer| {
                let mut session: Session = writer.reader().get(id.as_str())?;
                note_read(&mut session, &read);
                let before: Receipt = writer.reader().get(receipt.as_str())?;
                let mut after = before.clone();
                // A state that is skipped was passed through unseen: it is in the history all the same.
                if state == Delivery::TurnStarted && before.state < Delivery::Submitted {
                    after = after.moved(Delivery::Submitted, writer.now());
                    after.version = before.version;
                }
                let after = Receipt {
                    attempts: before
                        .attempts
                        .max(u32::try_from(tries).unwrap_or(u32::MAX)),
                    note: note.clone().or(before.note.clone()),
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
                        let answered = Change::Answered {
                            receipt: after.id.clone(),
                            text: reason(after.text.as_str()),
                        };
                        writer.tell(&answered.of(&session))?;
                    }
                    _ => {}
                }
                Ok(session)
            })
            .await?;
        self.seen.turned |= matches!(state, Delivery::Submitted | Delivery::TurnStarted);
        self.tell(|t| t.moves += 1);
        Ok(session)
    }

    /// Returns whether the end is recorded; not yet while the session is being handed over.
    pub(super) async fn record_end(&mut self, exit: Exit) -> Result<bool, Error> {
        let (id, run) = (self.member.session.clone(), self.run);
        let said = self.seen.finished.clone();
        let read = self.tails.positions();
        let kill = self.fleet.unrecorded_kill(&self.member, run);
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
                    end_session(writer, &after, outcome, Some(reason(&why)))?;
                } else {
                    writer.tell(&Change::Interrupted { run }.of(&after))?;
                }
                Ok(Some(true))
            })
            .await?;
        match recorded {
            None => Ok(false),
            Some(false) => {
                self.fleet.kill_recorded(&self.member);
                self.fleet.ring();
                Ok(true)
            }
            Some(true) => {
                self.fleet.point("exit.recorded");
                let (runtime, handle) = self.runtime_parts();
                if let Err(error) = runtime.forget(&handle).await {
                    tracing::warn!(%error, "what is left of a run could not be removed");
                }
                self.fleet.board.forget_run(&self.member);
                // What was written to the run waits no longer.
                let _ = self.open_receipts().await;
                self.fleet.places.leave(&self.member);
                self.fleet.ring();
                Ok(true)
            }
        }
    }
}

fn unseen(state: Delivery, note: Option<&str>) -> bool {
    state == Delivery::Unknown && note == Some(UNSEEN)
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

/// Messages that were written and not seen taken: nobody will know any more.
pub(crate) fn close_written(writer: &mut Writer<'_>, session: &Session) -> StoreResult<()> {
    let filter = Filter {
        parent: Some(session.id.to_string()),
        live: Some(true),
        ..Filter::default()
    };
    for receipt in writer.reader().all::<Receipt>(&filter)? {
        let note = match receipt.written {
            Some(_) => "the run it was written to is over",
            None => "the run that asked is over; nothing was typed",
        };
        if receipt.is_open() && (receipt.written.is_some() || receipt.purpose == Purpose::Answer) {
            let after = Receipt {
                note: Some(reason(note)),
                ..receipt.moved(Delivery::Unknown, writer.now())
            };
            writer.update(&after)?;
            writer.tell(&delivered(&after).of(session))?;
        }
    }
    Ok(())
}

pub(super) fn delivered(receipt: &Receipt) -> Change {
    Change::Delivered {
        receipt: receipt.id.clone(),
        state: receipt.state,
        note: receipt.note.clone(),
    }
}
