//! Applies rules to a screen.

use std::ops::Range;
use std::str::FromStr;

use regex::Regex;
use skein_domain::{Activity, OptionKind, Question, Reason, Usage};

use super::{InputBox, Pattern, QuestionPattern, Region, Rule, RuleMeaning, Rules};
use crate::agent::{AnswerTarget, Draft, QuotaReset, Reading, ScreenView};

impl Rules {
    /// The readings of the first rule that matches, and of all rules about usage.
    pub fn read(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        self.read_by(picture, |_| true)
    }

    /// The same for a screen that certainly shows the input box. A program that asks shows its question instead, so
    /// text that looks like a question, a login or a limit is a quotation.
    pub(crate) fn read_above_box(&self, picture: ScreenView<'_>) -> Vec<Reading> {
        self.read_by(picture, |rule| !rule.says.blocks_input())
    }

    fn read_by(&self, picture: ScreenView<'_>, counts: impl Fn(&Rule) -> bool) -> Vec<Reading> {
        let mut readings = Vec::new();
        let shown = ShownRows::new(picture);
        let decides = |rule: &&Rule| !matches!(rule.says, RuleMeaning::Usage { .. });
        if let Some(rule) = self
            .rules
            .iter()
            .filter(decides)
            .filter(|rule| counts(rule))
            .find(|rule| rule.fits(&shown))
        {
            rule.add_readings(picture, &mut readings);
        }
        for rule in self.rules.iter().filter(|rule| !decides(rule)) {
            if rule.fits(&shown) {
                rule.add_readings(picture, &mut readings);
            }
        }
        readings
    }

    pub fn draft(&self, picture: ScreenView<'_>) -> Draft {
        let Some(input_box) = &self.input_box else {
            return Draft::Unknown;
        };
        let hidden = |rule: &&Rule| input_box.hidden_by.contains(&rule.name);
        if !input_box.hidden_by.is_empty() {
            let shown = ShownRows::new(picture);
            if self.rules.iter().filter(hidden).any(|r| r.fits(&shown)) {
                return Draft::Unseen;
            }
        }
        input_box.draft(picture)
    }

    /// The same for a screen that certainly shows the box, whatever is quoted above it.
    pub(crate) fn draft_in_box(&self, picture: ScreenView<'_>) -> Draft {
        let input_box = self.input_box.as_ref();
        input_box.map_or(Draft::Unknown, |input_box| input_box.draft(picture))
    }
}

impl RuleMeaning {
    /// Whether the agent waits for something other than a message.
    fn blocks_input(&self) -> bool {
        match self {
            Self::Question(_) => true,
            Self::Activity { activity, .. } => {
                matches!(activity, Activity::Blocked | Activity::WaitingInput)
            }
            Self::Usage { .. } => false,
        }
    }
}

/// Blanks that a terminal shows after the last visible character of a row. This many are enough for any practical
/// pattern, and keep rows short.
const BLANKS: &str = "                ";

/// The rows of a screen as a terminal shows them.
pub(super) struct ShownRows<'a> {
    picture: ScreenView<'a>,
    rows: Vec<ShownRow>,
}

pub(super) struct ShownRow {
    /// The text, and blanks after it if there is any text.
    filled: String,
    /// Possible ends of the row, in bytes of `filled`.
    text_end: usize,
    cursor_end: usize,
}

impl<'a> ShownRows<'a> {
    pub(super) fn new(picture: ScreenView<'a>) -> Self {
        let (cursor_row, column) = picture.cursor;
        let shown = |(index, text): (usize, &String)| {
            let text_end = text.trim_end().len();
            let mut filled = text[..text_end].to_owned();
            let mut cursor_end = text_end;
            if text_end > 0 {
                if index == usize::from(cursor_row) {
                    // Wide characters take two columns.
                    let width = unicode_width::UnicodeWidthStr::width(filled.as_str());
                    let gap = usize::from(column).saturating_sub(width);
                    cursor_end += gap.min(BLANKS.len());
                }
                filled.push_str(BLANKS);
            }
            ShownRow {
                filled,
                text_end,
                cursor_end,
            }
        };
        Self {
            picture,
            rows: picture.rows.iter().enumerate().map(shown).collect(),
        }
    }

    pub(super) fn of(&self, region: Region) -> &[ShownRow] {
        &self.rows[region.range(self.picture)]
    }

    pub(super) fn range_of(&self, region: Region) -> Range<usize> {
        region.range(self.picture)
    }
}

impl ShownRow {
    /// Without trailing blanks.
    pub(super) fn text(&self) -> &str {
        &self.filled[..self.text_end]
    }
}

impl Region {
    fn rows(self, picture: ScreenView<'_>) -> &[String] {
        &picture.rows[self.range(picture)]
    }

