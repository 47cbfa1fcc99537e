//! How receipts are written. The second form has what delivery to an agent needs; the first is still read.

use serde::{Deserialize, Serialize};
use skein_domain::{Delivery, Purpose, Question, Receipt, Timestamp, Written};

use super::{form, parse, parse_all, parse_opt, unknown_form, word};
use crate::backend::Result;
use crate::error::Error;

/// Answers to questions, before anything was typed into a terminal.
#[derive(Deserialize)]
struct ReceiptV1 {
    id: String,
    session: String,
    key: Option<String>,
    text: String,
    attempts: u32,
    history: Vec<(String, i64)>,
}

#[derive(Serialize, Deserialize)]
struct ReceiptV2 {
    v: u8,
    id: String,
    session: String,
    key: Option<String>,
    purpose: String,
    from: Option<String>,
    text: String,
    /// Left out where there is none: forms from before it was written have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    question: Option<QuestionV1>,
    attempts: u32,
    /// Ends with the state.
    history: Vec<(String, i64)>,
    written: Option<WrittenV1>,
    note: Option<String>,
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct QuestionV1 {
    text: String,
    options: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct WrittenV1 {
    run: u64,
    input: u64,
}

pub(crate) fn encode(receipt: &Receipt) -> Result<String> {
    if receipt.history.last().map(|(state, _)| *state) != Some(receipt.state) {
        let why = format!("receipt `{}` is not where its history ends", receipt.id);
        return Err(Error::Bug(why));
    }
    super::encode(&ReceiptV2::from(receipt))
}

pub(crate) fn decode(body: &str) -> Result<Receipt> {
    match form("receipt", body)? {
        1 => super::decode::<ReceiptV1, _>("receipt", body),
        2 => super::decode::<ReceiptV2, _>("receipt", body),
        v => Err(unknown_form("receipt", v)),
    }
}

impl From<&Receipt> for ReceiptV2 {
    fn from(r: &Receipt) -> Self {
        Self {
            v: 2,
            id: r.id.to_string(),
            session: r.session.to_string(),
            key: r.key.as_ref().map(ToString::to_string),
            purpose: r.purpose.as_str().into(),
            from: r.from.as_ref().map(ToString::to_string),
            text: r.text.to_string(),
            question: r.question.as_ref().map(|q| QuestionV1 {
                text: q.text.to_string(),
                options: q.options.iter().map(ToString::to_string).collect(),
                kinds: super::kind_words(&q.kinds),
            }),
            attempts: r.attempts,
            history: r
                .history
                .iter()
                .map(|(s, at)| (s.as_str().to_owned(), at.as_micros()))
                .collect(),
            written: r.written.map(|w| WrittenV1 {
                run: w.run,
                input: w.input,
            }),
            note: r.note.as_ref().map(ToString::to_string),
            version: r.version,
        }
    }
}

type History = Vec<(Delivery, Timestamp)>;

fn history(stored: &[(String, i64)]) -> std::result::Result<(Delivery, History), String> {
    let history: History = stored
        .iter()
        .map(|(s, at)| Ok((word(s, Delivery::parse(s))?, Timestamp::from_micros(*at))))
        .collect::<std::result::Result<_, String>>()?;
    let state = history.last().ok_or("it has no history")?.0;
    Ok((state, history))
}

impl TryFrom<ReceiptV1> for Receipt {
    type Error = String;
    fn try_from(r: ReceiptV1) -> std::result::Result<Self, String> {
        let (state, history) = history(&r.history)?;
        Ok(Self {
            id: parse(&r.id)?,
            session: parse(&r.session)?,
            key: parse_opt(r.key.as_ref())?,
            purpose: Purpose::Answer,
            from: None,
            text: parse(&r.text)?,
            question: None,
            state,
            attempts: r.attempts,
            // The row's version was the length of its history.
            version: history.len() as u64,
            history,
            written: None,
            note: None,
        })
    }
}

impl TryFrom<ReceiptV2> for Receipt {
    type Error = String;
    fn try_from(r: ReceiptV2) -> std::result::Result<Self, String> {
        let (state, history) = history(&r.history)?;
        let question = |q: QuestionV1| {
            Ok::<_, String>(Question {
                text: parse(&q.text)?,
                options: parse_all(&q.options)?,
                kinds: super::kinds_of(&q.kinds)?,
            })
        };
        Ok(Self {
            id: parse(&r.id)?,
            session: parse(&r.session)?,
            key: parse_opt(r.key.as_ref())?,
            purpose: word(&r.purpose, Purpose::parse(&r.purpose))?,
            from: parse_opt(r.from.as_ref())?,
            text: parse(&r.text)?,
            question: r.question.map(question).transpose()?,
            state,
            attempts: r.attempts,
            history,
            written: r.written.map(|w| Written {
                run: w.run,
                input: w.input,
            }),
            note: parse_opt(r.note.as_ref())?,
            version: r.version,
        })
    }
}
