//! Messages for people.

use anstyle::Style;
use serde_json::Value;
use skein_wire::{Block, Covers, Message, Part};

use crate::output::{BLUE, CYAN, DIM, GREEN, Paint, RED, YELLOW};
use crate::text;
use crate::when;

/// The width if it is not known.
const USUAL: usize = 100;
const INDENT: &str = "  ";

/// What is folded into one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Thoughts, tool inputs and tool results.
    Tools,
    Nothing,
}

/// Renders messages one after another; prints the date when the day changes.
#[derive(Debug)]
pub(crate) struct MessageRenderer {
    fold: Fold,
    width: usize,
    paint: Paint,
    hidden: Vec<Covers>,
    day: String,
}

impl MessageRenderer {
    pub(crate) fn new(fold: Fold, width: Option<usize>, paint: Paint, hidden: Vec<Covers>) -> Self {
        Self {
            fold,
            width: width.unwrap_or(USUAL).max(20),
            paint,
            hidden,
            day: String::new(),
        }
    }

    pub(crate) fn message(&mut self, message: &Message) -> String {
        let mut out = self.day(message);
        let is_hidden = message.position.is_some_and(|position| {
            let covered = |c: &Covers| (c.from..c.end).contains(&position);
            self.hidden.iter().any(covered)
        });
        let (name, style) = heading(message);
        let style = if is_hidden { DIM } else { style.bold() };
        let note = if is_hidden {
            "  (hidden by a summary)"
        } else {
            ""
        };
        out.push_str(&self.paint.apply(style, &name));
        let rest = format!(
            "  {}  {}{note}",
            when::clock(&message.at),
            text::line(&message.id)
        );
        out.push_str(&self.paint.apply(DIM, &rest));
        out.push('\n');
        for block in &message.content {
            out.push_str(&self.block(block, is_hidden));
        }
        out.push('\n');
        out
    }

    /// A line with the date and the zone, if the date differs from that of the message before.
    fn day(&mut self, message: &Message) -> String {
        let day = message.at.split('T').next().unwrap_or_default();
        if day == self.day {
            return String::new();
        }
        self.day = day.to_owned();
        let line = format!("── {} UTC ──", text::line(day));
        format!("{}\n\n", self.paint.apply(DIM, &line))
    }

    fn block(&self, block: &Block, is_hidden: bool) -> String {
        let plain = if is_hidden { DIM } else { Style::new() };
        match block {
            Block::Text { text } => self.lines(text, plain),
            Block::Thinking { text, .. } => match self.fold {
                Fold::Tools => self.one("· thinking", &count(text), DIM),
                Fold::Nothing => self.one("· thinking", "", DIM) + &self.lines(text, DIM),
            },
            Block::ToolCall { name, input, .. } => {
                let style = if is_hidden { DIM } else { CYAN };
                match self.fold {
                    Fold::Tools => self.one(&format!("→ {name}"), &brief(input), style),
                    Fold::Nothing => {
                        let input = serde_json::to_string_pretty(input).unwrap_or_default();
                        self.one(&format!("→ {name}"), "", style) + &self.lines(&input, DIM)
                    }
                }
            }
            Block::ToolResult {
                content, failed, ..
            } => self.result(content, *failed),
            Block::Image { source, .. } => self.one("▣ image", source, DIM),
        }
    }

    fn result(&self, content: &[Part], failed: bool) -> String {
        let part = |part: &Part| match part {
            Part::Text { text } => text.clone(),
            Part::Image { source, .. } => format!("(image: {source})"),
        };
        let text = content.iter().map(part).collect::<Vec<_>>().join("\n");
        let (mark, style) = if failed {
            ("← failed", RED)
        } else {
            ("←", DIM)
        };
        match self.fold {
            Fold::Nothing => self.one(mark, "", style) + &self.lines(&text, DIM),
            Fold::Tools => {
                let more = match text.trim().lines().count() {
                    0 | 1 => String::new(),
                    n => format!("  ({n} lines)"),
                };
                let first = text.trim().lines().next().unwrap_or_default();
                self.one(mark, &format!("{first}{more}"), style)
            }
        }
    }

    /// One line, truncated to the terminal.
    fn one(&self, head: &str, rest: &str, style: Style) -> String {
        let line = text::line(&format!("{head} {rest}"));
        let line = text::fit(line.trim_end(), self.width - INDENT.len());
        format!("{INDENT}{}\n", self.paint.apply(style, &line))
    }

