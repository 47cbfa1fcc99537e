//! What calls mean: prompts wait for their turn, an answer goes to the question it names, an interrupt stops the turn.
//! A call is accepted, durably, in the moment the driver acts on it, and refused when it cannot.

use std::time::Instant;

use serde_json::json;
use skein_agent::turns::{self, CallId, TurnAnswer, TurnCall, TurnRequest};

use super::{Conversation, DriverCommand, Prompt};
use crate::protocol::{Answer, Question, QuestionForm};

impl Conversation {
    /// Calls that an earlier process of this run accepted or refused: they are not acted on again.
    pub(crate) fn remember_calls(&mut self, settled: impl IntoIterator<Item = String>) {
        self.calls.extend(settled);
    }

    pub(crate) fn call(&mut self, call: TurnCall, now: Instant) -> Vec<DriverCommand> {
        // The daemon repeats a call when it cannot know whether it was written.
        if !self.calls.insert(call.id.to_string()) {
            return vec![];
        }
        match call.request {
            TurnRequest::Prompt { text } => {
                self.queue.push_back(Prompt {
                    text,
                    call: Some(call.id),
                });
                self.next(now);
            }
            TurnRequest::Answer { question, answer } => {
                match self.answer_for(question.as_str(), &answer) {
                    Ok(answer) => {
                        self.accept(&call.id);
                        self.answer(answer, Some(&call.id), now);
                    }
                    Err(reason) => self.refuse(&call.id, &reason),
                }
            }
            TurnRequest::Interrupt => {
                self.accept(&call.id);
                self.interrupt(now);
            }
        }
        self.done()
    }

    pub(super) fn accept(&mut self, call: &CallId) {
        self.journal(turns::ACCEPTED, json!({turns::CALL: call.as_str()}));
    }

    fn refuse(&mut self, call: &CallId, reason: &str) {
        let payload = json!({turns::CALL: call.as_str(), "reason": reason});
        self.journal(turns::REFUSED, payload);
    }

    /// The answer to the question with this id, which must be the one that is asked; else why not.
    fn answer_for(&self, id: &str, answer: &TurnAnswer) -> Result<Answer, String> {
        match self.questions.front().filter(|q| q.id() == id) {
            Some(question) => answer_from_call(question, answer).ok_or_else(|| {
                format!("question {id} does not take this answer: it is none of its options")
            }),
            None => Err(match self.settled.get(id) {
                Some(how) => format!("{how} ({id})"),
                None => format!("the agent asks no question {id}"),
            }),
        }
    }
}

fn answer_from_call(question: &Question, answer: &TurnAnswer) -> Option<Answer> {
    match answer {
        TurnAnswer::Choice(option) => {
            (*option < question.options.len()).then_some(Answer::Option(*option))
        }
        TurnAnswer::Text(text) => match question.form {
            QuestionForm::Text | QuestionForm::Choice { free: true } => {
                Some(Answer::Text(text.clone()))
            }
            QuestionForm::Permission | QuestionForm::Choice { free: false } => None,
        },
    }
}
