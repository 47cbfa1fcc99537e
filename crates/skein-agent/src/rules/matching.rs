//! Applies rules to a picture.

use std::ops::Range;
use std::str::FromStr;

use regex::Regex;
use skein_domain::{Activity, OptionKind, Question, Reason, Usage};

use super::{Asked, InputBox, Pattern, Region, Rule, Rules, Says};
use crate::agent::{Draft, Picture, Reading, Resets, Wanted};

impl Rules {
    /// What the picture says: the first rule that fits, and all that tell usage.
    pub fn read(&self, picture: Picture<'_>) -> Vec<Reading> {
        self.read_by(picture, |_| true)
    }

    /// The same of a picture that surely shows the input box. A program that asks shows its question instead, so words
    /// like those of a question, a login or a limit are somebody's: the model may quote anything.
    pub(crate) fn read_above_box(&self, picture: Picture<'_>) -> Vec<Reading> {
        self.read_by(picture, |rule| !rule.says.holds_up())
    }

    fn read_by(&self, picture: Picture<'_>, counts: impl Fn(&Rule) -> bool) -> Vec<Reading> {
        let mut readings = Vec::new();
        let speaks = |rule: &&Rule| !matches!(rule.says, Says::Usage { .. });
        if let Some(rule) = self
            .rules
            .iter()
            .filter(speaks)
            .filter(|rule| counts(rule))
            .find(|rule| rule.fits(picture))
        {
            rule.tell(picture, &mut readings);
        }
        for rule in self.rules.iter().filter(|rule| !speaks(rule)) {
            if rule.fits(picture) {
                rule.tell(picture, &mut readings);
            }
        }
        readings
    }

    /// What is in the input box.
    pub fn draft(&self, picture: Picture<'_>) -> Draft {
        let Some(input_box) = &self.input_box else {
            return Draft::Unknown;
        };
        let hidden = |rule: &&Rule| input_box.hidden_by.contains(&rule.name);
        if self.rules.iter().filter(hidden).any(|r| r.fits(picture)) {
            return Draft::Unseen;
        }
        input_box.draft(picture)
    }

    /// The same of a picture that surely shows the box, whatever is quoted above it.
    pub(crate) fn draft_in_box(&self, picture: Picture<'_>) -> Draft {
        let input_box = self.input_box.as_ref();
        input_box.map_or(Draft::Unknown, |input_box| input_box.draft(picture))
    }
}

impl Says {
    /// Whether the agent waits for something else than a message.
    fn holds_up(&self) -> bool {
        match self {
            Self::Question(_) => true,
            Self::Activity { activity, .. } => {
                matches!(activity, Activity::Blocked | Activity::WaitingInput)
            }
            Self::Usage { .. } => false,
        }
    }
}

impl Region {
    fn rows(self, picture: Picture<'_>) -> &[String] {
        let rows = picture.rows;
        let range: Range<usize> = match self {
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
        };
        &rows[range]
    }
}

impl Pattern {
    fn is_in(&self, row: &str) -> bool {
        match self {
            Self::Text(text) => row.contains(text.as_str()),
            Self::Regex(regex) => regex.is_match(row),
        }
    }
}

impl Rule {
    fn fits(&self, picture: Picture<'_>) -> bool {
        let rows = self.region.rows(picture);
        let there = |pattern: &Pattern| rows.iter().any(|row| pattern.is_in(row));
        self.all.iter().all(there)
            && (self.any.is_empty() || self.any.iter().any(there))
            && !self.not.iter().any(there)
    }

    fn tell(&self, picture: Picture<'_>, readings: &mut Vec<Reading>) {
        let rows = self.region.rows(picture);
        match &self.says {
            Says::Activity {
                activity,
                detail,
                resets_in,
            } => {
                readings.push(Reading::Activity {
                    activity: *activity,
                    rule: self.name.clone(),
                    detail: detail.as_ref().and_then(|regex| last(regex, rows)),
                });
                if let Some(resets_in) = resets_in {
                    let seconds = last(resets_in, rows).and_then(|text| text.parse().ok());
                    readings.push(Reading::Limited {
                        resets: seconds.map(|seconds| Resets::In { seconds }),
                    });
                }
            }
            Says::Question(asked) => {
                readings.push(Reading::Activity {
                    activity: Activity::WaitingInput,
                    rule: self.name.clone(),
                    detail: None,
                });
                if let Some(question) = asked.question(rows, &self.name) {
                    readings.push(Reading::Wants(asked.wants(&question)));
                    readings.push(Reading::Asks(question));
                }
            }
            Says::Usage {
                input,
                output,
                cost,
            } => readings.extend(usage(rows, [input, output, cost])),
        }
    }
}

impl Asked {
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
        // A screen can hold what a question may not; then there is a question nobody can read.
        let kinds = self.kinds(&options);
        Some(Question {
            text: Reason::from_str(text).ok()?,
            options,
            kinds,
        })
    }

    /// What the options of a permission mean: as the rule says, else as their words do.
    fn kinds(&self, options: &[Reason]) -> Vec<OptionKind> {
        if !self.kinds.is_empty() && self.kinds.len() == options.len() {
            return self.kinds.clone();
        }
        if self.wants != Some(Wanted::Permission) {
            return vec![];
        }
        options.iter().map(|o| meaning(o.as_str())).collect()
    }

    fn wants(&self, question: &Question) -> Wanted {
        match self.wants {
            Some(wanted) => wanted,
            None if question.options.is_empty() => Wanted::Text,
            None => Wanted::Choice,
        }
    }
}

/// What programs mean by the words of an option.
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
    fn draft(&self, picture: Picture<'_>) -> Draft {
        let rows = self.region.rows(picture);
        let bare: Vec<&str> = rows
            .iter()
            .map(|row| row.trim_matches(|c: char| self.trim.contains(c)).trim_end())
            .collect();
        let Some((start, held)) = bare.iter().enumerate().rev().find_map(|(index, row)| {
            let found = self.prompt.find(row)?;
            Some((index, &row[found.end()..]))
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

/// The part of a row that counts: the last group that took part, or all that matched.
fn captured<'a>(regex: &Regex, row: &'a str) -> Option<&'a str> {
    let groups = regex.captures(row)?;
    let whole = groups.get(0)?;
    let group = groups.iter().skip(1).flatten().last();
    Some(group.unwrap_or(whole).as_str())
}

/// The options below a question. A row below one that stands where its text begins goes on with it if its first word
/// had no room left; other rows there explain the option.
fn offered(regex: &Regex, rows: &[String], below: usize) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    let width = rows.iter().map(|row| length(row.trim_end())).max();
    let mut all: Vec<String> = vec![];
    // Where the text of the option above begins, and how long the row above is.
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

/// What stands nearest to the bottom: older output may look alike.
fn last(regex: &Regex, rows: &[String]) -> Option<String> {
    rows.iter()
        .rev()
        .find_map(|row| captured(regex, row))
        .map(|text| text.trim().to_owned())
}

/// The last rows in a row that match, as one text, for a long question is wrapped; and the row after them.
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
