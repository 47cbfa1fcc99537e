//! The result: one row per claim.

use std::fmt::Write as _;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) measured: String,
    /// The limit or peer it is compared with, as measured in this run.
    pub(crate) beside: String,
    pub(crate) ratio: String,
    pub(crate) budget: String,
    pub(crate) met: Option<bool>,
}

impl Row {
    /// A fact without a budget of its own.
    pub(crate) fn fact(work: impl Into<String>, measured: impl Into<String>) -> Self {
        Self {
            work: work.into(),
            measured: measured.into(),
            beside: String::new(),
            ratio: String::new(),
            budget: String::new(),
            met: None,
        }
    }

    pub(crate) fn beside(mut self, beside: impl Into<String>, ratio: f64) -> Self {
        self.beside = beside.into();
        self.ratio = format!("{ratio:.2} ×");
        self
    }

    pub(crate) fn budget(mut self, budget: impl Into<String>, met: bool) -> Self {
        self.budget = budget.into();
        self.met = Some(met);
        self
    }
}

pub(crate) fn render(rows: &[Row]) -> String {
    let mut out = String::from(
        "| work | measured | beside it | ratio | budget | met |\n|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let met = match row.met {
            None => "–",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {met} |",
            row.work, row.measured, row.beside, row.ratio, row.budget
        );
    }
    out
}
