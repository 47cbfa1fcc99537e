//! What the screen of Claude Code says beyond its rules: where the present begins, and what a permission is for.

use std::borrow::Cow;
use std::str::FromStr;

use skein_domain::{Activity, Question, Reason};

use crate::agent::{Draft, Picture, Reading, Resets};
use crate::rules::Rules;

/// As much of a command as a question may hold.
const LONGEST: usize = 2_000;

/// Words that say nothing of what is asked.
const GENERAL: &[&str] = &["Do you want to proceed?", "Would you like to proceed?"];

pub(super) fn read(rules: &Rules, picture: Picture<'_>) -> Vec<Reading> {
    let rows = without_pane(picture.rows);
    let rows = rows.as_ref();
    let picture = now(Picture { rows, ..picture });
    let mut readings = match below_box(picture.rows) {
        Some(below) => beside_box(rules, picture, below),
        None => rules.read(picture),
    };
    let mut limited = None;
    for reading in &mut readings {
        match reading {
            Reading::Asks(question) => {
                if let Some(text) = wish(question, picture.rows) {
                    question.text = text;
                }
            }
            Reading::Activity {
                activity: Activity::Blocked,
                rule,
                detail,
            } if rule == "limit" => limited = Some(limit(detail.as_deref().unwrap_or_default())),
            _ => {}
        }
    }
    readings.extend(limited);
    readings
}

/// What is in its input box.
pub(super) fn draft(rules: &Rules, picture: Picture<'_>) -> Draft {
    let rows = without_pane(picture.rows);
    let rows = rows.as_ref();
    let picture = now(Picture { rows, ..picture });
    match below_box(picture.rows) {
        Some(_) => rules.draft_in_box(picture),
        None => rules.draft(picture),
    }
}

/// How it says that its login was refused. It looks like the model's words, so all of this must be there.
const REFUSED: &str = "● Please run /login · API Error: ";

/// While its box is on the screen it asks nothing, and what holds it up it says only in places of its own: below the
/// box, right below the prompt that it could not take, and as the last of its turn.
fn beside_box(rules: &Rules, picture: Picture<'_>, below: usize) -> Vec<Reading> {
    let rows = picture.rows;
    let first = |row: &&String| row.starts_with("  ⎿") || row.starts_with(|c: char| c != ' ');
    let untaken = rows.iter().find(first).filter(|row| row.starts_with(' '));
    let last = rows.iter().rfind(|row| row.starts_with('●'));
    let refused = last.filter(|row| row.starts_with(REFUSED));
    let own = untaken.into_iter().chain(refused).chain(&rows[below..]);
    let own: Vec<String> = own.cloned().collect();
    let said = rules.read(Picture {
        rows: &own,
        ..picture
    });
    let blocked = |r: &Reading| matches!(r, Reading::Activity { activity, .. } if *activity == Activity::Blocked);
    match said.iter().any(blocked) {
        true => said,
        false => rules.read_above_box(picture),
    }
}

/// The row below its input box, which stands between two lines, if that is on the screen. What others say never
/// begins at the left edge.
fn below_box(rows: &[String]) -> Option<usize> {
    let begins = |index: &usize| {
        let draft = rows[*index].strip_prefix('❯');
        draft.is_some_and(|draft| !is_option(draft.trim_start())) && is_line(&rows[*index - 1])
    };
    let top = (1..rows.len()).rev().find(begins)?;
    let height = rows[top..].iter().position(|row| is_line(row))?;
    Some(top + height + 1)
}

/// A limit, whether or not it says when it is over.
pub(super) fn limit(said: &str) -> Reading {
    until(said).unwrap_or(Reading::Limited { resets: None })
}

/// It says at which hour of the day, in words.
fn until(said: &str) -> Option<Reading> {
    let resets = Some(Resets::said(said)?);
    Some(Reading::Limited { resets })
}

/// What is left of the pane that shows changed files, which opens on the right of a wide screen once there are some.
/// Its first row has nothing but the button that closes it.
fn without_pane(rows: &[String]) -> Cow<'_, [String]> {
    let border = rows.first().and_then(|first| {
        let (left, pane) = first.rsplit_once('│')?;
        (pane.trim() == "✕").then(|| left.chars().count())
    });
    let Some(border) = border else {
        return Cow::Borrowed(rows);
    };
    let left = |row: &String| {
        // Wide characters take two columns and are one here, so it may come earlier than above, never later.
        let places = row.char_indices().take(border + 1);
        let found = places.filter(|(_, c)| *c == '│').last();
        let end = found.map_or(row.len(), |(at, _)| at);
        row[..end].trim_end().to_owned()
    };
    Cow::Owned(rows.iter().map(left).collect())
}

/// What came after the last prompt: an error of an earlier turn is no longer true.
fn now(picture: Picture<'_>) -> Picture<'_> {
    let rows = picture.rows;
    let prompt = (1..rows.len()).rev().find(|&index| {
        let row = rows[index].as_str();
        // The input box stands between two lines; options are further in, or have numbers.
        row.strip_prefix("❯ ")
            .is_some_and(|text| !text.trim().is_empty() && !is_option(text))
            && !is_line(&rows[index - 1])
    });
    let begin = prompt.map_or(0, |index| index + 1);
    let row = usize::from(picture.cursor.0).saturating_sub(begin);
    Picture {
        rows: &rows[begin..],
        cursor: (u16::try_from(row).unwrap_or(u16::MAX), picture.cursor.1),
        title: picture.title,
    }
}

fn is_option(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() < text.len() && digits.starts_with(". ")
}

fn is_line(row: &str) -> bool {
    row.starts_with("────")
}

fn is_dashes(row: &str) -> bool {
    row.trim_start().starts_with("╌╌╌╌")
}

/// `Bash: touch a` instead of «Do you want to proceed?»: the dialog's heading and what it shows.
fn wish(question: &Question, rows: &[String]) -> Option<Reason> {
    let asked = question.text.as_str();
    if !GENERAL.contains(&asked) {
        return None;
    }
    let end = rows.iter().rposition(|row| row.trim() == asked)?;
    let begin = rows[..end].iter().rposition(|row| is_line(row))? + 1;
    let dialog = &rows[begin..end];
    let heading = dialog
        .iter()
        .map(|row| row.trim())
        .find(|r| !r.is_empty())?;
    let heading = heading.strip_suffix(" command").unwrap_or(heading);
    // What is to be run stands between dashes; where there are none all of it counts.
    let mut dashes = dialog.iter().enumerate().filter(|(_, row)| is_dashes(row));
    let body = match (dashes.next(), dashes.next_back()) {
        (Some((first, _)), Some((last, _))) => &dialog[first + 1..last],
        _ => &dialog[1..],
    };
    let shown: Vec<&str> = body
        .iter()
        .map(|row| row.trim())
        .filter(|row| !row.is_empty() && !is_dashes(row) && !row.starts_with("Tip:"))
        .collect();
    // One line, in which the ends of others are seen: what is asked for may be several commands.
    let text = format!("{heading}: {}", shown.join(" ⏎ "));
    Reason::from_str(&text.chars().take(LONGEST).collect::<String>()).ok()
}
