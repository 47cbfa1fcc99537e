//! Reads from Claude Code's screen what rules cannot: where the present turn begins, and what a permission is for.

use std::borrow::Cow;
use std::str::FromStr;

use skein_domain::{Activity, Reason};

use crate::agent::{Draft, Reading, ScreenView, add_limit, reword};
use crate::rules::Rules;

/// Longest text of a command in a question.
const LONGEST: usize = 2_000;

/// Questions without any detail.
const GENERAL: &[&str] = &["Do you want to proceed?", "Would you like to proceed?"];

pub(super) fn read(rules: &Rules, picture: ScreenView<'_>) -> Vec<Reading> {
    let rows = without_pane(picture.rows);
    let rows = rows.as_ref();
    let picture = now(ScreenView { rows, ..picture });
    let mut readings = match below_box(picture.rows) {
        Some(below) => beside_box(rules, picture, below),
        None => rules.read(picture),
    };
    reword(&mut readings, |question| wish(question, picture.rows));
    add_limit(&mut readings, |rule| rule == "limit");
    readings
}

pub(super) fn draft(rules: &Rules, picture: ScreenView<'_>) -> Draft {
    let rows = without_pane(picture.rows);
    let rows = rows.as_ref();
    let picture = now(ScreenView { rows, ..picture });
    match below_box(picture.rows) {
        Some(_) => rules.draft_in_box(picture),
        None => rules.draft(picture),
    }
}

/// The message of a refused login. It looks like the model's text, so all of it must match.
const REFUSED: &str = "● Please run /login · API Error: ";

/// While the input box is visible it asks nothing, and it reports a blocking problem only in certain places: below
/// the box, directly below a prompt that it could not accept, and at the end of its turn.
fn beside_box(rules: &Rules, picture: ScreenView<'_>, below: usize) -> Vec<Reading> {
    let rows = picture.rows;
    let first = |row: &&String| row.starts_with("  ⎿") || row.starts_with(|c: char| c != ' ');
    let untaken = rows.iter().find(first).filter(|row| row.starts_with(' '));
    let last = rows.iter().rfind(|row| row.starts_with('●'));
    let refused = last.filter(|row| row.starts_with(REFUSED));
    let own = untaken.into_iter().chain(refused).chain(&rows[below..]);
    let own: Vec<String> = own.cloned().collect();
    let readings = rules.read(ScreenView {
        rows: &own,
        ..picture
    });
    let blocked = |r: &Reading| matches!(r, Reading::Activity { activity, .. } if *activity == Activity::Blocked);
    match readings.iter().any(blocked) {
        true => readings,
        false => rules.read_above_box(picture),
    }
}

/// The row below its input box, which is between two lines, if it is visible. Output never begins at the left edge.
fn below_box(rows: &[String]) -> Option<usize> {
    let begins = |index: &usize| {
        let draft = rows[*index].strip_prefix('❯');
        draft.is_some_and(|draft| !is_option(draft.trim_start())) && is_line(&rows[*index - 1])
    };
    let top = (1..rows.len()).rev().find(begins)?;
    let height = rows[top..].iter().position(|row| is_line(row))?;
    Some(top + height + 1)
}

/// Removes the pane with changed files, which opens on the right of a wide screen. Its first row contains only the
/// button that closes it.
fn without_pane(rows: &[String]) -> Cow<'_, [String]> {
    let border = rows.first().and_then(|first| {
        let (left, pane) = first.rsplit_once('│')?;
        (pane.trim() == "✕").then(|| left.chars().count())
    });
    let Some(border) = border else {
        return Cow::Borrowed(rows);
    };
    let left = |row: &String| {
        // Wide characters take two columns but count as one, so the border may come earlier than above, never later.
        let places = row.char_indices().take(border + 1);
        let found = places.filter(|(_, c)| *c == '│').last();
        let end = found.map_or(row.len(), |(at, _)| at);
        row[..end].trim_end().to_owned()
    };
    Cow::Owned(rows.iter().map(left).collect())
}

/// The part after the last prompt: an error of an earlier turn no longer applies.
fn now(picture: ScreenView<'_>) -> ScreenView<'_> {
    let rows = picture.rows;
    let prompt = (1..rows.len()).rev().find(|&index| {
        let row = rows[index].as_str();
        // The input box is between two lines; options are indented, or have numbers.
        row.strip_prefix("❯ ")
            .is_some_and(|text| !text.trim().is_empty() && !is_option(text))
            && !is_line(&rows[index - 1])
    });
    let begin = prompt.map_or(0, |index| index + 1);
    let row = usize::from(picture.cursor.0).saturating_sub(begin);
    ScreenView {
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

/// `Bash: touch a` instead of «Do you want to proceed?»: the dialog's heading and its content.
fn wish(asked: &str, rows: &[String]) -> Option<Reason> {
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
    // The command is between dashed lines; without them everything counts.
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
    // One line with marks for line ends, because the content may be several commands.
    let text = format!("{heading}: {}", shown.join(" ⏎ "));
    Reason::from_str(&text.chars().take(LONGEST).collect::<String>()).ok()
}
