//! Answers before a protocol gives them their form, and the pieces they are sent in.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text {
        text: String,
        /// Pause after each word.
        pace: Duration,
    },
    Call {
        name: String,
        /// An object; a string for a tool that takes free text.
        arguments: Value,
    },
}

impl Part {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text {
            text: text.to_owned(),
            pace: Duration::ZERO,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

impl Usage {
    pub(crate) fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Parts { parts: Vec<Part>, finish: Finish },
    Error { status: u16, message: String },
    RateLimit { seconds: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Properly,
    /// The connection breaks before the end.
    Cut,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) what: What,
    pub(crate) think: Duration,
    pub(crate) usage: Usage,
    /// The number of the answer in its directive, if it comes from one.
    pub(crate) step: Option<usize>,
}

impl Answer {
    pub(crate) fn parts(&self) -> &[Part] {
        match &self.what {
            What::Parts { parts, .. } => parts,
            What::Error { .. } | What::RateLimit { .. } => &[],
        }
    }

    pub(crate) fn calls(&self) -> bool {
        self.parts()
            .iter()
            .any(|part| matches!(part, Part::Call { .. }))
    }

    /// All texts, for answers that are not streamed.
    pub(crate) fn text(&self) -> String {
        let texts: Vec<&str> = self
            .parts()
            .iter()
            .filter_map(|part| match part {
                Part::Text { text, .. } => Some(text.as_str()),
                Part::Call { .. } => None,
            })
            .collect();
        texts.join("\n\n")
    }
}

/// Makes ids unique, also among earlier servers, because agents identify answers by them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) began: u64,
    pub(crate) n: u64,
}

impl Stamp {
    pub(crate) fn id(self, prefix: &str) -> String {
        format!("{prefix}{:x}{:04}", self.began, self.n)
    }

    pub(crate) fn part(self, prefix: &str, index: usize) -> String {
        format!("{}{index:02}", self.id(prefix))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Bytes(Bytes),
    Pause(Duration),
    Cut,
}

impl Piece {
    pub(crate) fn json(value: &Value) -> Self {
        Self::Bytes(value.to_string().into())
    }

    /// A server-sent event.
    pub(crate) fn event(name: Option<&str>, data: &Value) -> Self {
        let name = name.map_or(String::new(), |name| format!("event: {name}\n"));
        Self::Bytes(format!("{name}data: {data}\n\n").into())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rendered {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content: Content,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Json,
    Events,
    Nothing,
}

impl Rendered {
    pub(crate) fn json(status: u16, value: &Value) -> Self {
        Self {
            status,
            headers: vec![],
            content: Content::Json,
            pieces: vec![Piece::json(value)],
        }
    }

    pub(crate) fn events(pieces: Vec<Piece>) -> Self {
        Self {
            status: 200,
            headers: vec![],
            content: Content::Events,
            pieces,
        }
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            headers: vec![],
            content: Content::Nothing,
            pieces: vec![],
        }
    }

    #[must_use]
    pub(crate) fn with(mut self, headers: Vec<(&'static str, String)>) -> Self {
        self.headers.extend(headers);
        self
    }
}

/// Streams a text word by word; `delta` makes the event of each.
pub(crate) fn stream(
    pieces: &mut Vec<Piece>,
    text: &str,
    pace: Duration,
    mut delta: impl FnMut(&str) -> Piece,
) {
    for word in text.split_inclusive(char::is_whitespace) {
        pieces.push(delta(word));
        if !pace.is_zero() {
            pieces.push(Piece::Pause(pace));
        }
    }
}

pub(crate) fn words(text: &str) -> u32 {
    let count = text.split_inclusive(char::is_whitespace).count();
    u32::try_from(count).unwrap_or(u32::MAX).max(1)
}

/// The JSON document, or those of the events.
#[cfg(test)]
pub(crate) fn data(rendered: &Rendered) -> Vec<Value> {
    let texts = rendered.pieces.iter().filter_map(|piece| match piece {
        Piece::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Piece::Pause(_) | Piece::Cut => None,
    });
    let parse = |text: String| {
        let data = text.lines().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(data.unwrap_or(&text)).ok()
    };
    texts.filter_map(parse).collect()
}

/// A text and a call, whole.
#[cfg(test)]
pub(crate) fn example(pace: Duration) -> Answer {
    Answer {
        what: What::Parts {
            parts: vec![
                Part::Text {
                    text: "one two".into(),
                    pace,
                },
                Part::Call {
                    name: "Bash".into(),
                    arguments: serde_json::json!({ "command": "ls" }),
                },
            ],
            finish: Finish::Properly,
        },
        think: Duration::ZERO,
        usage: Usage {
            input: 5,
            output: 6,
        },
        step: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_text_pauses_after_every_word() {
        let mut pieces = vec![];
        let pace = Duration::from_secs(1);
        stream(&mut pieces, "one two", pace, |word| {
            Piece::json(&word.into())
        });
        let shown: Vec<String> = pieces.iter().map(|piece| format!("{piece:?}")).collect();
        assert_eq!(
            shown,
            [
                r#"Bytes(b"\"one \"")"#,
                "Pause(1s)",
                r#"Bytes(b"\"two\"")"#,
                "Pause(1s)"
            ]
        );
        assert_eq!(words("one two"), 2);
        assert_eq!(words(""), 1);
    }
}
