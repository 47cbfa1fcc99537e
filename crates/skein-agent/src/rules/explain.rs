//! Explains why each rule matches the screen or not, for authors of rules.

use regex::RegexBuilder;

use super::matching::{ShownRow, ShownRows};
use super::{Pattern, Region, Rule, RuleMeaning, Rules};
use crate::agent::ScreenView;

/// Longer patterns get no nearest miss, so that a settings file cannot take the processor.
const LONGEST: usize = 200;
/// Size limit of a compiled prefix of a pattern.
const LARGEST: usize = 1 << 16;

/// One rule, tried on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTrial {
    pub rule: String,
    /// The rule's `says`, in the words of the rules file.
    pub says: &'static str,
    /// The rule's rows, in the words of the rules file.
    pub region: String,
    /// The first and the last row it looked at, from 1; none if there was no row.
    pub rows: Option<(usize, usize)>,
    /// Conditions that do not hold; the rule matches if there is none.
    pub misses: Vec<UnmetCondition>,
}

/// A condition of a rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetCondition {
    /// `all`, `any` or `not`.
    pub condition: &'static str,
    pub pattern: String,
    /// For `not`, the row that matches. Otherwise the row that matches the longest prefix of the pattern.
    pub row: Option<NearestRow>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestRow {
    /// From 1.
    pub number: usize,
    pub text: String,
    /// The prefix of the pattern that matches this row.
    pub part: String,
}

impl RuleTrial {
    pub fn fits(&self) -> bool {
        self.misses.is_empty()
    }
}

impl Rules {
    /// Tries every rule, in order. The first that matches and does not say `usage` decides.
    pub fn explain(&self, picture: ScreenView<'_>) -> Vec<RuleTrial> {
        let shown = ShownRows::new(picture);
        self.rules.iter().map(|rule| rule.explain(&shown)).collect()
    }
}

impl Rule {
    fn explain(&self, shown: &ShownRows<'_>) -> RuleTrial {
        let rows = shown.of(self.region);
        let range = shown.range_of(self.region);
        let first = range.start;
        let fits = |pattern: &&Pattern| rows.iter().any(|row| pattern.fits(row));
        let mut misses: Vec<UnmetCondition> = vec![];
        let missed = self.all.iter().filter(|pattern| !fits(pattern));
        misses.extend(missed.map(|pattern| pattern.missed("all", rows, first)));
        if !self.any.is_empty() && !self.any.iter().any(|pattern| fits(&pattern)) {
            let missed = self.any.iter();
            misses.extend(missed.map(|pattern| pattern.missed("any", rows, first)));
        }
        for pattern in &self.not {
            let Some(index) = rows.iter().position(|row| pattern.fits(row)) else {
                continue;
            };
            misses.push(UnmetCondition {
                condition: "not",
                pattern: pattern.source().to_owned(),
                row: Some(NearestRow {
                    number: first + index + 1,
                    text: rows[index].text().to_owned(),
                    part: pattern.source().to_owned(),
                }),
            });
        }
        RuleTrial {
            rule: self.name.clone(),
            says: self.says.word(),
            region: self.region.word(),
            rows: (!range.is_empty()).then_some((range.start + 1, range.end)),
            misses,
        }
    }
}

impl Pattern {
    fn source(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Regex { regex, .. } => regex.as_str(),
        }
    }

    fn missed(&self, condition: &'static str, rows: &[ShownRow], first: usize) -> UnmetCondition {
        UnmetCondition {
            condition,
            pattern: self.source().to_owned(),
            row: self.nearest(rows, first),
        }
    }

    /// The row that matches the longest prefix of the pattern; the lowest of several, because older output is above.
    fn nearest(&self, rows: &[ShownRow], first: usize) -> Option<NearestRow> {
        let source = self.source();
        if source.len() > LONGEST {
            return None;
        }
        let ends = source.char_indices().map(|(index, _)| index).skip(1);
        let ends: Vec<usize> = ends.collect();
        ends.into_iter().rev().find_map(|end| {
            let part = self.beginning(end)?;
            let index = rows.iter().rposition(|row| part.fits(row))?;
            Some(NearestRow {
                number: first + index + 1,
                text: rows[index].text().to_owned(),
                part: source[..end].to_owned(),
            })
        })
    }

    /// The pattern up to `end`; none if that matches everything.
    fn beginning(&self, end: usize) -> Option<Self> {
        let source = &self.source()[..end];
        match self {
            Self::Text(_) => {
                Some(Self::Text(source.to_owned())).filter(|_| !source.trim().is_empty())
            }
            Self::Regex { .. } => {
                let regex = RegexBuilder::new(source).size_limit(LARGEST).build().ok()?;
                (!regex.is_match("")).then(|| Self::regex(regex))
            }
        }
    }
}

impl RuleMeaning {
    fn word(&self) -> &'static str {
        match self {
            Self::Activity { activity, .. } => activity.as_str(),
            Self::Question(_) => "question",
            Self::Usage { .. } => "usage",
        }
    }
}

impl Region {
    fn word(self) -> String {
        match self {
            Self::Any => "any".into(),
            Self::Cursor => "cursor".into(),
            Self::Bottom(n) => format!("bottom {n}"),
        }
    }
}
