//! How journal rows of sagas are written.

use serde::{Deserialize, Serialize};
use skein_domain::saga::{Failure, Order, Step};
use skein_domain::{Kind, Outcome, PromptVia, Saga, SagaKind, SagaState, Timestamp};

use super::{form, parse, parse_opt, unknown_form, word};
use crate::backend::Result;

#[derive(Serialize, Deserialize)]
struct SagaV1 {
    v: u8,
    id: String,
    session: String,
    kind: String,
    state: StateV1,
    order: OrderV1,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    actor: String,
    version: u64,
    at: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
enum StateV1 {
    Queued,
    Doing {
        step: String,
    },
    Undoing {
        step: String,
        why: FailureV1,
        failed: Vec<String>,
    },
    Leftover {
        steps: Vec<String>,
        why: FailureV1,
    },
}

#[derive(Serialize, Deserialize)]
struct FailureV1 {
    step: String,
    kind: String,
    text: String,
    outcome: String,
}

#[derive(Serialize, Deserialize)]
struct OrderV1 {
    discard: bool,
    reason: Option<String>,
    receipt: Option<String>,
    ended: Option<EndedV1>,
    memory: u64,
}

#[derive(Serialize, Deserialize)]
struct EndedV1 {
    outcome: String,
    reason: Option<String>,
}

pub(crate) fn encode(saga: &Saga) -> Result<String> {
    super::encode(&SagaV1::from(saga))
}

pub(crate) fn decode(body: &str) -> Result<Saga> {
    match form("saga", body)? {
        1 => super::decode::<SagaV1, _>("saga", body),
        v => Err(unknown_form("saga", v)),
    }
}

impl From<&Saga> for SagaV1 {
    fn from(s: &Saga) -> Self {
        Self {
            v: 1,
            id: s.id.to_string(),
            session: s.session.to_string(),
            kind: s.kind.as_str().into(),
            state: (&s.state).into(),
            order: (&s.order).into(),
            prompt: s.prompt.map(|via| via.as_str().into()),
            actor: s.actor.to_string(),
            version: s.version,
            at: s.at.as_micros(),
        }
    }
}

impl TryFrom<SagaV1> for Saga {
    type Error = String;
    fn try_from(r: SagaV1) -> std::result::Result<Self, String> {
        let prompt = r.prompt.map(|via| word(&via, PromptVia::parse(&via)));
        Ok(Self {
            id: parse(&r.id)?,
            session: parse(&r.session)?,
            kind: word(&r.kind, SagaKind::parse(&r.kind))?,
            state: r.state.try_into()?,
            order: r.order.try_into()?,
            prompt: prompt.transpose()?,
            actor: parse(&r.actor)?,
            version: r.version,
            at: Timestamp::from_micros(r.at),
        })
    }
}

fn names(steps: &[Step]) -> Vec<String> {
    steps.iter().map(|s| s.as_str().to_owned()).collect()
}

fn steps(names: &[String]) -> std::result::Result<Vec<Step>, String> {
    names.iter().map(|name| step(name)).collect()
}

fn step(value: &str) -> std::result::Result<Step, String> {
    word(value, Step::parse(value))
}

impl From<&SagaState> for StateV1 {
    fn from(state: &SagaState) -> Self {
        match state {
            SagaState::Queued => Self::Queued,
            SagaState::Doing(step) => Self::Doing {
                step: step.as_str().into(),
            },
            SagaState::Undoing { step, why, failed } => Self::Undoing {
                step: step.as_str().into(),
                why: why.into(),
                failed: names(failed),
            },
            SagaState::Leftover { steps, why } => Self::Leftover {
                steps: names(steps),
                why: why.into(),
            },
        }
    }
}

impl TryFrom<StateV1> for SagaState {
    type Error = String;
    fn try_from(r: StateV1) -> std::result::Result<Self, String> {
        Ok(match r {
            StateV1::Queued => Self::Queued,
            StateV1::Doing { step: at } => Self::Doing(step(&at)?),
            StateV1::Undoing {
                step: at,
                why,
                failed,
            } => Self::Undoing {
                step: step(&at)?,
                why: why.try_into()?,
                failed: steps(&failed)?,
            },
            StateV1::Leftover { steps: left, why } => Self::Leftover {
                steps: steps(&left)?,
                why: why.try_into()?,
            },
        })
    }
}

impl From<&Failure> for FailureV1 {
    fn from(why: &Failure) -> Self {
        Self {
            step: why.step.as_str().into(),
            kind: why.kind.as_str().into(),
            text: why.text.to_string(),
            outcome: why.outcome.as_str().into(),
        }
    }
}

impl TryFrom<FailureV1> for Failure {
    type Error = String;
    fn try_from(r: FailureV1) -> std::result::Result<Self, String> {
        Ok(Self {
            step: step(&r.step)?,
            kind: word(&r.kind, Kind::parse(&r.kind))?,
            text: parse(&r.text)?,
            outcome: word(&r.outcome, Outcome::parse(&r.outcome))?,
        })
    }
}

impl From<&Order> for OrderV1 {
    fn from(order: &Order) -> Self {
        Self {
            discard: order.discard,
            reason: order.reason.as_ref().map(ToString::to_string),
            receipt: order.receipt.as_ref().map(ToString::to_string),
            ended: order.ended.as_ref().map(|(outcome, reason)| EndedV1 {
                outcome: outcome.as_str().into(),
                reason: reason.as_ref().map(ToString::to_string),
            }),
            memory: order.memory,
        }
    }
}

impl TryFrom<OrderV1> for Order {
    type Error = String;
    fn try_from(r: OrderV1) -> std::result::Result<Self, String> {
        let ended = |r: EndedV1| {
            let outcome = word(&r.outcome, Outcome::parse(&r.outcome))?;
            Ok::<_, String>((outcome, parse_opt(r.reason.as_ref())?))
        };
        Ok(Self {
            discard: r.discard,
            reason: parse_opt(r.reason.as_ref())?,
            receipt: parse_opt(r.receipt.as_ref())?,
            ended: r.ended.map(ended).transpose()?,
            memory: r.memory,
        })
    }
}
