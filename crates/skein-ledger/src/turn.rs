//! Turns of sessions that people and external programs drive.

use skein_domain::{
    Actor, Conflict, Invalid, Message, OptionKind, Phase, Purpose, Question, Reason, Receipt,
    ReceiptId, Refused, Role, Session, Step, Thread, Usage, fact::SessionChange,
};
use skein_store::{Reader, Writer};

use crate::caller::{Answer, RequestOutcome};
use crate::ending::carry_up;
use crate::error::{Error, StoreResult};
use crate::filter::live_of_parent;
use crate::receipt::{insert_receipt, new_receipt};
use crate::requests::TurnRequests;

/// What must still be true of a session for a program's write to count.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    pub run: Option<u64>,
    pub owner_version: Option<u64>,
    pub owner: Option<Actor>,
}

impl Fence {
    pub(crate) fn check(&self, session: &Session) -> StoreResult<()> {
        session.check_owner(self.owner.as_ref())?;
        session.check_owner_version(self.owner_version)?;
        session.check_run(self.run)?;
        Ok(())
    }
}

pub(crate) fn require_open_thread(reader: &Reader<'_>, session: &Session) -> StoreResult<()> {
    reader
        .get::<Thread>(session.thread.as_str())?
        .require_open()?;
    Ok(())
}

/// Most answers a question can offer.
const MOST_OPTIONS: usize = 50;

impl TurnRequests<'_> {
    pub async fn begin(self, reference: String, fence: Fence) -> Result<Answer, Error> {
        self.step("begin a turn", reference, fence, |reader, session| {
            require_open_thread(reader, session)?;
            session.budget.check_left(&session.id, &session.usage)?;
            Ok((
                Step::BeginTurn,
                Usage::default(),
                SessionChange::TurnBegan { run: session.run },
            ))
        })
        .await
    }

    pub async fn end(self, reference: String, fence: Fence, usage: Usage) -> Result<Answer, Error> {
        self.step("end a turn", reference, fence, move |_, _| {
            Ok((Step::EndTurn, usage, SessionChange::TurnEnded { usage }))
        })
        .await
    }

    pub async fn ask(
        self,
        reference: String,
        fence: Fence,
        question: Question,
    ) -> Result<Answer, Error> {
        if question.options.len() > MOST_OPTIONS {
            let count = question.options.len().to_string();
            return Err(
                Invalid::new("options", &count, format!("the most is {MOST_OPTIONS}")).into(),
            );
        }
        let bytes: usize = question.options.iter().map(|o| o.as_str().len()).sum();
        if bytes > Reason::MOST {
            let why = format!("together they may have {} bytes", Reason::MOST);
            return Err(Invalid::new("options", &bytes.to_string(), why).into());
        }
        self.step("ask", reference, fence, move |_, _| {
            Ok((
                Step::Ask(question.clone()),
                Usage::default(),
                SessionChange::Asked(question.clone()),
            ))
        })
        .await
    }

    /// Withdraws a question; the session becomes idle.
    pub async fn withdraw(self, reference: String, fence: Fence) -> Result<Answer, Error> {
        self.step("withdraw a question", reference, fence, |_, _| {
            Ok((Step::Withdraw, Usage::default(), SessionChange::Withdrawn))
        })
        .await
    }

    /// One step of a turn: fences, phase, usage and event in one transaction.
    async fn step(
        self,
        op: &'static str,
        reference: String,
        mut fence: Fence,
        decide: impl Fn(&Reader<'_>, &Session) -> StoreResult<(Step, Usage, SessionChange)>
        + Send
        + 'static,
    ) -> Result<Answer, Error> {
        fence.owner = self.0.must_own_as(op, fence.owner).await?;
        self.0
            .change(op, Role::Operate, move |writer| {
                let before: Session = writer.reader().resolve(&reference)?;
                fence.check(&before)?;
                refuse_agents(&before)?;
                let (step, usage, change) = decide(&writer.reader(), &before)?;
                let after = before.step(step, writer.now())?;
                let after = Session {
                    usage: after.usage.plus(usage),
                    ..after
                };
                writer.update(&after)?;
                carry_up(writer, &before, &after)?;
                writer.append_event(&change.of(&after))?;
                Ok(RequestOutcome::Session(Box::new(after)))
            })
            .await
    }

    /// Answers a session's question. The receipt shows how far the answer is known to have come. It is durable, and an
    /// external program reads the answer from the event.
    pub async fn answer(self, reference: String, text: Reason) -> Result<Answer, Error> {
        let id = ReceiptId::from_random(self.0.ledger.ids.bits());
        let key = self.0.caller.idempotency.as_ref().map(|i| i.key.clone());
        let must_own = self.0.must_own();
        self.0
            .change("answer", Role::Operate, move |writer| {
                let before: Session = writer.reader().resolve(&reference)?;
                before.check_owner(must_own.as_ref())?;
                let text = chosen(&before.phase, &text)?;
                let after = before.step(Step::Answer, writer.now())?;
                let mut receipt = new_receipt(
                    writer,
                    id.clone(),
                    &before,
                    Purpose::Answer,
                    Message::from(&text),
                );
                receipt.key = key.clone();
                if let (Some(_), Phase::AwaitingInput(question)) = (&before.gear, &before.phase) {
                    receipt.question = Some(question.clone());
                }
                if before.gear.is_some() {
                    // The supervisor passes it to the agent; the question is answered once the agent took it.
                    refuse_second_answer(writer, &before)?;
                    insert_receipt(writer, &before, &receipt)?;
                    return Ok(RequestOutcome::Receipt(Box::new(receipt)));
                }
                receipt.attempts = 1;
                writer.insert(&receipt)?;
                writer.update(&after)?;
                writer.append_event(
                    &SessionChange::Answered {
                        receipt: receipt.id.clone(),
                        text,
                    }
                    .of(&after),
                )?;
                Ok(RequestOutcome::Receipt(Box::new(receipt)))
            })
            .await
    }
}

