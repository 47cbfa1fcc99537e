//! What the screen shows of a conversation.

use std::time::{Duration, Instant};

use super::{Conversation, usage::span};
use crate::protocol::QuestionForm;
use crate::text::{cut, first_line};
use crate::transcript::Line;
use crate::view::{Block, Size};

/// How many waiting prompts are shown.
const QUEUED: usize = 3;
/// A question of more rows is shown in part; the journal has it whole.
const QUESTION_LINES: usize = 12;

impl Conversation {
    /// The lines that became whole since the last time.
    pub(crate) fn lines(&mut self) -> Vec<Line> {
        self.transcript.take()
    }

    /// The bottom of the screen.
    pub(crate) fn block(&self, size: Size, now: Instant) -> Block {
        let mut above = Vec::new();
        let line = |mark, text: &str| Line {
            mark,
            text: crate::text::clean(text),
        };
        if let Some(question) = self.questions.front() {
            let mut lines = question.text.split('\n');
            let shown = lines.by_ref().take(QUESTION_LINES).enumerate();
            above.extend(
                shown.map(|(index, text)| line(if index == 0 { "? " } else { "  " }, text)),
            );
            for (index, option) in question.options.iter().enumerate() {
                above.push(line("  ", &format!("{}. {}", index + 1, option.name)));
            }
        }
        for prompt in self.queue.iter().take(QUEUED) {
            let text = cut(
                &first_line(&prompt.text),
                size.width().saturating_sub(8).max(4),
            );
            above.push(line("queued: ", &text));
        }
        Block {
            growing: self.transcript.growing(),
            above,
            status: self.status(now),
            draft: self.draft.rows(size.width().saturating_sub(2)),
        }
    }

    fn status(&self, now: Instant) -> String {
        if self.ending.is_some_and(|until| now < until) {
            return "ctrl-c again ends the session".into();
        }
        if let Some(question) = self.questions.front() {
            let how = match (question.options.len(), question.form) {
                (0, _) => "type an answer".to_owned(),
                (n, QuestionForm::Choice { free: true }) => {
                    format!("1-{n} chooses, or type another answer")
                }
                (n, _) => format!("1-{n} chooses"),
            };
            return format!("asks · {how} · esc rejects");
        }
        match &self.turn {
            Some(turn) if turn.interrupted => "interrupting".into(),
            Some(turn) => {
                let since = span(now.duration_since(turn.since));
                format!("working {since} · esc interrupts")
            }
            None if self.ready => "ready".into(),
            None => self.awaits.clone().unwrap_or_else(|| "starting".into()),
        }
    }

    /// When the screen changes by itself.
    pub(crate) fn changes_at(&self, now: Instant) -> Option<Instant> {
        if let Some(until) = self.ending.filter(|until| now < *until) {
            return Some(until);
        }
        let turn = self.turn.as_ref().filter(|_| self.questions.is_empty())?;
        let passed = now.duration_since(turn.since);
        // Past the first minute only minutes are shown.
        let step = if passed.as_secs() < 60 { 1 } else { 60 };
        let next = (passed.as_secs() / step + 1) * step;
        Some(turn.since + Duration::from_secs(next))
    }
}
