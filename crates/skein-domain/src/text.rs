//! Names and texts that people type, parsed into types that cannot carry control characters.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::id::text_type;
use crate::redact::{Redaction, redacted};

/// Invisible characters, and those that change how the text around them is displayed.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn line(value: &str, most: usize) -> Result<(), &'static str> {
    if value.trim().is_empty() {
        return Err("it is empty");
    }
    if value.chars().count() > most {
        return Err("it is too long");
    }
    if value.chars().any(|c| c.is_control() || is_invisible(c)) {
        return Err("it holds control or invisible characters");
    }
    Ok(())
}

fn lines(value: &str, most: usize) -> Result<(), &'static str> {
    if value.trim().is_empty() {
        return Err("it is empty");
    }
    if value.len() > most {
        return Err("it is too long");
    }
    if value
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
    {
        return Err("it holds control characters other than line breaks and tabs");
    }
    Ok(())
}

fn word(value: &str) -> Result<(), &'static str> {
    let ok = !value.is_empty()
        && value.len() <= 64
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && value.as_bytes()[0].is_ascii_alphanumeric();
    if ok {
        Ok(())
    } else {
        Err("expected 1 to 64 of A-Z, a-z, 0-9, `.`, `_` and `-`, starting with a letter or digit")
    }
}

fn key(value: &str) -> Result<(), &'static str> {
    let ok = (1..=255).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic());
    if ok {
        Ok(())
    } else {
        Err("expected 1 to 255 visible ASCII characters without spaces")
    }
}

text_type! {
    /// A project's or token's name: one plain ASCII word, so that no two names look alike.
    Name, "name", word
}
text_type! {
    /// The name of an agent program; `none` is a session that people or external programs drive.
    AgentName, "agent name", word
}
text_type! {
    /// What a thread is about, in one line.
    Title, "title", |value: &str| line(value, Title::MOST)
}
text_type! {
    /// Why something was done, a question, or an answer to one.
    Reason, "text", |value: &str| lines(value, Reason::MOST)
}
text_type! {
    /// What a session shall do.
    Task, "task", |value: &str| lines(value, Task::MOST)
}
text_type! {
    /// A text for an agent. Its only control characters are line breaks and tabs, so it can neither end a bracketed
    /// paste early nor press a key.
    Message, "message", |value: &str| lines(value, Message::MOST)
}
text_type! {
    /// An idempotency key, chosen by the caller: a repeated call with the same key has one effect.
    Key, "idempotency key", key
}
text_type! {
    /// The id of a transcript's message, chosen by its author: appending the same id twice has one effect.
    MessageId, "message id", key
}
text_type! {
    /// A question of one run, as its protocol driver names it: what an answer names to be given to exactly this request.
    QuestionId, "question id", key
}

impl Reason {
    /// Makes a reason from any text: control characters become spaces, long text is truncated.
    pub fn from_text(text: &str) -> Self {
        let blank = |c: char| match c.is_control() && c != '\n' && c != '\t' {
            true => ' ',
            false => c,
        };
        let clean: String = text.chars().map(blank).take(8_000).collect();
        match clean.trim().parse() {
            Ok(reason) => reason,
            Err(_) => Self("no reason given".to_owned()),
        }
    }
}

impl Title {
    pub const MOST: usize = 200;

    /// The title of a thread made for one session.
    pub fn of_task(task: &Task) -> Self {
        Self::from_str(&task.display_name())
            .expect("a display name is one short line without control characters")
    }

    /// The title with secrets hidden: titles are in events and lists.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let shown = Redaction::default().apply(self.as_str());
        shown
            .parse()
            .unwrap_or_else(|_| Self("[redacted]".to_owned()))
    }
}

impl Reason {
    pub const MOST: usize = 64 * 1024;

    /// The reason with secrets hidden: events contain the reasons of ended sessions. Answers are stored unchanged.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let shown = Redaction::default().apply(self.as_str());
        shown
            .parse()
            .unwrap_or_else(|_| Self("[redacted]".to_owned()))
    }
}

impl Message {
    pub const MOST: usize = 4 * 1024 * 1024;
}

impl From<&Task> for Message {
    fn from(task: &Task) -> Self {
        Self(task.as_str().to_owned())
    }
}

impl From<&Reason> for Message {
    fn from(reason: &Reason) -> Self {
        Self(reason.as_str().to_owned())
    }
}

impl Task {
    pub const MOST: usize = 512 * 1024;
    /// Most code points of a display name.
    pub const DISPLAY: usize = 80;

    /// The first line with a letter or digit, without heading marks and secrets, its white space folded, at most 80
    /// code points.
    pub fn display_name(&self) -> String {
        let line = self
            .as_str()
            .lines()
            .map(|l| l.trim().trim_start_matches(['#', '>', '*', '-', '=', ' ']))
            .find(|l| l.chars().any(char::is_alphanumeric))
            .unwrap_or("task");
        let visible: String = line.chars().filter(|c| !is_invisible(*c)).collect();
        let folded = visible
            .split_whitespace()
            .map(redacted)
            .collect::<Vec<_>>()
            .join(" ");
        let folded = if folded.is_empty() {
            "task".to_owned()
        } else {
            folded
        };
        if folded.chars().count() <= Self::DISPLAY {
            return folded;
        }
        let mut cut: String = folded.chars().take(Self::DISPLAY - 1).collect();
        cut.push('…');
        cut
    }
}

impl AgentName {
    pub fn none() -> Self {
        Self("none".into())
    }

    pub fn is_none(&self) -> bool {
        self.0 == "none"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l13_names_refuse_what_could_deceive() {
        for bad in [
            "",
            " ",
            "-x",
            "--upload-pack=touch x",
            "a/b",
            "../x",
            "a b",
            "a\nb",
            "а",
            "\u{202e}abc",
            "a\0",
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
        for bad in [
            "",
            "  ",
            "a\u{7}b",
            "a\u{202e}b",
            "zero\u{200b}width",
            "a\nb",
            &"x".repeat(201),
        ] {
            assert!(bad.parse::<Title>().is_err(), "{bad:?}");
        }
        assert!("Fix the größte 💥 bug".parse::<Title>().is_ok());
    }

    #[test]
    fn l14_titles_and_reasons_hide_what_looks_like_a_secret() {
        let credential = "skein-run.0a1b.default.api-1.1.agent:a.00112233445566778899";
        for secret in ["ghp_0123456789abcdefghijklmnopqrstuvwxyz", credential] {
            let text = format!("leaked {secret} and password=hunter2");
            let expected = "leaked [redacted] and password=[redacted]";
            assert_eq!(text.parse::<Title>().unwrap().redacted().as_str(), expected);
            assert_eq!(
                text.parse::<Reason>().unwrap().redacted().as_str(),
                expected
            );
        }
        let lines = "it\n  failed: twice".parse::<Reason>().unwrap();
        assert_eq!(lines.redacted(), lines);
    }

    #[test]
    fn display_names_take_the_first_meaningful_line() {
        for (task, expected) in [
            ("fix login", "fix login"),
            ("\n\n## Fix   the\tbug\nmore", "Fix the bug"),
            ("---\n***\n> quoted", "quoted"),
            ("!!!", "task"),
        ] {
            assert_eq!(task.parse::<Task>().unwrap().display_name(), expected);
        }
        let long = "é".repeat(200).parse::<Task>().unwrap().display_name();
        assert_eq!(long.chars().count(), 80);
        assert!(long.ends_with('…'));
    }
}
