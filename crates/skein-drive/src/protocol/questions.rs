//! Forms: several questions that a program wants answered at once, asked one after the other.

use super::{Answer, Choice, Effect, Kind, Question, Ticket, Wants};

/// One question of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// What the answer is filed under.
    pub(super) key: String,
    pub(super) text: String,
    pub(super) options: Vec<String>,
    /// Whether another text than the options will do.
    pub(super) free: bool,
}

/// A form that is being filled in.
#[derive(Debug)]
pub(super) struct Form<T> {
    /// What it is to be sent back to.
    pub(super) to: T,
    fields: Vec<Field>,
    pub(super) answers: Vec<(String, String)>,
}

/// What comes after an answer.
#[derive(Debug)]
pub(super) enum Next<T> {
    Ask(Form<T>),
    Filled(Form<T>),
    Dismissed(T),
}

impl<T> Form<T> {
    pub(super) fn new(to: T, fields: Vec<Field>) -> Self {
        Self {
            to,
            fields,
            answers: vec![],
        }
    }

    /// The question that is to be asked now, if there is one left.
    pub(super) fn question(&self, ticket: Ticket, request: &str) -> Option<Effect> {
        let field = self.fields.get(self.answers.len())?;
        let option = |name: &String| Choice {
            name: name.clone(),
            kind: Kind::Other,
        };
        Some(Effect::Ask(Question {
            ticket,
            request: request.to_owned(),
            text: field.text.clone(),
            options: field.options.iter().map(option).collect(),
            wants: match field.options.is_empty() {
                true => Wants::Text,
                false => Wants::Choice { free: field.free },
            },
            edits: vec![],
        }))
    }

    pub(super) fn answer(mut self, answer: &Answer) -> Next<T> {
        let Some(field) = self.fields.get(self.answers.len()) else {
            return Next::Filled(self);
        };
        let said = match answer {
            Answer::Option(index) => field.options.get(*index).cloned(),
            Answer::Text(text) => Some(text.clone()),
            Answer::Dismissed => None,
        };
        let Some(said) = said else {
            return Next::Dismissed(self.to);
        };
        self.answers.push((field.key.clone(), said));
        match self.answers.len() < self.fields.len() {
            true => Next::Ask(self),
            false => Next::Filled(self),
        }
    }
}