    /// All lines, wrapped to the terminal.
    fn lines(&self, text: &str, style: Style) -> String {
        let mut out = String::new();
        for line in text::block(text.trim_end()).lines() {
            for piece in text::wrap(line, self.width - INDENT.len()) {
                let piece = self.paint.apply(style, &piece);
                out.push_str(format!("{INDENT}{piece}").trim_end());
                out.push('\n');
            }
        }
        out
    }
}

fn heading(message: &Message) -> (String, Style) {
    if let Some(covers) = message.covers {
        let name = format!(
            "Summary of {} to {}",
            covers.from,
            covers.end.saturating_sub(1)
        );
        return (name, YELLOW);
    }
    match message.role.as_str() {
        "user" => ("User".to_owned(), BLUE),
        "assistant" => ("Assistant".to_owned(), GREEN),
        "tool" => ("Tool".to_owned(), CYAN),
        "system" => ("System".to_owned(), YELLOW),
        other => (text::line(other), Style::new()),
    }
}

fn count(text: &str) -> String {
    format!("({})", text::count(text.lines().count(), "line"))
}

/// The input of a tool in short: the most telling argument, or the only one, without its name.
fn brief(input: &Value) -> String {
    let Value::Object(fields) = input else {
        return match input {
            Value::String(only) => text::first_line(only),
            other => other.to_string(),
        };
    };
    let telling = |name: &&str| fields.get(*name).and_then(Value::as_str);
    if let Some(most) = skein_wire::TELLING.iter().find_map(telling) {
        return text::first_line(most);
    }
    match fields.iter().next() {
        None => String::new(),
        Some((_, Value::String(only))) if fields.len() == 1 => text::first_line(only),
        Some(_) => input.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(id: &str, role: &str, content: Vec<Block>) -> Message {
        Message {
            position: Some(1),
            id: id.into(),
            role: role.into(),
            content,
            native: None,
            usage: None,
            at: "2026-11-17T03:04:05Z".into(),
            run: 1,
            covers: None,
            damaged: None,
        }
    }

    fn tools() -> Message {
        let call = Block::ToolCall {
            id: "c".into(),
            name: "bash".into(),
            input: json!({"command": "ls -l\u{1b}[31m"}),
        };
        let text = "total 2\na\nb\n".to_owned();
        let result = Block::ToolResult {
            call: "c".into(),
            content: vec![Part::Text { text }],
            failed: false,
        };
        message("m1", "assistant", vec![call, result])
    }

    #[test]
    fn tools_take_a_line_each_unless_unfolded() {
        let mut folded = MessageRenderer::new(Fold::Tools, Some(40), Paint::PLAIN, vec![]);
        assert_eq!(
            folded.message(&tools()),
            "── 2026-11-17 UTC ──\n\nAssistant  03:04:05  m1\n  → bash ls -l\\u{1b}[31m\n  ← total 2  (3 lines)\n\n"
        );
        let mut full = MessageRenderer::new(Fold::Nothing, Some(40), Paint::PLAIN, vec![]);
        let shown = full.message(&tools());
        assert!(shown.contains("  total 2\n  a\n  b\n"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }

    #[test]
    fn of_what_a_tool_was_told_what_says_most_is_shown() {
        for (input, shown) in [
            (
                json!({"description": "list", "command": "echo hi", "timeout": 5}),
                "echo hi",
            ),
            (json!({"content": "x", "file_path": "a/b"}), "a/b"),
            (json!({"glob": "*", "pattern": "one\ntwo"}), "one …"),
            (json!({"odd": "only"}), "only"),
            (json!({"a": 1, "b": 2}), "{\"a\":1,\"b\":2}"),
        ] {
            assert_eq!(brief(&input), shown);
        }
    }

    #[test]
    fn what_a_summary_hides_is_marked() {
        let covers = Covers { from: 0, end: 5 };
        let mut telling = MessageRenderer::new(Fold::Tools, Some(60), Paint::PLAIN, vec![covers]);
        let text = "hello".to_owned();
        let shown = telling.message(&message("m2", "user", vec![Block::Text { text }]));
        assert!(shown.contains("(hidden by a summary)"), "{shown}");
    }
}
