//! A thing described fact by fact.

use std::fmt::Write as _;

use anstyle::Style;

use crate::output::{DIM, Paint};
use crate::text::{self, line};

/// Names and values, one per line, the names in a column.
pub(super) struct Facts {
    paint: Paint,
    out: String,
}

impl Facts {
    const COLUMN: usize = 10;

    pub(super) fn new(paint: Paint) -> Self {
        Self {
            paint,
            out: String::new(),
        }
    }

    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.styled(name, value, Style::new());
    }

    pub(super) fn styled(&mut self, name: &str, value: &str, style: Style) {
        let name = format!("{name:<width$}", width = Self::COLUMN);
        let _ = writeln!(
            self.out,
            "{}{}",
            self.paint.apply(DIM, &name),
            self.paint.apply(style, &line(value))
        );
    }

    pub(super) fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// A text of several lines, indented like the other values.
    pub(super) fn block(&mut self, name: &str, value: &str) {
        for (n, part) in text::block(value).lines().enumerate() {
            self.add(if n == 0 { name } else { "" }, part);
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}
