//! What a supervisor types into a terminal: it records the right to do so first, and each input has its own number (L6).

use std::collections::HashMap;
use std::sync::Arc;

use skein_agent::agent::{AnswerTarget, Reply};
use skein_domain::fact::SessionChange;
use skein_domain::{
    Delivery, DeliveryDoubt, Purpose, Reason, Receipt, ReceiptId, Session, WrittenInput,
};
use skein_runtime::runtime::{InputResult, Run, Screen, TerminalInput};
use tokio::sync::oneshot;

use super::courier::{self, By, Doubted, NUMBERS, Stage};
use super::supervisor::{Supervisor, stopped};
use crate::error::Error;
use skein_ledger::receipt::delivered;

/// What is known of the run's terminal and of what was typed there.
#[derive(Debug, Default)]
pub(super) struct TerminalPort {
    pub(super) screen: Screen,
    /// The highest input number that the terminal is known to have taken.
    pub(super) taken: u64,
    /// Messages that were typed and are not known to be taken.
    pub(super) hands: HashMap<ReceiptId, Hand>,
    /// None until it was looked up.
    pub(super) previous_message_may_be_in_box: Option<bool>,
    /// The message that was submitted last, while nothing shows that its turn has begun.
    pub(super) awaits_turn: Option<ReceiptId>,
}

/// A message under way, within this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hand {
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

impl Supervisor {
    /// Types. Gives up when the supervisor is told to stop: an agent that does not read would block it.
    async fn put(
        &mut self,
        run: &Arc<dyn Run>,
        number: u64,
        input: TerminalInput,
    ) -> Result<InputResult, Error> {
        let stopping = self.requests.tasks().stopping();
        let taken = tokio::select! {
            biased;
            () = stopped(&mut self.mailbox.stop) => return Err(Error::STOPPED),
            () = stopping => return Err(Error::STOPPED),
            taken = run.write(number, input) => taken?,
        };
        self.terminal.taken = self.terminal.taken.max(number);
        Ok(taken)
    }

    /// Finds out what became of rights to write that were recorded before a crash, before anything else is
    /// typed. Nothing is typed under such a number: either it was used, or now nobody can use it.
    pub(super) async fn settle(
        &mut self,
        run: &Arc<dyn Run>,
        mut session: Session,
    ) -> Result<Session, Error> {
        for receipt in self.open_receipts().await? {
            let Some(written) = receipt.written else {
                continue;
            };
            if !courier::is_unsettled(&receipt, self.run) {
                continue;
            }
            let highest = self.terminal.taken;
            let taken = self
                .put(run, written.input, TerminalInput::Keys(vec![]))
                .await?;
            session = match taken {
                InputResult::Now => self.give_back(session, &receipt).await?,
                InputResult::Before if highest < written.input + NUMBERS => {
                    let doubted = self.in_lines(&receipt);
                    self.climb(session, &receipt, Delivery::Written, doubted)
                        .await?
                }
                InputResult::Before => {
                    let doubted = Some(Doubted::from(DeliveryDoubt::Overtaken));
                    self.climb(session, &receipt, Delivery::Unknown, doubted)
                        .await?
                }
            };
        }
        Ok(session)
    }

    /// Where we are with a message. Of one that another daemon typed, the number that the terminal took last
    /// tells; who typed since then cannot be told from who typed before.
    pub(super) fn hand_of(&mut self, receipt: &Receipt) -> Hand {
        if let Some(hand) = self.terminal.hands.get(&receipt.id) {
            return *hand;
        }
        let at = self.now();
        let written = receipt
            .written
            .filter(|_| receipt.state != Delivery::Accepted);
        let stage = match written {
            None => Stage::Waiting,
            Some(written) if self.terminal.taken > written.input => Stage::Entered {
                number: self.terminal.taken,
                at,
                tries: 1,
            },
            Some(_) => Stage::Pasted { at },
        };
        let others = written.is_some_and(|w| self.terminal.taken >= w.input + NUMBERS);
        let hand = Hand {
            stage,
            typed: 0,
            typed_at: None,
            interrupted_at: others.then_some(at),
        };
        // What is not typed yet is looked at anew each time.
        if written.is_some() {
            self.terminal.hands.insert(receipt.id.clone(), hand);
        }
        hand
    }

    /// Whoever types at the terminal may change what lies in the box.
    pub(super) fn notice_typing(&mut self) {
        let (now, typed) = (self.now(), self.terminal.screen.typed);
        for hand in self.terminal.hands.values_mut() {
            if hand.typed != typed {
                hand.typed_at.get_or_insert(now);
            }
        }
    }

