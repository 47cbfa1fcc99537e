//! The questions of a program that are not answered yet: permissions, and forms whose questions are asked one after the
//! other.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::{Answer, Choice, Effect, Kind, Question, QuestionForm, QuestionId, list, text};

/// A request for a permission.
#[derive(Debug)]
pub(super) struct PermissionRequest {
    /// The program's own id of it.
    pub(super) request: String,
    pub(super) text: String,
    /// The options, each with the reply that chooses it.
    pub(super) options: Vec<(Choice, Effect)>,
    /// The reply without any of the options.
    pub(super) refusal: Effect,
    pub(super) edits: Vec<PathBuf>,
}

/// One question of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// The name of the answer.
    key: String,
    text: String,
    options: Vec<String>,
    /// Whether another text than the options will do.
    free: bool,
}

/// The questions of a form. `key` is the name of the field with the name of the answer.
pub(super) fn fields(form: &Value, key: &str, free: impl Fn(&Value) -> bool) -> Vec<Field> {
    list(&form["questions"])
        .map(|question| Field {
            key: text(&question[key]),
            text: text(&question["question"]),
            options: list(&question["options"])
                .map(|option| text(&option["label"]))
                .collect(),
            free: free(question),
        })
        .collect()
}

/// The names and texts of the answers of a form, in order.
pub(super) type Answers = Vec<(String, String)>;

/// All open questions of a program. `T` is what a program's forms belong to.
#[derive(Debug)]
pub(super) struct OpenQuestions<T> {
    open: BTreeMap<QuestionId, Open<T>>,
    asked: u64,
    /// Makes the reply of a filled form.
    fill: fn(T, Answers) -> Effect,
}

#[derive(Debug)]
struct Open<T> {
    request: String,
    refusal: Effect,
    shape: AnswerShape<T>,
}

#[derive(Debug)]
enum AnswerShape<T> {
    /// One of these replies.
    Option(Vec<Effect>),
    /// An answer to the first field that has none.
    Field {
        form: T,
        fields: Vec<Field>,
        answers: Answers,
    },
}

impl<T> OpenQuestions<T> {
    pub(super) fn new(fill: fn(T, Answers) -> Effect) -> Self {
        Self {
            open: BTreeMap::new(),
            asked: 0,
            fill,
        }
    }

    fn next_id(&mut self) -> QuestionId {
        self.asked += 1;
        QuestionId(self.asked)
    }

    pub(super) fn ask(&mut self, asked: PermissionRequest) -> Effect {
        let local_id = self.next_id();
        let (options, replies) = asked.options.into_iter().unzip();
        let open = Open {
            request: asked.request.clone(),
            refusal: asked.refusal,
            shape: AnswerShape::Option(replies),
        };
        self.open.insert(local_id, open);
        Effect::Ask(Question {
            local_id,
            request: asked.request,
            text: asked.text,
            options,
            form: QuestionForm::Permission,
            edits: asked.edits,
        })
    }

    /// Asks the first question of a form; nothing if it has none.
    pub(super) fn ask_form(
        &mut self,
        request: String,
        form: T,
        fields: Vec<Field>,
        refusal: Effect,
    ) -> Option<Effect> {
        let answers = vec![];
        self.ask_next(request, refusal, form, fields, answers)
    }

    fn ask_next(
        &mut self,
        request: String,
        refusal: Effect,
        form: T,
        fields: Vec<Field>,
        answers: Answers,
    ) -> Option<Effect> {
        let field = fields.get(answers.len())?.clone();
        let local_id = self.next_id();
        let open = Open {
            request: request.clone(),
            refusal,
            shape: AnswerShape::Field {
                form,
                fields,
                answers,
            },
        };
        self.open.insert(local_id, open);
        Some(Effect::Ask(Question {
            local_id,
            request,
            text: field.text,
            form: match field.options.is_empty() {
                true => QuestionForm::Text,
                false => QuestionForm::Choice { free: field.free },
            },
            options: field
                .options
                .into_iter()
                .map(|name| Choice::new(name, Kind::Other))
                .collect(),
            edits: vec![],
        }))
    }

    /// The reply to the program, or the next question of a form.
    pub(super) fn answer(&mut self, local_id: QuestionId, answer: &Answer) -> Option<Effect> {
        let Open {
            request,
            refusal,
            shape,
        } = self.open.remove(&local_id)?;
        match shape {
            AnswerShape::Option(replies) => {
                let chosen = match answer {
                    Answer::Option(index) => replies.into_iter().nth(*index),
                    Answer::Text(_) | Answer::Dismissed => None,
                };
                Some(chosen.unwrap_or(refusal))
            }
            AnswerShape::Field {
                form,
                fields,
                mut answers,
            } => {
                let field = &fields[answers.len()];
                let text = match answer {
                    Answer::Option(index) => field.options.get(*index).cloned(),
                    Answer::Text(text) => Some(text.clone()),
                    Answer::Dismissed => None,
                };
                let Some(text) = text else {
                    return Some(refusal);
                };
                answers.push((field.key.clone(), text));
                if answers.len() == fields.len() {
                    return Some((self.fill)(form, answers));
                }
                self.ask_next(request, refusal, form, fields, answers)
            }
        }
    }

    /// The program does not want the answer to this request any more.
    pub(super) fn withdraw(&mut self, request: &str) -> Vec<Effect> {
        let found = self.open.iter().find(|(_, open)| open.request == request);
        let local_id = found.map(|(local_id, _)| *local_id);
        local_id
            .into_iter()
            .inspect(|local_id| drop(self.open.remove(local_id)))
            .map(Effect::Withdrawn)
            .collect()
    }

    /// Withdraws all questions, with the reply that refuses each.
    pub(super) fn refuse_all(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.open)
            .into_iter()
            .flat_map(|(local_id, open)| [open.refusal, Effect::Withdrawn(local_id)])
            .collect()
    }

    /// Withdraws all questions, of which the program takes no answer any more.
    pub(super) fn withdraw_all(&mut self) -> impl Iterator<Item = Effect> {
        let open = std::mem::take(&mut self.open);
        open.into_keys().map(Effect::Withdrawn)
    }
}
