//! The history of a chat: Markdown, in which the form of each line shows its author.
//!
//! ```text
//! # aider chat started at 2026-11-17 11:02:16
//!
//! > Aider v0.86.2␠␠
//!
//! #### a prompt␠␠
//! #### of two lines␠␠
//!
//! what the model says
//!
//! > Tokens: 616 sent, 4 received.␠␠
//! ```
//!
//! Lines of the program end with two spaces; text of the model begins after an empty line. A message is complete when a
//! line of another kind follows; its id derives from its position and its text.

use skein_transcript::MessageRole;

use crate::agent::{Reader, Reading};
use crate::messages;

const STARTED: &str = "# aider chat started at ";
const PROMPT: &str = "#### ";
const NOTICE: &str = "> ";
/// The end of the program's lines.
const END: &str = "  ";

#[derive(Debug, Default)]
pub(super) struct History {
    /// The position of the next line.
    position: u64,
    growing: Option<Growing>,
    /// Whether the previous line was the program's, which may continue in lines of another form.
    notice: bool,
}

#[derive(Debug)]
struct Growing {
    role: MessageRole,
    from: u64,
    text: String,
}

impl Reader for History {
    fn begins(&mut self, position: u64) {
        *self = Self {
            position,
            ..Self::default()
        };
    }

    fn read(&mut self, text: &str) -> Vec<Reading> {
        let mut readings = vec![];
        for line in text.split_inclusive('\n') {
            readings.extend(self.line(line.trim_end_matches(['\n', '\r'])));
            self.position += line.len() as u64;
        }
        readings
    }
}

impl History {
    /// Reads a line; returns the message that it completes.
    fn line(&mut self, line: &str) -> Option<Reading> {
        let programs = |start| line.strip_prefix(start).filter(|_| line.ends_with(END));
        if let Some(prompt) = programs(PROMPT) {
            self.notice = false;
            // Commands are for the program.
            if prompt.starts_with('/') && self.role() != Some(MessageRole::User) {
                self.notice = true;
                return self.end();
            }
            return self.grow(MessageRole::User, prompt.trim_end());
        }
        if programs(NOTICE).is_some() || line.starts_with(STARTED) {
            self.notice = true;
            return self.end();
        }
        match (self.role(), line.trim().is_empty()) {
            (Some(MessageRole::Assistant), _) => self.grow(MessageRole::Assistant, line),
            (_, true) => {
                self.notice = false;
                self.end()
            }
            (_, false) if self.notice => None,
            (_, false) => self.grow(MessageRole::Assistant, line),
        }
    }

    fn role(&self) -> Option<MessageRole> {
        self.growing.as_ref().map(|growing| growing.role)
    }

    fn grow(&mut self, role: MessageRole, line: &str) -> Option<Reading> {
        if let Some(growing) = self.growing.as_mut().filter(|g| g.role == role) {
            growing.text.push('\n');
            growing.text.push_str(line);
            return None;
        }
        let before = self.end();
        self.growing = Some(Growing {
            role,
            from: self.position,
            text: line.to_owned(),
        });
        before
    }

    fn end(&mut self) -> Option<Reading> {
        let Growing { role, from, text } = self.growing.take()?;
        let text = text.trim_end();
        let id = messages::hashed("aider", &[&from.to_string(), text]);
        let message = messages::message(id, role, messages::text(text), messages::UNKNOWN_TIME)?;
        Some(messages::reading(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the program writes it.
    const WRITTEN: &str = "\n# aider chat started at 2026-11-17 11:02:16\n\n\
        > Aider v0.86.2  \n> Model: openai/fake-1 with whole edit format  \n> /usr/bin/aider --message first line\n\
        second line  \n> Restored previous conversation history.  \n\n\
        #### first line  \n#### second line [[say hello]]  \n\n\
        # Hello\n\n> a quote\n\nfrom the model\n\n\
        > Tokens: 616 sent, 4 received.  \n\n#### /tokens  \n\n> Approximate context window usage  \nmore of it\n\n\
        #### two  \n\ndone two\n\n> Tokens: 637 sent, 2 received.  \n";

    fn contents(readings: Vec<Reading>) -> Vec<(MessageRole, String, String)> {
        readings
            .into_iter()
            .map(|reading| match reading {
                Reading::Message(m) => {
                    let text = format!("{:?}", m.blocks);
                    (m.role, m.id.to_string(), text)
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn prompts_and_replies_are_told_and_notices_are_not() {
        let found = contents(History::default().read(WRITTEN));
        let texts: Vec<(MessageRole, &str)> =
            found.iter().map(|(r, _, t)| (*r, t.as_str())).collect();
        assert_eq!(
            texts,
            [
                (
                    MessageRole::User,
                    r#"[Text("first line\nsecond line [[say hello]]")]"#
                ),
                (
                    MessageRole::Assistant,
                    r##"[Text("# Hello\n\n> a quote\n\nfrom the model")]"##
                ),
                (MessageRole::User, r#"[Text("two")]"#),
                (MessageRole::Assistant, r#"[Text("done two")]"#),
            ]
        );
    }

    #[test]
    fn l10_the_same_words_at_another_place_are_another_message() {
        let twice = format!("{WRITTEN}{WRITTEN}");
        let found = contents(History::default().read(&twice));
        let ids: std::collections::BTreeSet<&String> = found.iter().map(|(_, id, _)| id).collect();
        assert_eq!((found.len(), ids.len()), (8, 8));
        // Gone on with where it was left, they have the same names.
        let mut late = History::default();
        late.begins(WRITTEN.len() as u64);
        assert_eq!(contents(late.read(WRITTEN)), found[4..]);
    }
}