    /// Records the right to write, writes, records that it was written.
    pub(super) async fn paste(
        &mut self,
        run: &Arc<dyn Run>,
        session: Session,
        receipt: &Receipt,
    ) -> Result<Session, Error> {
        let input = match self.reply(receipt) {
            Reply::Text(text) => TerminalInput::Paste(text.as_str().to_owned()),
            Reply::Keys(keys) => TerminalInput::Keys(keys),
            Reply::Cannot { why } => {
                let doubted = Doubted {
                    doubt: DeliveryDoubt::NoSuchAnswer,
                    note: Some(why),
                };
                return self
                    .climb(session, receipt, Delivery::Unknown, Some(doubted))
                    .await;
            }
        };
        let (session, receipt) = self.claim(&session, receipt).await?;
        let Some(written) = receipt.written else {
            return Ok(session);
        };
        self.requests.reach("deliver.claimed");
        if self.put(run, written.input, input).await? == InputResult::Before {
            // Overtaken; nobody but us had this number, so it was not typed.
            return self.give_back(session, &receipt).await;
        }
        self.requests.reach("deliver.written");
        let at = self.now();
        let is_answer = receipt.purpose == Purpose::Answer;
        if is_answer {
            self.evidence.question_left = false;
        } else {
            self.terminal.awaits_turn = None;
            self.evidence.prompted(at);
        }
        let hand = Hand {
            stage: Stage::Pasted { at },
            typed: self.terminal.screen.typed,
            typed_at: None,
            interrupted_at: None,
        };
        self.terminal.hands.insert(receipt.id.clone(), hand);
        let doubted = self.in_lines(&receipt);
        let session = self
            .climb(session, &receipt, Delivery::Written, doubted)
            .await?;
        self.requests.reach("deliver.recorded");
        Ok(session)
    }

    /// The doubt about a message of several lines that the agent may read as several messages.
    fn in_lines(&self, receipt: &Receipt) -> Option<Doubted> {
        let several = receipt.purpose != Purpose::Answer && receipt.text.as_str().contains('\n');
        let splits = several && !self.terminal.screen.bracketed_paste;
        splits.then(|| DeliveryDoubt::InLines.into())
    }

    /// What is to be typed for a receipt.
    fn reply(&self, receipt: &Receipt) -> Reply {
        let (Some(agent), Some(question)) = (&self.agent, &receipt.question) else {
            return Reply::Text(receipt.text.clone());
        };
        let text = Reason::from_text(receipt.text.as_str());
        let option = question.options.iter().position(|o| *o == text);
        match agent.answer(question, option, &text) {
            Reply::Text(_)
                if self.evidence.wanted == Some(AnswerTarget::Permission) && option.is_none() =>
            {
                Reply::Cannot {
                    why: "a permission is not given by text; nothing was typed".into(),
                }
            }
            reply => reply,
        }
    }

    pub(super) fn by(&self, receipt: &Receipt) -> By {
        match self.reply(receipt) {
            Reply::Keys(_) => By::Keys,
            Reply::Text(_) => By::Text,
            Reply::Cannot { why } => By::Cannot(why),
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
                written: Some(WrittenInput { run, input }),
                ..before.moved(before.state, writer.now())
            };
            writer.update(&claimed)?;
            writer.tell(&delivered(&claimed).of(&after))?;
            Ok((after, claimed))
        })
        .await
    }

    /// Its number was not used, and nobody can use it any more: it waits as if it had never had one.
    async fn give_back(&mut self, session: Session, receipt: &Receipt) -> Result<Session, Error> {
        self.terminal.hands.remove(&receipt.id);
        let receipt = receipt.id.clone();
        self.write(move |writer| {
            let before: Receipt = writer.reader().get(receipt.as_str())?;
            let free = Receipt {
                written: None,
                ..before.moved(before.state, writer.now())
            };
            writer.update(&free)?;
            writer.tell(&delivered(&free).of(&session))?;
            Ok(session.clone())
        })
        .await
    }

    /// One more number, told of by `change`.
    async fn claim_key(&self, change: SessionChange) -> Result<u64, Error> {
        let (id, run) = (self.session_key.session.clone(), self.run);
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
            writer.tell(&change.clone().of(&after))?;
            Ok(number)
        })
        .await
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
            self.claim_key(delivered(receipt)).await?
        };
        let at = self.now();
        if receipt.purpose != Purpose::Answer {
            self.evidence.prompted(at);
        }
        let submit = self.agent.as_ref().map_or(b"\r".to_vec(), |a| a.submit());
        self.put(run, number, TerminalInput::Keys(submit)).await?;
        let mut hand = self.hand_of(receipt);
        let tries = match hand.stage {
            Stage::Entered { tries, .. } => tries + 1,
            Stage::Waiting | Stage::Pasted { .. } => 1,
        };
        hand.stage = Stage::Entered { number, at, tries };
        self.terminal.hands.insert(receipt.id.clone(), hand);
        Ok(())
    }

    /// Stops the turn for those who asked: by a call, or by the agent's own keys, which may clear its input box.
    pub(super) async fn interrupt(&mut self, run: &Arc<dyn Run>) -> Result<(), Error> {
        while let Some(interrupt) = self.mailbox.interrupts.pop_front() {
            // The caller no longer waits and was told that nothing was done.
            if interrupt.done.is_closed() {
                continue;
            }
            if self.turns.is_some() {
                self.call_interrupt(interrupt).await?;
                continue;
            }
            let Interrupt { number, keys, done } = interrupt;
            let pressed = self.press(run, number, keys).await;
            let now = self.now();
            for hand in self.terminal.hands.values_mut() {
                hand.interrupted_at = Some(now);
            }
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
            .put(run, number, TerminalInput::Keys(keys.clone()))
            .await?;
        if taken == InputResult::Before {
            // Overtaken by a message; nobody but us had this number.
            let change = SessionChange::Interrupted { run: self.run };
            let number = self.claim_key(change).await?;
            self.put(run, number, TerminalInput::Keys(keys)).await?;
        }
        Ok(())
    }
}
