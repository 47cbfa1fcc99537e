//! What a supervisor types into a terminal: it records the right to do so first, and each input has its own number (L6).

use std::collections::HashMap;
use std::sync::Arc;

use skein_agent::agent::Reply;
use skein_domain::fact::SessionChange;
use skein_domain::{Delivery, DeliveryDoubt, Purpose, Receipt, ReceiptId, Session, WrittenInput};
use skein_runtime::runtime::{InputResult, Run, Screen, TerminalInput};
use tokio::sync::oneshot;

use super::activity::TypedPrompt;
use super::courier::{self, DoubtWithNote, NUMBERS, Stage};
use super::record::gear_of_run;
use super::supervisor::{RunContext, StopSignal, Supervisor};
use crate::error::Error;
use skein_ledger::receipt::delivered;

/// What is known of the run's terminal and of what was typed there.
#[derive(Debug, Default)]
pub(super) struct TerminalPort {
    /// The highest input number that the terminal is known to have taken.
    pub(super) taken: u64,
    /// Messages that were typed and are not known to be taken.
    pub(super) messages: HashMap<ReceiptId, TypedMessage>,
    /// None until it was looked up.
    pub(super) previous_message_may_be_in_box: Option<bool>,
    /// The message that was submitted last, while nothing shows that its turn has begun.
    pub(super) awaits_turn: Option<ReceiptId>,
}

/// A message under way, within this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypedMessage {
    pub(super) stage: Stage,
    /// How much people had typed at the terminal when it was pasted.
    typed: u64,
    /// When it was seen that they had typed more.
    pub(super) typed_at: Option<u64>,
    pub(super) interrupted_at: Option<u64>,
}

/// A request to stop the turn, and the input number it may be typed under.
#[derive(Debug)]
pub(super) struct Interrupt {
    pub(super) number: u64,
    pub(super) keys: Vec<u8>,
    pub(super) done: oneshot::Sender<Result<(), Error>>,
}

impl TerminalPort {
    /// Types. Gives up when the supervisor is to stop: an agent that does not read would block it.
    async fn put(
        &mut self,
        stop: &mut StopSignal,
        run: &Arc<dyn Run>,
        number: u64,
        input: TerminalInput,
    ) -> Result<InputResult, Error> {
        let taken = tokio::select! {
            biased;
            () = stop.wait() => return Err(Error::STOPPED),
            taken = run.write(number, input) => taken?,
        };
        self.taken = self.taken.max(number);
        Ok(taken)
    }

    /// How far the delivery of a message has come. Of one that another daemon typed, the number that the terminal took
    /// last shows it; keys that a person pressed since then cannot be told from earlier ones.
    pub(super) fn typed_message(&mut self, receipt: &Receipt, at: u64) -> TypedMessage {
        if let Some(message) = self.messages.get(&receipt.id) {
            return *message;
        }
        let written = receipt
            .written
            .filter(|_| receipt.state != Delivery::Accepted);
        let stage = match written {
            None => Stage::Waiting,
            Some(written) if self.taken > written.input => Stage::Entered {
                number: self.taken,
                at,
                tries: 1,
            },
            Some(_) => Stage::Pasted { at },
        };
        let others = written.is_some_and(|w| self.taken >= w.input + NUMBERS);
        let message = TypedMessage {
            stage,
            typed: 0,
            typed_at: None,
            interrupted_at: others.then_some(at),
        };
        // What is not typed yet is looked at anew each time.
        if written.is_some() {
            self.messages.insert(receipt.id.clone(), message);
        }
        message
    }

    /// A person who types at the terminal may change what is in the input box; `typed` counts those keys.
    pub(super) fn notice_typing(&mut self, typed: u64, now: u64) {
        for message in self.messages.values_mut() {
            if message.typed != typed {
                message.typed_at.get_or_insert(now);
            }
        }
    }

    /// The turn was interrupted by keys, which may clear the input box.
    fn notice_interrupt(&mut self, now: u64) {
        for message in self.messages.values_mut() {
            message.interrupted_at = Some(now);
        }
    }

    /// Keeps what follows from how far a message came. Returns how often Enter was pressed for it.
    pub(super) fn apply_delivery(
        &mut self,
        receipt: &Receipt,
        state: Delivery,
        doubt: Option<DeliveryDoubt>,
    ) -> u64 {
        let is_message = receipt.purpose != Purpose::Answer;
        if state > Delivery::Echoed && is_message && receipt.written.is_some() {
            self.previous_message_may_be_in_box = Some(may_be_in_box(state, doubt));
            let awaits = (state == Delivery::Submitted).then(|| receipt.id.clone());
            self.awaits_turn = awaits;
        }
        let tries = match self.messages.get(&receipt.id).map(|h| h.stage) {
            Some(Stage::Entered { tries, .. }) => tries,
            _ => 0,
        };
        if state > Delivery::Echoed {
            self.messages.remove(&receipt.id);
        }
        tries
    }

