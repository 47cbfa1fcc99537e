//! Aligned columns.

use anstyle::Style;

use crate::output::{DIM, Paint};
use crate::text;

/// Columns narrower than this cannot be read.
const NARROWEST: usize = 8;
/// The width that a column of free text should have before others are shown beside it.
const READABLE: usize = 20;
const GAP: &str = "  ";

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Dimmed text before the cell's own.
    lead: String,
    text: String,
    style: Style,
}

impl Cell {
    /// Foreign text; made safe here.
    pub(crate) fn new(text: &str) -> Self {
        Self::styled(text, Style::new())
    }

    pub(crate) fn styled(text: &str, style: Style) -> Self {
        Self {
            lead: String::new(),
            text: text::line(text),
            style,
        }
    }

    #[must_use]
    pub(crate) fn after(mut self, lead: &str) -> Self {
        self.lead = lead.to_owned();
        self
    }

    fn width(&self) -> usize {
        text::width(&self.lead) + text::width(&self.text)
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text.as_ref())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
    /// Left-aligned, and truncated when the terminal is too narrow.
    Flex,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
    /// Columns that a narrow terminal leaves out, the first one first.
    spare: Vec<&'static str>,
}

impl Table {
    /// From the names of its columns. `>` begins a right-aligned one, `~` a flexible one; `_` is a space.
    pub(crate) fn new(columns: &'static str) -> Self {
        let column = |name: &'static str| match (name.strip_prefix('>'), name.strip_prefix('~')) {
            (Some(name), _) => (name.replace('_', " "), Align::Right),
            (_, Some(name)) => (name.replace('_', " "), Align::Flex),
            _ => (name.replace('_', " "), Align::Left),
        };
        Self {
            columns: columns.split(' ').map(column).collect(),
            rows: vec![],
            spare: vec![],
        }
    }

    /// Sets the columns that a narrow terminal leaves out, the first one first.
    #[must_use]
    pub(crate) fn spare(mut self, columns: &[&'static str]) -> Self {
        self.spare = columns.to_vec();
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// A header line and one line per row. With a `width`, flexible columns are truncated to fit, then others.
    pub(crate) fn render(&self, width: Option<usize>, paint: Paint) -> String {
        match width.and_then(|width| self.narrowed(width)) {
            Some(narrower) => narrower.render(width, paint),
            None => self.lines(width, paint),
        }
    }

    /// The table without its first spare column, if the others would be too narrow to read.
    fn narrowed(&self, width: usize) -> Option<Self> {
        let (name, spare) = self.spare.split_first()?;
        let column = self.columns.iter().position(|(n, _)| n == name)?;
        let least = |n: usize| match self.columns[n].1 {
            Align::Flex => self.widest(n).min(READABLE),
            Align::Left | Align::Right => self.widest(n),
        };
        let gaps = GAP.len() * self.columns.len().saturating_sub(1);
        let needed = (0..self.columns.len()).map(least).sum::<usize>() + gaps;
        (needed > width).then(|| {
            let mut narrower = self.clone();
            narrower.columns.remove(column);
            for row in &mut narrower.rows {
                row.remove(column);
            }
            narrower.spare = spare.to_vec();
            narrower
        })
    }

    fn lines(&self, width: Option<usize>, paint: Paint) -> String {
        let widths = self.widths(width);
        let header: Vec<Cell> = self
            .columns
            .iter()
            .map(|(name, _)| Cell::styled(name, Style::new().bold()))
            .collect();
        let mut out = String::new();
        for row in std::iter::once(&header).chain(&self.rows) {
            self.line(row, &widths, paint, &mut out);
        }
        out
    }

    fn line(&self, row: &[Cell], widths: &[usize], paint: Paint, out: &mut String) {
        let last = row.len().saturating_sub(1);
        for (n, cell) in row.iter().enumerate() {
            let lead = text::fit(&cell.lead, widths[n]);
            let shown = text::fit(&cell.text, widths[n] - text::width(&lead));
            let taken = text::width(&lead) + text::width(&shown);
            let padding = " ".repeat(widths[n].saturating_sub(taken));
            let painted = format!(
                "{}{}",
                paint.apply(DIM, &lead),
                paint.apply(cell.style, &shown)
            );
            match self.columns[n].1 {
                Align::Right => {
                    out.push_str(&padding);
                    out.push_str(&painted);
                }
                Align::Left | Align::Flex if n == last => out.push_str(&painted),
                Align::Left | Align::Flex => {
                    out.push_str(&painted);
                    out.push_str(&padding);
                }
            }
            if n < last {
                out.push_str(GAP);
            }
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }

    fn widest(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].width());
        cells
            .chain([text::width(&self.columns[column].0)])
            .max()
            .unwrap_or(0)
    }

    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|n| self.widest(n)).collect();
        let Some(limit) = limit else { return widths };
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(limit);
        // The first column is the id, so it is never truncated.
        let flexible = |n: usize| self.columns[n].1 == Align::Flex;
        let other = |n: usize| n > 0 && self.columns[n].1 == Align::Left;
        let steps: [(&dyn Fn(usize) -> bool, usize); 3] = [
            (&flexible, NARROWEST),
            (&other, NARROWEST - 2),
            (&flexible, NARROWEST - 2),
        ];
        for (may_give, narrowest) in steps {
            while excess > 0 {
                let widest = (0..widths.len())
                    .filter(|&n| may_give(n) && widths[n] > narrowest)
                    .max_by_key(|&n| widths[n]);
                let Some(n) = widest else { break };
                widths[n] -= 1;
                excess -= 1;
            }
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new("ID >USED ~TASK");
        table.row(vec![
            "api-1".into(),
            "5".into(),
            "fix the 日本 login".into(),
        ]);
        table.row(vec![
            "api-20".into(),
            "1,200".into(),
            "evil \u{1b}[2J".into(),
        ]);
        table
    }

    #[test]
    fn columns_are_aligned_by_width() {
        assert_eq!(
            sample().render(None, Paint::PLAIN),
            "ID       USED  TASK\n\
             api-1       5  fix the 日本 login\n\
             api-20  1,200  evil \\u{1b}[2J\n"
        );
    }

    #[test]
    fn only_flexible_columns_give_way() {
        assert_eq!(
            sample().render(Some(25), Paint::PLAIN),
            "ID       USED  TASK\n\
             api-1       5  fix the …\n\
             api-20  1,200  evil \\u{1…\n"
        );
        let spare = sample().spare(&["USED"]);
        assert_eq!(
            spare.render(Some(27), Paint::PLAIN),
            "ID      TASK\n\
             api-1   fix the 日本 login\n\
             api-20  evil \\u{1b}[2J\n"
        );
        assert_eq!(
            spare.render(Some(80), Paint::PLAIN),
            sample().render(None, Paint::PLAIN)
        );
        // Never narrower than readable, whatever the terminal says.
        assert_eq!(
            sample().render(Some(1), Paint::PLAIN),
            "ID       USED  TASK\n\
             api-1       5  fix t…\n\
             api-20  1,200  evil …\n"
        );
    }
}
