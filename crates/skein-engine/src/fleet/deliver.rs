//! What a keeper writes: turns and questions as they are seen, receipts as they climb, the end of the run.

use std::sync::Arc;

use skein_agent::agent::{Draft, Picture, Reply};
use skein_domain::fact::Change;
use skein_domain::{
    Activity, Delivery, Exit, Outcome, Phase, PhaseName, Purpose, Question, Receipt, Session, Step,
    Usage, Written,
};
use skein_runtime::runtime::{Input, Run};
use skein_store::Writer;
use skein_store::backend::Filter;

use super::courier::{self, Act, Facts, InputBox, LINES, NUMBERS, SETTLE_MS, Stage, UNSEEN};
use super::journal::reason;
use super::keeper::Keeper;
use crate::ending::{carry_up, end_session};
use crate::error::Error;

type StoreResult<T> = Result<T, skein_store::Error>;

/// Acts for one message without a look at the agent between them.
const ACTS: usize = 8;

impl Keeper {
    /// Records what the agent was seen to do as steps of the session.
    pub(super) async fn record(&mut self, session: Session) -> Result<Session, Error> {
        let steps = self.steps(&session);
        let usage = self.take_usage(session.usage);
        let native = self.seen.native.take().filter(|n| {
            session
                .gear
                .as_ref()
                .is_some_and(|g| g.native.as_ref() != Some(n))
        });
        if steps.is_empty() && usage == Usage::default() && native.is_none() {
            return Ok(session);
        }
        if let (true, Some(pid)) = (steps.contains(&Step::EndTurn), self.sight.pid) {
            self.fleet.weigh(&session.agent, pid);
        }
        let (id, run) = (session.id.clone(), self.run);
        self.seen.turned |= !steps.is_empty();
        let phase = session.phase.clone();
        self.write(move |writer| {
            let mut now: Session = writer.reader().get(id.as_str())?;
            if now.run != run {
                return Ok(now);
            }
            if usage != Usage::default() {
                let after = Session {
                    usage: now.usage.plus(usage),
                    ..now.next(writer.now())
                };
                writer.update(&after)?;
                carry_up(writer, &now, &after)?;
                writer.tell(&Change::UsageRead { usage }.of(&after))?;
                now = after;
            }
            if let (Some(native), Some(gear)) = (&native, now.gear.as_deref()) {
                let mut gear = gear.clone();
                gear.native = Some(native.clone());
                now = now.with_gear(gear, writer.now());
                writer.update(&now)?;
                let native = native.clone();
                writer.tell(&Change::Named { native }.of(&now))?;
            }
            // Somebody else moved it meanwhile: the next look decides anew.
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

    pub(super) async fn write<T: Send + 'static>(
        &self,
        job: impl FnMut(&mut Writer<'_>) -> StoreResult<T> + Send + 'static,
    ) -> Result<T, Error> {
        let actor = skein_domain::Actor::System;
        Ok(self.desk.store.write(&actor, self.desk.now(), job).await?)
    }

    /// What was spent since the last reading. Totals count only by what they grew.
    fn take_usage(&mut self, recorded: Usage) -> Usage {
        let mut sum = Usage::default();
        for usage in self.seen.usage.drain(..) {
            sum = sum.plus(usage);
        }
        if let Some(total) = self.seen.total.take() {
            let counted = self.counted.unwrap_or(recorded);
            sum = sum.plus(total.minus(counted));
            self.counted = Some(total);
        }
        sum
    }

    /// What follows from the activity for the session's phase.
    fn steps(&self, session: &Session) -> Vec<Step> {
        let Some(activity) = self.seen.activity() else {
            return vec![];
        };
        let question = || self.seen.question.clone().unwrap_or_else(some_question);
        match (&session.phase, activity) {
            (Phase::Idle, Activity::Active) => vec![Step::BeginTurn],
            (Phase::Active, Activity::Ready) if self.turn_is_over() => vec![Step::EndTurn],
            (Phase::Idle, Activity::WaitingInput) => vec![Step::BeginTurn, Step::Ask(question())],
            (Phase::Active, Activity::WaitingInput) => vec![Step::Ask(question())],
            // Typed by us: the receipt's next step is the question's end as well.
            (Phase::AwaitingInput(_), _) if self.answering => vec![],
            (Phase::AwaitingInput(_), Activity::Active) => vec![Step::Answer],
            (Phase::AwaitingInput(_), Activity::Ready) => vec![Step::Withdraw],
            (Phase::AwaitingInput(asked), Activity::WaitingInput) => match &self.seen.question {
                Some(now) if now != asked => vec![Step::Answer, Step::Ask(now.clone())],
                _ => vec![],
            },
            _ => vec![],
        }
    }

    /// A `ready` from before the turn's beginning does not end it.
    fn turn_is_over(&self) -> bool {
        match self.seen.prompted_at {
            None => true,
            Some(at) => self.seen.worked || self.now() >= at + SETTLE_MS,
        }
    }

    async fn open_receipts(&self) -> Result<Vec<Receipt>, Error> {
        let filter = Filter {
            parent: Some(self.member.session.to_string()),
            live: Some(true),
            ..Filter::default()
        };
        let mut open = self.desk.look(move |r| r.all::<Receipt>(&filter)).await?;
        open.retain(Receipt::is_open);
        Ok(open)
    }

    /// Brings what waits, as far as it goes now. Returns when to try again.
    pub(super) async fn deliver(
        &mut self,
        run: &Arc<dyn Run>,
        mut session: Session,
    ) -> Result<Option<u64>, Error> {
        self.answering = false;
        self.know_box().await?;
        for round in 0..ACTS {
            let open = self.open_receipts().await?;
            let waiting = open.len() as u64;
            self.fleet
                .board
                .change(&self.member, |o| o.queued = waiting);
            let Some(receipt) = self.head(&session, open) else {
                // What was done may have let in what the screen shows already.
                return Ok((round > 0).then(|| self.now() + 10));
            };
            let act = self.decide(&session, &receipt);
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
        let stage = self.stage_of(receipt);
        let facts = self.facts();
        if receipt.purpose == Purpose::Answer {
            self.answering = receipt.written.is_some();
            let asked = match &session.phase {
                Phase::AwaitingInput(question) => {
                    self.seen.activity() == Some(Activity::WaitingInput)
                        && self.seen.question.as_ref().is_none_or(|q| q == question)
                }
                _ => false,
            };
            return courier::decide_answer(receipt, stage, asked, &facts);
        }
        courier::decide(receipt, stage, &facts)
    }

    /// Where we are with a message; after a restart the number the terminal took last tells.
    fn stage_of(&mut self, receipt: &Receipt) -> Stage {
        if let Some((id, stage)) = &self.stage
            && *id == receipt.id
        {
            return *stage;
        }
        let at = self.now();
        let stage = match receipt.written {
            Some(written) if receipt.state != Delivery::Accepted => {
                if self.sight.input > written.input {
                    Stage::Entered {
                        number: self.sight.input,
                        at,
                        tries: 1,
                    }
                } else {
                    Stage::Pasted { at }
                }
            }
            _ => Stage::Waiting,
        };
        self.stage = Some((receipt.id.clone(), stage));
        stage
    }

    fn facts(&self) -> Facts {
        let agent = self.agent.as_ref();
        let picture = Picture {
            rows: &self.screen.rows,
            cursor: self.screen.cursor,
            title: None,
        };
        let input_box = match agent.map(|a| a.draft(picture)) {
            None | Some(Draft::Unseen) => InputBox::Unseen,
            Some(Draft::Empty) => InputBox::Empty,
            Some(Draft::Holds(_)) => InputBox::Holds,
        };
        let now = self.now();
        let output_at = self.sight.output_at.map(|at| {
            let ago = (self.desk.now().as_micros() - at).max(0) / 1000;
            now.saturating_sub(u64::try_from(ago).unwrap_or(0))
        });
        let enter_after = agent.map_or(0, |a| {
            u64::try_from(a.abilities().enter_after.as_millis()).unwrap_or(0)
        });
        Facts {
            now,
            run: self.run,
            activity: self.seen.activity(),
            has_signal: self.has_signal(),
            input_box,
            prompt_taken: self.seen.prompt_taken,
            worked: self.seen.worked,
            output_at,
            since: 0,
            unsettled: self.seen.prompted_at.filter(|_| !self.seen.worked),
            hooks: self.seen.hooks,
            murky: self.murky == Some(true),
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
                self.climb(session, receipt, Delivery::Unknown, Some(note))
                    .await
            }
        }
    }

    /// Records the right to write, writes, records that it was written.
    async fn paste(
        &mut self,
        run: &Arc<dyn Run>,
        session: Session,
        receipt: &Receipt,
    ) -> Result<Session, Error> {
        let (session, receipt) = match receipt.written {
            Some(_) => (session, receipt.clone()),
            None => self.claim(&session, receipt).await?,
        };
        let Some(written) = receipt.written else {
            return Ok(session);
        };
        self.fleet.point("deliver.claimed");
        let reply = self.reply(&session, &receipt);
        match reply {
            Ok(Reply::Text(text)) => {
                let input = Input::Paste(text.as_str().to_owned());
                run.write(written.input, input).await?;
                if receipt.purpose == Purpose::Answer {
                    let submit = self.agent.as_ref().map_or(b"\r".to_vec(), |a| a.submit());
                    run.write(written.input + 1, Input::Keys(submit)).await?;
                }
            }
            Ok(Reply::Keys(keys)) => {
                run.write(written.input, Input::Keys(keys)).await?;
            }
            Ok(Reply::Cannot { why }) | Err(why) => {
                return self
                    .climb(session, &receipt, Delivery::Unknown, Some(&why))
                    .await;
            }
        }
        self.fleet.point("deliver.written");
        let at = self.now();
        if receipt.purpose != Purpose::Answer {
            self.seen.prompted(at);
        }
        self.stage = Some((receipt.id.clone(), Stage::Pasted { at }));
        let several = receipt.purpose != Purpose::Answer && receipt.text.as_str().contains('\n');
        let note = (several && !self.screen.bracketed_paste).then_some(LINES);
        let session = self
            .climb(session, &receipt, Delivery::Written, note)
            .await?;
        self.fleet.point("deliver.recorded");
        Ok(session)
    }

    /// What is to be typed for a receipt.
    fn reply(&self, session: &Session, receipt: &Receipt) -> Result<Reply, String> {
        let Some(agent) = &self.agent else {
            return Ok(Reply::Text(receipt.text.clone()));
        };
        match (&session.phase, receipt.purpose) {
            (Phase::AwaitingInput(question), Purpose::Answer) => {
                let text = reason(receipt.text.as_str());
                let option = question.options.iter().position(|o| *o == text);
                Ok(agent.answer(question, option, &text))
            }
            (_, Purpose::Answer) => Err("the question was gone; nothing was typed".into()),
            (_, Purpose::Task | Purpose::Message) => Ok(Reply::Text(receipt.text.clone())),
        }
    }

    async fn claim(
        &self,
        session: &Session,
        receipt: &Receipt,
    ) -> Result<(Session, Receipt), Error> {
        let (id, run, receipt) = (session.id.clone(), self.run, receipt.id.clone());
        self.write(move |writer| {
            let session: Session = writer.reader().get(id.as_str())?;
            let before: Receipt = writer.reader().get(receipt.as_str())?;
            session.check_run(Some(run))?;
            let Some(gear) = session.gear.as_deref() else {
                return Ok((session, before));
            };
            let mut gear = gear.clone();
            let input = gear.input + 1;
            gear.input += NUMBERS;
            let after = session.with_gear(gear, writer.now());
            writer.update(&after)?;
            let claimed = Receipt {
                written: Some(Written { run, input }),
                ..before.moved(before.state, writer.now())
            };
            writer.update(&claimed)?;
            writer.tell(&delivered(&claimed).of(&after))?;
            Ok((after, claimed))
        })
        .await
    }

    /// One more number for a message whose own were overtaken.
    async fn claim_key(&self, receipt: &Receipt) -> Result<u64, Error> {
        let (id, run, receipt) = (self.member.session.clone(), self.run, receipt.clone());
        self.write(move |writer| {
            let session: Session = writer.reader().get(id.as_str())?;
            session.check_run(Some(run))?;
            let mut gear =
                session.gear.as_deref().cloned().ok_or_else(|| {
                    skein_store::Error::Bug(format!("session {id} lost its gear"))
                })?;
            gear.input += 1;
            let number = gear.input;
            let after = session.with_gear(gear, writer.now());
            writer.update(&after)?;
            writer.tell(&delivered(&receipt).of(&after))?;
            Ok(number)
        })
        .await
    }

    async fn enter(
        &mut self,
        run: &Arc<dyn Run>,
        receipt: &Receipt,
        number: u64,
    ) -> Result<(), Error> {
        let number = if number > self.sight.input {
            number
        } else {
            // Something else was typed meanwhile, with higher numbers: this one would not be taken.
            self.claim_key(receipt).await?
        };
        let at = self.now();
        self.seen.prompted(at);
        let submit = self.agent.as_ref().map_or(b"\r".to_vec(), |a| a.submit());
        run.write(number, Input::Keys(submit)).await?;
        let tries = match self.stage {
            Some((_, Stage::Entered { tries, .. })) => tries + 1,
            _ => 1,
        };
        self.stage = Some((receipt.id.clone(), Stage::Entered { number, at, tries }));
        Ok(())
    }

    /// Records how far a message came; a submitted one begins a turn.
    async fn climb(
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
        let tries = match &self.stage {
            Some((of, Stage::Entered { tries, .. })) if *of == receipt => *tries,
            _ => 0,
        };
        let turned = self.seen.turned;
        let session = self
            .write(move |writer| {
                let mut session: Session = writer.reader().get(id.as_str())?;
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
        let recorded = self
            .write(move |writer| {
                let session: Session = writer.reader().get(id.as_str())?;
                let ours = session.run == run && session.has_run();
                let busy = session.gear.as_ref().is_some_and(|g| g.saga.is_some());
                if !ours || busy {
                    return Ok(Some(false));
                }
                if session.phase.name() == PhaseName::Locked {
                    return Ok(None);
                }
                close_written(writer, &session)?;
                let mut gear = session.gear.as_deref().cloned().ok_or_else(|| {
                    skein_store::Error::Bug(format!("session {id} lost its gear"))
                })?;
                gear.handle = None;
                let after = session.with_gear(gear, writer.now());
                writer.update(&after)?;
                if after.phase.is_live() {
                    let (outcome, why) = outcome(exit);
                    end_session(writer, &after, outcome, Some(reason(&why)))?;
                } else {
                    writer.tell(&Change::Interrupted { run }.of(&after))?;
                }
                Ok(Some(true))
            })
            .await?;
        match recorded {
            None => Ok(false),
            Some(false) => Ok(true),
            Some(true) => {
                self.fleet.point("exit.recorded");
                let (runtime, handle) = self.runtime_parts();
                if let Err(error) = runtime.forget(&handle).await {
                    tracing::warn!(%error, "what is left of a run could not be removed");
                }
                self.fleet.board.forget_run(&self.member);
                // What was written to the run waits no longer.
                let waiting = self
                    .open_receipts()
                    .await
                    .map_or(0, |open| open.len() as u64);
                self.fleet
                    .board
                    .change(&self.member, |o| o.queued = waiting);
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

/// Messages that were written and not seen taken: nobody will know any more.
pub(crate) fn close_written(writer: &mut Writer<'_>, session: &Session) -> StoreResult<()> {
    let filter = Filter {
        parent: Some(session.id.to_string()),
        live: Some(true),
        ..Filter::default()
    };
    for receipt in writer.reader().all::<Receipt>(&filter)? {
        if receipt.is_open() && (receipt.written.is_some() || receipt.purpose == Purpose::Answer) {
            let after = Receipt {
                note: Some(reason("the run it was written to is over")),
                ..receipt.moved(Delivery::Unknown, writer.now())
            };
            writer.update(&after)?;
            writer.tell(&delivered(&after).of(session))?;
        }
    }
    Ok(())
}

fn delivered(receipt: &Receipt) -> Change {
    Change::Delivered {
        receipt: receipt.id.clone(),
        state: receipt.state,
        note: receipt.note.clone(),
    }
}

/// One step of the agent's, with its event.
fn take_step(writer: &mut Writer<'_>, before: &Session, step: Step) -> StoreResult<Session> {
    let change = match &step {
        Step::BeginTurn => Change::TurnBegan { run: before.run },
        Step::EndTurn => Change::TurnEnded {
            usage: Usage::default(),
        },
        Step::Ask(question) => Change::Asked(question.clone()),
        Step::Withdraw | Step::Answer => Change::Withdrawn,
        _ => return Ok(before.clone()),
    };
    let after = before.step(step, writer.now())?;
    writer.update(&after)?;
    writer.tell(&change.of(&after))?;
    Ok(after)
}

fn some_question() -> Question {
    Question {
        text: "it waits for input; `skein attach` shows for what"
            .parse()
            .expect("a short plain text is a reason"),
        options: vec![],
    }
}