    /// Looks up once whether the last message of this run may still be in the agent's input box, unseen.
    pub(super) async fn look_up_previous_message(
        &mut self,
        context: &RunContext,
    ) -> Result<(), Error> {
        if self.previous_message_may_be_in_box.is_some() {
            return Ok(());
        }
        let all = context.receipts(None).await?;
        let ours = |r: &&Receipt| {
            !r.is_open()
                && r.purpose != Purpose::Answer
                && r.written.is_some_and(|w| w.run == context.run)
        };
        let last = all
            .iter()
            .filter(ours)
            .max_by_key(|r| r.written.map(|w| w.input));
        let may_be = last.is_some_and(|r| may_be_in_box(r.state, r.doubt));
        self.previous_message_may_be_in_box = Some(may_be);
        Ok(())
    }
}

fn may_be_in_box(state: Delivery, doubt: Option<DeliveryDoubt>) -> bool {
    state == Delivery::Unknown && doubt == Some(DeliveryDoubt::NotSeenTaken)
}

impl RunContext {
    /// Records the right to type a message.
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
                written: Some(WrittenInput { run, input }),
                ..before.moved(before.state, writer.now())
            };
            writer.update(&claimed)?;
            writer.append_event(&delivered(&claimed).of(&after))?;
            Ok((after, claimed))
        })
        .await
    }

    /// Releases the input number of a message: it was not used and can no longer be used, so the message waits as before.
    async fn release_input_number(
        &self,
        session: Session,
        receipt: &Receipt,
    ) -> Result<Session, Error> {
        let receipt = receipt.id.clone();
        self.write(move |writer| {
            let before: Receipt = writer.reader().get(receipt.as_str())?;
            let free = Receipt {
                written: None,
                ..before.moved(before.state, writer.now())
            };
            writer.update(&free)?;
            writer.append_event(&delivered(&free).of(&session))?;
            Ok(session.clone())
        })
        .await
    }

    /// One more number, recorded with the event `change`.
    async fn claim_key(&self, change: SessionChange) -> Result<u64, Error> {
        let (id, run) = (self.session_key.session.clone(), self.run);
        self.write(move |writer| {
            let session: Session = writer.reader().get(id.as_str())?;
            session.check_run(Some(run))?;
            let mut gear = gear_of_run(&session)?;
            gear.input += 1;
            let number = gear.input;
            let after = session.with_gear(gear, writer.now());
            writer.update(&after)?;
            writer.append_event(&change.clone().of(&after))?;
            Ok(number)
        })
        .await
    }
}

/// The doubt about a message of several lines that the agent may read as several messages.
fn in_lines(receipt: &Receipt, screen: &Screen) -> Option<DoubtWithNote> {
    let several = receipt.purpose != Purpose::Answer && receipt.text.as_str().contains('\n');
    let splits = several && !screen.bracketed_paste;
    splits.then(|| DeliveryDoubt::InLines.into())
}

impl Supervisor {
    /// Finds out what became of rights to write that were recorded before a crash, before anything else is
    /// typed. Nothing is typed under such a number: either it was used, or from now on no daemon can use it.
    pub(super) async fn settle(
        &mut self,
        run: &Arc<dyn Run>,
        mut session: Session,
    ) -> Result<Session, Error> {
        for receipt in self.context.open_receipts().await? {
            let Some(written) = receipt.written else {
                continue;
            };
            if !courier::is_unsettled(&receipt, self.context.run) {
                continue;
            }
            let highest = self.terminal.taken;
            let taken = self
                .terminal
                .put(
                    &mut self.mailbox.stop,
                    run,
                    written.input,
                    TerminalInput::Keys(vec![]),
                )
                .await?;
            session = match taken {
                InputResult::Now => self.release_input_number(session, &receipt).await?,
                InputResult::Before if highest < written.input + NUMBERS => {
                    let doubt_with_note = in_lines(&receipt, &self.agent.screen);
                    self.record_delivery(session, &receipt, Delivery::Written, doubt_with_note)
                        .await?
                }
                InputResult::Before => {
                    let doubt_with_note = Some(DoubtWithNote::from(DeliveryDoubt::Overtaken));
                    self.record_delivery(session, &receipt, Delivery::Unknown, doubt_with_note)
                        .await?
                }
            };
        }
        Ok(session)
    }

