//! The input box: what is being typed, and how it is shown.

use crate::text::{bytes, clean, grouped, wrap};

/// A draft that takes more rows is shown by its size only.
const ROWS: usize = 6;
/// A longer draft is not even cut into rows to count them.
const SHORT: usize = 4_000;

#[derive(Debug, Default)]
pub(crate) struct Draft {
    text: String,
}

impl Draft {
    pub(crate) fn add(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn backspace(&mut self) {
        self.text.pop();
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// The rows of the box, each at most that wide. Never none.
    pub(crate) fn rows(&self, columns: usize) -> Vec<String> {
        if self.text.len() <= SHORT {
            let lines = self.text.split('\n');
            let rows: Vec<String> = lines.flat_map(|line| wrap(&clean(line), columns)).collect();
            if rows.len() <= ROWS {
                return rows;
            }
        }
        vec![self.size()]
    }

    fn size(&self) -> String {
        let lines = self.text.split('\n').count() as u64;
        match lines {
            1 => format!("[pasted {}]", bytes(self.text.len())),
            _ => format!(
                "[pasted {}, {} lines]",
                bytes(self.text.len()),
                grouped(lines)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_drafts_are_shown_by_their_size() {
        let mut draft = Draft::default();
        assert_eq!(draft.rows(20), [""]);
        draft.add("one\ntwo three");
        assert_eq!(draft.rows(20), ["one", "two three"]);
        draft.clear();
        draft.add(&vec!["x".repeat(86); 12_000].join("\n"));
        assert_eq!(draft.rows(80), ["[pasted 1.0 MB, 12,000 lines]"]);
    }
}