    fn range(self, picture: ScreenView<'_>) -> Range<usize> {
        let rows = picture.rows;
        match self {
            Self::Any => 0..rows.len(),
            Self::Cursor => {
                let row = usize::from(picture.cursor.0);
                row.min(rows.len())..(row + 1).min(rows.len())
            }
            Self::Bottom(n) => {
                let end = rows
                    .iter()
                    .rposition(|row| !row.trim().is_empty())
                    .map_or(0, |last| last + 1);
                end.saturating_sub(n)..end
            }
        }
    }
}

impl Pattern {
    pub(super) fn regex(regex: Regex) -> Self {
        let source = regex.as_str();
        let sees_end = ["$", "\\z", "\\b", "\\B"]
            .iter()
            .any(|end| source.contains(end));
        Self::Regex { regex, sees_end }
    }

    /// Whether the row matches with one of its ends.
    pub(super) fn fits(&self, row: &ShownRow) -> bool {
        match self {
            Self::Text(text) => row.filled.contains(text.as_str()),
            // A pattern that ignores the end and matches a row also matches the longer one.
            Self::Regex {
                regex,
                sees_end: false,
            } => regex.is_match(&row.filled),
            Self::Regex { regex, .. } => {
                let ends = [row.text_end, row.cursor_end, row.filled.len()];
                ends.iter().any(|end| regex.is_match(&row.filled[..*end]))
            }
        }
    }

    fn is_in(&self, text: &str) -> bool {
        match self {
            Self::Text(wanted) => text.contains(wanted.as_str()),
            Self::Regex { regex, .. } => regex.is_match(text),
        }
    }
}

impl Rule {
    pub(super) fn fits(&self, shown: &ShownRows<'_>) -> bool {
        let rows = shown.of(self.region);
        let there = |pattern: &Pattern| rows.iter().any(|row| pattern.fits(row));
        self.all.iter().all(there)
            && (self.any.is_empty() || self.any.iter().any(there))
            && !self.not.iter().any(there)
    }

    fn add_readings(&self, picture: ScreenView<'_>, readings: &mut Vec<Reading>) {
        let rows = self.region.rows(picture);
        match &self.says {
            RuleMeaning::Activity {
                activity,
                detail,
                resets_in,
            } => {
                let detail = detail.as_ref().and_then(|regex| last(regex, rows));
                readings.push(Reading::does(*activity, &self.name, detail.as_deref()));
                if let Some(resets_in) = resets_in {
                    let seconds = last(resets_in, rows).and_then(|text| text.parse().ok());
                    readings.push(Reading::Limited {
                        resets: seconds.map(|seconds| QuotaReset::In { seconds }),
                    });
                }
            }
            RuleMeaning::Question(asked) => {
                readings.push(Reading::does(Activity::WaitingInput, &self.name, None));
                if let Some(question) = asked.question(rows, &self.name) {
                    readings.push(Reading::Wants(asked.wants(&question)));
                    readings.push(Reading::Asks(question));
                }
            }
            RuleMeaning::Usage {
                input,
                output,
                cost,
            } => readings.extend(usage(rows, [input, output, cost])),
        }
    }
}

impl QuestionPattern {
    fn question(&self, rows: &[String], name: &str) -> Option<Question> {
        let found = self.text.as_ref().and_then(|regex| last_run(regex, rows));
        let (text, below) = found.unwrap_or_else(|| (name.to_owned(), 0));
        let text = if text.trim().is_empty() { name } else { &text };
        let options = match &self.option {
            Some(regex) => {
                let texts = offered(regex, rows, below).into_iter();
                texts
                    .filter_map(|text| Reason::from_str(&text).ok())
                    .collect()
            }
            None => self.options.clone(),
        };
        // A screen may contain characters that a question must not; then the question is unreadable.
        let kinds = self.kinds(&options);
        Some(Question {
            text: Reason::from_str(text).ok()?,
            options,
            kinds,
            id: None,
        })
    }

    /// The meanings of a permission's options: from the rule, else from their words.
    fn kinds(&self, options: &[Reason]) -> Vec<OptionKind> {
        if !self.kinds.is_empty() && self.kinds.len() == options.len() {
            return self.kinds.clone();
        }
        if self.wants != Some(AnswerTarget::Permission) {
            return vec![];
        }
        options.iter().map(|o| meaning(o.as_str())).collect()
    }

    fn wants(&self, question: &Question) -> AnswerTarget {
        match self.wants {
            Some(wanted) => wanted,
            None if question.options.is_empty() => AnswerTarget::Text,
            None => AnswerTarget::Choice,
        }
    }
}

