//! What the screen of Claude Code says beyond its rules: where the present begins, and what a permission is for.

use std::str::FromStr;

use skein_domain::{Activity, Question, Reason};

use crate::agent::{Picture, Reading, Resets};
use crate::rules::Rules;

/// As much of a command as a question may hold.
const LONGEST: usize = 2_000;

/// Words that say nothing of what is asked.
const GENERAL: &[&str] = &["Do you want to proceed?", "Would you like to proceed?"];

pub(super) fn read(rules: &Rules, picture: Picture<'_>) -> Vec<Reading> {
    let picture = now(picture);
    let mut readings = rules.read(picture);
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
                detail: Some(detail),
                ..
            } => limited = until(detail),
            _ => {}
        }
    }
    readings.extend(limited);
    readings
}

/// It says at which hour of the day, in words.
pub(super) fn until(said: &str) -> Option<Reading> {
    let at = said.find("resets ")?;
    Some(Reading::Limited {
        resets: Some(Resets::Said(said[at..].trim().to_owned())),
    })
}

/// What came after the last prompt: an error of an earlier turn is no longer true.
pub(super) fn now(picture: Picture<'_>) -> Picture<'_> {
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
    let text = format!("{heading}: {}", shown.join("\n"));
    Reason::from_str(&text.chars().take(LONGEST).collect::<String>()).ok()
}
