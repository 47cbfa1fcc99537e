//! What keys mean. Nothing typed is taken for an answer unless it is one of the options, or a text was asked for.

use std::time::{Duration, Instant};

use skein_terminal::Key;

use super::{Conversation, DriverCommand, EndReason, Prompt};
use crate::permission;
use crate::protocol::{Answer, Question, QuestionForm};

/// How soon a second Ctrl-C must follow the first.
const TWICE: Duration = Duration::from_secs(2);
/// Options that one digit can choose.
const DIGITS: usize = 9;

impl Conversation {
    pub(crate) fn key(&mut self, key: Key, now: Instant) -> Vec<DriverCommand> {
        if key != Key::Interrupt {
            self.ending = None;
        }
        match key {
            Key::Text(text) => match self.questions.front().and_then(|q| digit(q, &text)) {
                Some(option) if self.draft.is_empty() => {
                    self.answer(Answer::Option(option), None, now);
                }
                _ => self.draft.add(&text),
            },
            Key::Paste(text) => self.draft.add(&text),
            Key::Newline => self.draft.add("\n"),
            Key::Backspace => self.draft.backspace(),
            Key::Clear => self.draft.clear(),
            Key::Enter => self.enter(now),
            Key::Escape => self.escape(now),
            Key::Interrupt => self.control_c(now),
            Key::End => {}
        }
        self.done()
    }

    fn enter(&mut self, now: Instant) {
        if self.draft.is_blank() {
            return;
        }
        let typed = self.draft.as_str().trim();
        if let Some(answer) = self.questions.front().and_then(|q| answer(q, typed)) {
            self.draft.clear();
            return self.answer(answer, None, now);
        }
        let text = self.draft.take();
        self.queue.push_back(Prompt { text, call: None });
        self.next(now);
    }

    fn escape(&mut self, now: Instant) {
        if let Some(question) = self.questions.front() {
            let answer = permission::rejecting(question).map(Answer::Option);
            return self.answer(answer.unwrap_or(Answer::Dismissed), None, now);
        }
        self.interrupt(now);
    }

    fn control_c(&mut self, now: Instant) {
        if self.ending.is_some_and(|until| now < until) {
            self.commands.push(DriverCommand::End(EndReason::Requested));
        } else {
            self.ending = Some(now + TWICE);
        }
    }
}

/// The option that one typed digit means. Text that only begins with a digit means none.
fn digit(question: &Question, typed: &str) -> Option<usize> {
    let option = number(question, typed).filter(|_| typed.len() == 1)?;
    (question.options.len() <= DIGITS).then_some(option)
}

fn number(question: &Question, typed: &str) -> Option<usize> {
    let is_number = typed.bytes().all(|b| b.is_ascii_digit());
    let option = typed
        .parse::<usize>()
        .ok()
        .filter(|_| is_number)?
        .checked_sub(1)?;
    (option < question.options.len()).then_some(option)
}

/// The answer that a whole text is.
fn answer(question: &Question, typed: &str) -> Option<Answer> {
    let named = || {
        question
            .options
            .iter()
            .position(|option| option.name == typed)
    };
    if let Some(option) = number(question, typed).or_else(named) {
        return Some(Answer::Option(option));
    }
    match question.form {
        QuestionForm::Text | QuestionForm::Choice { free: true } => {
            Some(Answer::Text(typed.to_owned()))
        }
        QuestionForm::Permission | QuestionForm::Choice { free: false } => None,
    }
}