/// The usual meaning of an option's words.
fn meaning(option: &str) -> OptionKind {
    let words = option.trim().to_lowercase();
    let begins = |list: &[&str]| list.iter().any(|word| words.starts_with(word));
    let says = |list: &[&str]| list.iter().any(|word| words.contains(word));
    if begins(&["no", "reject", "deny", "don't", "do not", "cancel", "abort"]) {
        return OptionKind::RejectOnce;
    }
    if !begins(&["yes", "allow", "approve", "accept", "proceed", "always"]) {
        return OptionKind::Other;
    }
    let lasts = [
        "always",
        "don't ask",
        "do not ask",
        "session",
        "all edits",
        "future",
    ];
    if says(&lasts) {
        OptionKind::AllowAlways
    } else {
        OptionKind::AllowOnce
    }
}

impl InputBox {
    fn draft(&self, picture: ScreenView<'_>) -> Draft {
        let rows = self.region.rows(picture);
        let bare: Vec<&str> = rows
            .iter()
            .map(|row| row.trim_matches(|c: char| self.trim.contains(c)).trim_end())
            .collect();
        let Some((start, held)) = bare.iter().enumerate().rev().find_map(|(index, row)| {
            let begins = |row: &str| self.prompt.find(row).map(|found| found.end());
            let blank = || begins(&format!("{row}{BLANKS}")).filter(|_| !row.is_empty());
            let end = begins(row).or_else(blank)?;
            Some((index, row.get(end..).unwrap_or_default()))
        }) else {
            return Draft::Unseen;
        };
        let mut draft = held.to_owned();
        if let Some(more) = &self.more {
            for row in &bare[start + 1..] {
                let Some(found) = more.find(row) else { break };
                draft.push('\n');
                draft.push_str(&row[found.end()..]);
            }
        }
        let draft = draft.trim();
        if draft.is_empty() || self.empty.iter().any(|pattern| pattern.is_in(draft)) {
            Draft::Empty
        } else {
            Draft::Holds(draft.to_owned())
        }
    }
}

/// The relevant part of a row: the last group that matched, or the whole match.
fn captured<'a>(regex: &Regex, row: &'a str) -> Option<&'a str> {
    let groups = regex.captures(row)?;
    let whole = groups.get(0)?;
    let group = groups.iter().skip(1).flatten().last();
    Some(group.unwrap_or(whole).as_str())
}

/// The options below a question. A row that is indented like an option's text continues it if its first word did not
/// fit in the row above; other rows there explain the option.
fn offered(regex: &Regex, rows: &[String], below: usize) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    let width = rows.iter().map(|row| length(row.trim_end())).max();
    let mut all: Vec<String> = vec![];
    // The column of the option's text, and the length of the row above.
    let mut above: Option<(usize, usize)> = None;
    for row in &rows[below..] {
        let row = row.trim_end();
        if let Some(text) = captured(regex, row) {
            let begins = row.find(text).unwrap_or_default();
            above = Some((length(&row[..begins]), length(row)));
            all.push(text.trim().to_owned());
            continue;
        }
        let indent = length(row) - length(row.trim_start());
        let word = row.split_whitespace().next().map(length);
        let goes_on = |(begins, end): (usize, usize)| {
            let had_room = word.is_some_and(|word| Some(end + 1 + word) < width);
            indent == begins && word.is_some() && !had_room
        };
        match (above, all.last_mut()) {
            (Some(place), Some(option)) if goes_on(place) => {
                option.push(' ');
                option.push_str(row.trim());
                above = Some((place.0, length(row)));
            }
            _ => above = None,
        }
    }
    all
}

/// The match nearest to the bottom, because older output may look alike.
fn last(regex: &Regex, rows: &[String]) -> Option<String> {
    rows.iter()
        .rev()
        .find_map(|row| captured(regex, row))
        .map(|text| text.trim().to_owned())
}

/// The last consecutive matching rows as one text, because a long question is wrapped; and the row after them.
fn last_run(regex: &Regex, rows: &[String]) -> Option<(String, usize)> {
    let end = rows.iter().rposition(|row| regex.is_match(row))? + 1;
    let run = rows[..end]
        .iter()
        .rev()
        .map_while(|row| captured(regex, row));
    let mut parts: Vec<&str> = run.map(str::trim).collect();
    parts.reverse();
    Some((parts.join(" "), end))
}

fn usage(rows: &[String], [input, output, cost]: [&Option<Regex>; 3]) -> Option<Reading> {
    let number = |regex: &Option<Regex>| last(regex.as_ref()?, rows);
    let (input, output, cost) = (number(input), number(output), number(cost));
    if input.is_none() && output.is_none() && cost.is_none() {
        return None;
    }
    let tokens = |text: Option<String>| {
        text.and_then(|t| t.replace([',', '_'], "").parse().ok())
            .unwrap_or(0)
    };
    Some(Reading::UsageTotal(Usage {
        input_tokens: tokens(input),
        output_tokens: tokens(output),
        cost_micros: cost.and_then(|t| crate::hooks::micros(&t)).unwrap_or(0),
    }))
}
