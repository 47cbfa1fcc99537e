//! Progress of several operations: lines that change in place on a terminal, one line per change elsewhere, nothing
//! with `--json`.

use std::fmt::Write as _;

use crate::output::Output;
use crate::text;

#[derive(Debug)]
pub(crate) struct Progress<'a> {
    out: &'a Output,
    lines: Vec<(String, String)>,
    /// How many lines on the screen can be overwritten.
    drawn: usize,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(out: &'a Output) -> Self {
        Self {
            out,
            lines: vec![],
            drawn: 0,
        }
    }

    /// Shows the state of `name`, if it changed.
    pub(crate) fn show(&mut self, name: &str, state: &str) {
        match self.lines.iter_mut().find(|(known, _)| known == name) {
            Some((_, shown)) if shown == state => return,
            Some((_, shown)) => *shown = state.to_owned(),
            None => self.lines.push((name.to_owned(), state.to_owned())),
        }
        match self.out.progress_area() {
            // Lines that do not fit on the screen cannot be overwritten.
            Some((rows, columns)) if self.lines.len() + 1 < rows => self.redraw(columns),
            _ => self.out.note(&format!("{name}: {state}")),
        }
    }

    /// Prints a line of output above the progress lines.
    pub(crate) fn pass_on(&mut self, name: &str, line: &str) {
        let line = format!("{name} | {}", text::line(line));
        match (self.drawn, self.out.progress_area()) {
            (1.., Some((_, columns))) => {
                self.out
                    .draw(&format!("\x1b[{}A\r\x1b[J{line}\n", self.drawn));
                self.drawn = 0;
                self.redraw(columns);
            }
            _ => self.out.note(&line),
        }
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.lines.iter().any(|(known, _)| known == name)
    }

    fn redraw(&mut self, columns: usize) {
        let mut out = String::new();
        if self.drawn > 0 {
            let _ = write!(out, "\x1b[{}A", self.drawn);
        }
        for (name, state) in &self.lines {
            let line = text::fit(&text::line(&format!("{name}  {state}")), columns - 1);
            let _ = writeln!(out, "\r\x1b[2K{line}");
        }
        self.drawn = self.lines.len();
        self.out.draw(&out);
    }

    /// Removes the lines from the screen; the command prints the result.
    pub(crate) fn clear(&mut self) {
        if self.drawn > 0 {
            self.out.draw(&format!("\x1b[{}A\r\x1b[J", self.drawn));
            self.drawn = 0;
        }
        self.lines.clear();
    }
}