/// Refuses a session with an agent: its agent alone begins and ends turns.
pub(crate) fn refuse_agents(session: &Session) -> Result<(), Refused> {
    match &session.gear {
        Some(_) => Err(Refused::AgentDrives {
            session: session.id.clone(),
        }),
        None => Ok(()),
    }
}

/// A question is answered once; the next answer waits for the next question.
fn refuse_second_answer(writer: &Writer<'_>, session: &Session) -> StoreResult<()> {
    let open = live_of_parent(&session.id);
    let under_way = |r: &Receipt| r.purpose == Purpose::Answer && r.is_open();
    if writer.reader().all::<Receipt>(&open)?.iter().any(under_way) {
        return Err(Conflict::Busy {
            session: session.id.clone(),
            saga: "answer",
        }
        .into());
    }
    Ok(())
}

/// The option that a word means: its own text in any case, or a usual word for its kind.
fn by_word<'a>(question: &'a Question, text: &str) -> Option<&'a Reason> {
    let same = |option: &&Reason| option.as_str().eq_ignore_ascii_case(text.trim());
    if let Some(option) = question.options.iter().find(same) {
        return Some(option);
    }
    let word = text.trim().to_ascii_lowercase();
    let kind = match word.as_str() {
        "y" | "yes" | "allow" | "once" => OptionKind::AllowOnce,
        "always" => OptionKind::AllowAlways,
        "n" | "no" | "deny" | "reject" => OptionKind::RejectOnce,
        "never" => OptionKind::RejectAlways,
        other => OptionKind::parse(other).filter(|kind| *kind != OptionKind::Other)?,
    };
    question.options.get(question.option_of(kind)?)
}

/// A question with options takes one of them, by its text, its number, or a word for its kind.
fn chosen(phase: &Phase, text: &Reason) -> Result<Reason, Invalid> {
    let Phase::AwaitingInput(question) = phase else {
        return Ok(text.clone());
    };
    if question.options.is_empty() || question.options.contains(text) {
        return Ok(text.clone());
    }
    let by_number = text
        .as_str()
        .parse::<usize>()
        .ok()
        .and_then(|n| question.options.get(n.checked_sub(1)?));
    by_number
        .or_else(|| by_word(question, text.as_str()))
        .cloned()
        .ok_or_else(|| {
            let list: Vec<String> = question
                .options
                .iter()
                .enumerate()
                .map(|(i, o)| format!("{}: {o}", i + 1))
                .collect();
            Invalid::new(
                "answer",
                text.as_str(),
                format!("choose one of {}", list.join(", ")),
            )
        })
}
