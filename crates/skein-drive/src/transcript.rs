//! The conversation as lines for people. Complete lines are drawn once and stay; growing ones are in the block that is
//! redrawn.

use crate::protocol::{DisplayItem, Step};
use crate::text::{clean, first_line};

/// Longer lines are broken, so that the block that is redrawn stays small.
const LONGEST: usize = 2_000;
/// How much of a long prompt is repeated.
const PROMPT_LINES: usize = 12;

/// One logical line: what stands before it, and before the rows it is continued in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) mark: &'static str,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Say,
    Think,
}

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// Complete lines that are not drawn yet.
    whole: Vec<Line>,
    open: Option<(Voice, String)>,
    tools: Vec<(String, String)>,
}

impl Transcript {
    pub(crate) fn show(&mut self, shown: DisplayItem) {
        match shown {
            DisplayItem::Text(text) => self.stream(Voice::Say, &text),
            DisplayItem::Thinking(text) => self.stream(Voice::Think, &text),
            DisplayItem::TextEnd => self.end(),
            DisplayItem::Prompt(text) => self.you(&text),
            DisplayItem::Tool { id, title, .. } => self.tool(id, &title),
            DisplayItem::ToolDone {
                id,
                title,
                failed,
                result,
            } => self.tool_done(&id, title.as_deref(), failed, &result),
            DisplayItem::Plan(steps) => self.plan(&steps),
            DisplayItem::Note(text) => self.note(&text),
        }
    }

    /// A prompt.
    pub(crate) fn you(&mut self, text: &str) {
        self.end();
        self.push("", "");
        let mut lines = text.trim_end().split('\n');
        for (index, line) in lines.by_ref().take(PROMPT_LINES).enumerate() {
            self.push(if index == 0 { "› " } else { "  " }, line);
        }
        match lines.count() {
            0 => {}
            more => self.push("  ", &format!("… {more} more lines")),
        }
        self.push("", "");
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.end();
        for line in text.trim_end().split('\n') {
            self.push("· ", line);
        }
    }

    /// The turn is over, and all lines are complete.
    pub(crate) fn end_turn(&mut self) {
        self.end();
        for (_, title) in std::mem::take(&mut self.tools) {
            self.push("… ", &title);
        }
    }

    /// The lines that became whole since the last time.
    pub(crate) fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.whole)
    }

    /// What is still growing.
    pub(crate) fn growing(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some((voice, text)) = self
            .open
            .as_ref()
            .filter(|(_, text)| !text.trim().is_empty())
        {
            lines.push(Line {
                mark: voice.mark(),
                text: clean(text),
            });
        }
        lines.extend(self.tools.iter().map(|(_, title)| Line {
            mark: "⋯ ",
            text: title.clone(),
        }));
        lines
    }

    fn stream(&mut self, voice: Voice, text: &str) {
        if self.open.as_ref().is_some_and(|(open, _)| *open != voice) {
            self.end();
        }
        let mut grown = self.open.take().map(|(_, open)| open).unwrap_or_default();
        grown.push_str(text);
        let mut rest = grown.as_str();
        while let Some((line, after)) = rest.split_once('\n') {
            self.push(voice.mark(), line);
            rest = after;
        }
        while rest.len() > LONGEST {
            let at = rest.floor_char_boundary(LONGEST);
            let at = rest[..at].rfind(' ').map_or(at, |blank| blank + 1);
            self.push(voice.mark(), &rest[..at]);
            rest = &rest[at..];
        }
        self.open = Some((voice, rest.to_owned()));
    }

    /// Ends the line that grows.
    fn end(&mut self) {
        if let Some((voice, text)) = self.open.take().filter(|(_, text)| !text.trim().is_empty()) {
            self.push(voice.mark(), &text);
        }
    }

    fn tool(&mut self, id: String, title: &str) {
        self.end();
        let title = first_line(title);
        match self.tools.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) if !title.is_empty() => *known = title,
            Some(_) => {}
            None => self.tools.push((id, title)),
        }
    }

    fn tool_done(&mut self, id: &str, title: Option<&str>, failed: bool, result: &str) {
        self.end();
        let at = self.tools.iter().position(|(known, _)| known == id);
        let known = at.map(|at| self.tools.remove(at).1);
        let title = title.map(first_line).filter(|title| !title.is_empty());
        let title = title.or(known).unwrap_or_else(|| "a tool".into());
        let result = first_line(result);
        let text = match result.is_empty() || result == title {
            true => title,
            false => format!("{title} → {result}"),
        };
        self.push(if failed { "✗ " } else { "✓ " }, &text);
    }

    fn plan(&mut self, steps: &[(Step, String)]) {
        self.end();
        self.push("· ", "plan");
        for (step, text) in steps {
            let mark = match step {
                Step::Open => "  ☐ ",
                Step::Doing => "  ▸ ",
                Step::Done => "  ☑ ",
            };
            self.push(mark, &first_line(text));
        }
    }

    fn push(&mut self, mark: &'static str, text: &str) {
        let text = clean(text);
        // One empty line is enough to part what stands above and below.
        let empty = mark.is_empty() && text.is_empty();
        if empty
            && self
                .whole
                .last()
                .is_some_and(|last| last.mark.is_empty() && last.text.is_empty())
        {
            return;
        }
        self.whole.push(Line { mark, text });
    }
}

impl Voice {
    fn mark(self) -> &'static str {
        match self {
            Self::Say => "  ",
            Self::Think => "~ ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(transcript: &mut Transcript) -> Vec<String> {
        let lines = transcript.take();
        lines
            .iter()
            .map(|line| format!("{}{}", line.mark, line.text))
            .collect()
    }

    #[test]
    fn a_line_is_whole_when_it_ends_and_not_before() {
        let mut transcript = Transcript::default();
        transcript.show(DisplayItem::Text("one\ntw".into()));
        assert_eq!(lines(&mut transcript), ["  one"]);
        transcript.show(DisplayItem::Text("o\u{1b}[31m".into()));
        assert_eq!(lines(&mut transcript), Vec::<String>::new());
        assert_eq!(transcript.growing()[0].text, "two");
        transcript.show(DisplayItem::Thinking("hm".into()));
        transcript.end_turn();
        assert_eq!(lines(&mut transcript), ["  two", "~ hm"]);
    }

    #[test]
    fn a_tool_is_one_line_with_the_first_line_of_its_result() {
        let mut transcript = Transcript::default();
        let tool = |title: &str| DisplayItem::Tool {
            id: "a".into(),
            title: title.into(),
            name: "bash".into(),
            input: serde_json::Value::Null,
        };
        transcript.show(tool("bash"));
        transcript.show(tool("ls -l"));
        assert_eq!(transcript.growing().len(), 1);
        transcript.show(DisplayItem::ToolDone {
            id: "a".into(),
            title: None,
            failed: false,
            result: "\ntotal 0\nmore".into(),
        });
        assert_eq!(lines(&mut transcript), ["✓ ls -l → total 0"]);
        assert_eq!(transcript.growing(), []);
        transcript.show(tool("sleep"));
        transcript.end_turn();
        assert_eq!(lines(&mut transcript), ["… sleep"]);
    }

    #[test]
    fn a_long_prompt_is_repeated_in_part() {
        let mut transcript = Transcript::default();
        transcript.you(&"x\n".repeat(1_000));
        let shown = lines(&mut transcript);
        assert_eq!(shown.len(), PROMPT_LINES + 3);
        assert_eq!(shown[PROMPT_LINES + 1], "  … 988 more lines");
    }
}
