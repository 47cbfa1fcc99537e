//! A list of names and values.

use std::fmt::Write as _;

use anstyle::Style;

use crate::output::{DIM, Paint};
use crate::text::{self, line};

/// Names and values, one per line, the names in a column.
pub(super) struct Facts {
    width: Option<usize>,
    paint: Paint,
    out: String,
}

impl Facts {
    const COLUMN: usize = 10;

    /// With a `width`, long values continue below their beginning.
    pub(super) fn new(width: Option<usize>, paint: Paint) -> Self {
        Self {
            width,
            paint,
            out: String::new(),
        }
    }

    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.styled(name, value, Style::new());
    }

    pub(super) fn styled(&mut self, name: &str, value: &str, style: Style) {
        let value = line(value);
        let parts = match self.width {
            Some(width) => text::wrap(&value, width.saturating_sub(Self::COLUMN)),
            None => vec![value],
        };
        for (n, part) in parts.iter().enumerate() {
            let name = if n == 0 { name } else { "" };
            let name = format!("{name:<width$}", width = Self::COLUMN);
            let _ = writeln!(
                self.out,
                "{}{}",
                self.paint.apply(DIM, &name),
                self.paint.apply(style, part)
            );
        }
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