    /// Records the right to write, writes, records that it was written.
    pub(super) async fn paste(
        &mut self,
        run: &Arc<dyn Run>,
        session: Session,
        receipt: &Receipt,
    ) -> Result<Session, Error> {
        let input = match self.agent.reply(receipt) {
            Reply::Text(text) => TerminalInput::Paste(text.as_str().to_owned()),
            Reply::Keys(keys) => TerminalInput::Keys(keys),
            Reply::Cannot { why } => {
                let doubt_with_note = DoubtWithNote {
                    doubt: DeliveryDoubt::NoSuchAnswer,
                    note: Some(why),
                };
                return self
                    .record_delivery(session, receipt, Delivery::Unknown, Some(doubt_with_note))
                    .await;
            }
        };
        let (session, receipt) = self.context.claim(&session, receipt).await?;
        let Some(written) = receipt.written else {
            return Ok(session);
        };
        self.context.requests.reach("deliver.claimed");
        let since = self.context.requests.now();
        if self
            .terminal
            .put(&mut self.mailbox.stop, run, written.input, input)
            .await?
            == InputResult::Before
        {
            // Overtaken; only this supervisor had the number, so the message was not typed.
            return self.release_input_number(session, &receipt).await;
        }
        self.context.requests.reach("deliver.written");
        let at = self.context.now();
        let is_answer = receipt.purpose == Purpose::Answer;
        if is_answer {
            self.agent.evidence.question.left = false;
        } else {
            self.terminal.awaits_turn = None;
            let prompt = TypedPrompt::new(&receipt, since);
            self.agent.evidence.prompted(at, prompt);
        }
        let message = TypedMessage {
            stage: Stage::Pasted { at },
            typed: self.agent.screen.typed,
            typed_at: None,
            interrupted_at: None,
        };
        self.terminal.messages.insert(receipt.id.clone(), message);
        let doubt_with_note = in_lines(&receipt, &self.agent.screen);
        let session = self
            .record_delivery(session, &receipt, Delivery::Written, doubt_with_note)
            .await?;
        self.context.requests.reach("deliver.recorded");
        Ok(session)
    }

    pub(super) async fn enter(
        &mut self,
        run: &Arc<dyn Run>,
        receipt: &Receipt,
        number: u64,
    ) -> Result<(), Error> {
        let number = if number > self.terminal.taken {
            number
        } else {
            // Something else was typed meanwhile, with higher numbers: this one would not be taken.
            self.context.claim_key(delivered(receipt)).await?
        };
        let at = self.context.now();
        if receipt.purpose != Purpose::Answer {
            let mut history = receipt.history.iter();
            let written = history.find(|(state, _)| *state == Delivery::Written);
            let since = written.map_or_else(|| self.context.requests.now(), |(_, at)| *at);
            let prompt = TypedPrompt::new(receipt, since);
            self.agent.evidence.prompted(at, prompt);
        }
        let submit = self
            .agent
            .program
            .as_ref()
            .map_or(b"\r".to_vec(), |a| a.submit());
        self.terminal
            .put(
                &mut self.mailbox.stop,
                run,
                number,
                TerminalInput::Keys(submit),
            )
            .await?;
        let mut message = self.terminal.typed_message(receipt, at);
        let tries = match message.stage {
            Stage::Entered { tries, .. } => tries + 1,
            Stage::Waiting | Stage::Pasted { .. } => 1,
        };
        message.stage = Stage::Entered { number, at, tries };
        self.terminal.messages.insert(receipt.id.clone(), message);
        Ok(())
    }

    /// Stops the turn for the callers who asked for it: by a call, or by the agent's own keys, which may clear its
    /// input box.
    pub(super) async fn interrupt(&mut self, run: &Arc<dyn Run>) -> Result<(), Error> {
        while let Some(interrupt) = self.mailbox.interrupts.pop_front() {
            // The caller no longer waits: the request answered that nothing was done.
            if interrupt.done.is_closed() {
                continue;
            }
            if self.turns.is_some() {
                self.call_interrupt(interrupt).await?;
                continue;
            }
            let Interrupt { number, keys, done } = interrupt;
            let pressed = self.press(run, number, keys).await;
            self.terminal.notice_interrupt(self.context.now());
            let failed = pressed.as_ref().err().cloned();
            let _ = done.send(pressed);
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn press(&mut self, run: &Arc<dyn Run>, number: u64, keys: Vec<u8>) -> Result<(), Error> {
        let taken = self
            .terminal
            .put(
                &mut self.mailbox.stop,
                run,
                number,
                TerminalInput::Keys(keys.clone()),
            )
            .await?;
        if taken == InputResult::Before {
            // Overtaken by a message; only this supervisor had the number.
            let change = SessionChange::Interrupted {
                run: self.context.run,
            };
            let number = self.context.claim_key(change).await?;
            self.terminal
                .put(
                    &mut self.mailbox.stop,
                    run,
                    number,
                    TerminalInput::Keys(keys),
                )
                .await?;
        }
        Ok(())
    }

    async fn release_input_number(
        &mut self,
        session: Session,
        receipt: &Receipt,
    ) -> Result<Session, Error> {
        self.terminal.messages.remove(&receipt.id);
        self.context.release_input_number(session, receipt).await
    }
}
