//! The content of a request, independent of its protocol.

use serde_json::Value;

/// One item in the history of a conversation, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    User(String),
    /// Text that the agent program added in the user's name: reminders, context, marks of interruption.
    Note(String),
    Assistant,
    /// The result of a tool call.
    Result,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Edits {
    #[default]
    Tools,
    /// As text: the file's name and its whole content in a fence.
    WholeFiles,
    /// As text: blocks to search and their replacement.
    SearchReplace,
    /// Not at all.
    None,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    /// System prompt or instructions.
    pub(crate) instructions: String,
    pub(crate) tools: Vec<String>,
    /// The JSON schema of the answer, if it must be JSON.
    pub(crate) schema: Option<Value>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) messages: usize,
    pub(crate) asker: Asker,
    /// The index of the last prompt's first entry, and the number of its message.
    pub(crate) prompt: Option<(usize, usize)>,
}

/// What is known of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asker {
    #[default]
    Unknown,
    /// An agent that always offers tools when it works.
    AlwaysTools,
    /// A helper that judges the agent's actions.
    Judge,
}

impl Conversation {
    /// The user's last message, all parts joined.
    pub(crate) fn last_user(&self) -> Option<String> {
        let (from, _) = self.prompt?;
        let parts: Vec<&str> = spoken(&self.entries[from..]).collect();
        Some(parts.join("\n"))
    }

    pub(crate) fn users(&self) -> impl Iterator<Item = &str> {
        spoken(&self.entries)
    }

    /// Number of tool results since then.
    pub(crate) fn results(&self) -> usize {
        self.entries
            .iter()
            .rev()
            .take_while(|entry| !matches!(entry, Entry::User(_)))
            .filter(|entry| matches!(entry, Entry::Result))
            .count()
    }

    /// aider states its way of editing in its instructions; all other agents bring tools.
    pub(crate) fn edits(&self) -> Edits {
        if !self.tools.is_empty() || !self.instructions.contains("Act as an expert") {
            Edits::Tools
        } else if self.instructions.contains("SEARCH/REPLACE") {
            Edits::SearchReplace
        } else if self.instructions.contains("*file listing*") {
            Edits::WholeFiles
        } else {
            Edits::None
        }
    }

    /// Whether the agent program asks for its own purposes: a title, a summary, a choice of model. Such a request
    /// often quotes the user's text, whose directive does not apply to it.
    pub(crate) fn is_hidden(&self) -> bool {
        let instructed = !self.instructions.is_empty() && self.edits() == Edits::Tools;
        self.asker == Asker::Judge
            || self.tools.is_empty() && (self.schema.is_some() || instructed || self.quotes())
    }

    /// Gemini's summaries come without instructions; a request by hand begins with the directive.
    fn quotes(&self) -> bool {
        let by_hand = |text: &str| text.trim_start().starts_with("[[");
        self.asker == Asker::AlwaysTools && !self.last_user().as_deref().is_some_and(by_hand)
    }

    /// Adds text in the user's name from the message counted last.
    pub(crate) fn push_user(&mut self, text: &str) {
        if is_note(text) {
            // Some programs put text from before and after an interruption into one message.
            if INTERRUPTIONS
                .iter()
                .any(|begin| text.trim_start().starts_with(begin))
            {
                self.prompt = None;
            }
            self.entries.push(Entry::Note(text.to_owned()));
            return;
        }
        if self
            .prompt
            .is_none_or(|(_, message)| message != self.messages)
        {
            self.prompt = Some((self.entries.len(), self.messages));
        }
        self.entries.push(Entry::User(text.to_owned()));
    }

    pub(crate) fn push_instructions(&mut self, text: &str) {
        if !self.instructions.is_empty() {
            self.instructions.push('\n');
        }
        self.instructions.push_str(text);
    }
}

/// Beginnings of texts that agent programs add in the user's name.
const NOTES: &[&str] = &[
    "<system-reminder>",
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<session_context>",
    "<local-command-",
    "<command-name>",
    "# AGENTS.md instructions",
    "This is the Gemini CLI.",
];

/// Beginnings of marks for an interruption by the user.
const INTERRUPTIONS: &[&str] = &["[Request interrupted by user", "<turn_aborted>"];

fn is_note(text: &str) -> bool {
    let text = text.trim_start();
    let mut begins = NOTES.iter().chain(INTERRUPTIONS);
    text.is_empty() || begins.any(|begin| text.starts_with(begin))
}

fn spoken(entries: &[Entry]) -> impl Iterator<Item = &str> {
    entries.iter().filter_map(|entry| match entry {
        Entry::User(text) => Some(text.as_str()),
        Entry::Note(_) | Entry::Assistant | Entry::Result => None,
    })
}

/// A string, or the texts of a list of parts.
pub(crate) fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asides_are_told_from_turns() {
        let mut plain = Conversation::default();
        plain.push_user("sum up: [[say a]]");
        assert!(!plain.is_hidden());
        let with = |change: fn(&mut Conversation)| {
            let mut changed = plain.clone();
            change(&mut changed);
            changed.is_hidden()
        };
        assert!(with(|c| c.push_instructions("You make titles.")));
        assert!(with(|c| c.schema = Some(Value::Null)));
        assert!(with(|c| c.asker = Asker::AlwaysTools));
        assert!(!with(|c| c.push_instructions("Act as an expert developer.")));
        assert!(with(|c| {
            c.tools.push("a".to_owned());
            c.asker = Asker::Judge;
        }));
        for tools in [0, 1] {
            let mut turn = plain.clone();
            turn.asker = Asker::AlwaysTools;
            turn.tools = vec!["a".to_owned(); tools];
            turn.messages += 1;
            turn.push_user("[[say b]]");
            assert!(!turn.is_hidden());
            turn.push_instructions("You are an agent.");
            assert_eq!(turn.is_hidden(), tools == 0);
        }
    }

    #[test]
    fn results_are_counted_from_the_last_prompt() {
        let mut conversation = Conversation::default();
        for text in ["first", "second"] {
            conversation.messages += 1;
            conversation.push_user(text);
            conversation
                .entries
                .extend([Entry::Assistant, Entry::Result]);
            conversation.push_user("<system-reminder>…</system-reminder>");
        }
        assert_eq!(conversation.last_user().as_deref(), Some("second"));
        assert_eq!(conversation.results(), 1);
    }
    #[test]
    fn a_prompt_may_have_parts() {
        let mut conversation = Conversation::default();
        conversation.push_user("before");
        conversation.messages += 1;
        conversation.push_user("[[say a]]");
        conversation.push_user("<system-reminder>…</system-reminder>");
        conversation.push_user("see also b");
        let prompt = conversation.last_user();
        assert_eq!(prompt.as_deref(), Some("[[say a]]\nsee also b"));
        conversation.push_user("[Request interrupted by user]");
        conversation.push_user("c");
        assert_eq!(conversation.last_user().as_deref(), Some("c"));
    }
}
