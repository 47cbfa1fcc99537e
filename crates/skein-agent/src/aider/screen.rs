//! Reads aider's screen by the position of its cursor.

use std::str::FromStr;
use std::sync::OnceLock;

use regex::Regex;
use skein_domain::{OptionKind, Question, Reason};

use crate::agent::ScreenView;

/// Words that may precede its prompt.
const MODES: &[&str] = &["ask", "architect", "code", "context", "help", "multi"];

/// Its known answers, with their keys and meanings.
pub(super) const ANSWERS: &[(&str, &str, OptionKind)] = &[
    ("Yes", "y\r", OptionKind::AllowOnce),
    ("No", "n\r", OptionKind::RejectOnce),
    ("All", "a\r", OptionKind::AllowAlways),
    ("Skip all", "s\r", OptionKind::RejectOnce),
    ("Don't ask again", "d\r", OptionKind::RejectAlways),
];

/// The text of a line of input, which begins with `> `, or with the mode, as in `ask> `.
fn begins(row: &str) -> Option<&str> {
    let (mode, rest) = row.split_once('>')?;
    let rest = rest.strip_prefix(' ').or(rest.is_empty().then_some(rest))?;
    let known = |word: &str| MODES.contains(&word);
    mode.split(' ')
        .all(|word| word.is_empty() || known(word))
        .then_some(rest)
}

/// The lines of input at the cursor, if it is in any. A long line continues in rows that begin with anything.
pub(super) fn prompt<'a>(picture: ScreenView<'a>) -> Option<Vec<&'a str>> {
    let cursor = usize::from(picture.cursor.0);
    let rows = picture.rows.get(..=cursor)?;
    let mut lines: Vec<&str> = vec![];
    let mut rest = rows.iter().rev();
    // Up to the first row of the line …
    loop {
        let row = rest.next()?.trim_end();
        match begins(row) {
            Some(line) => {
                lines.push(line);
                break;
            }
            None if row.is_empty() => return None,
            None => lines.push(row),
        }
    }
    // … and the lines before it.
    lines.extend(rest.map_while(|row| begins(row.trim_end())));
    lines.reverse();
    Some(lines)
}

/// Whether output follows the last input, which was accepted then. An empty row separates them, so that what is drawn
/// while a user types is not mistaken for output.
pub(super) fn taken_one(picture: ScreenView<'_>) -> bool {
    let Some(rows) = picture.rows.get(..=usize::from(picture.cursor.0)) else {
        return false;
    };
    let is_input = |row: &String| begins(row.trim_end()).is_some_and(|text| !text.is_empty());
    let Some(last) = rows.iter().rposition(is_input) else {
        return false;
    };
    let blank = |row: &&String| row.trim().is_empty();
    let mut below = rows[last + 1..].iter().skip_while(|row| !blank(row));
    below.any(|row| !blank(&row))
}

/// A question is in the row of the cursor, `Create new file? (Y)es/(N)o [Yes]: `, and its subject above.
pub(super) fn asked(picture: ScreenView<'_>) -> Option<Question> {
    static CONFIRM: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = r"^(.*\S) (\(Y\)es/\(N\)o(?:/\([A-Z]\)[A-Za-z' ]+)*) \[[A-Za-z]+\]:";
    let regex = CONFIRM.get_or_init(|| Regex::new(pattern).ok()).as_ref()?;
    let cursor = usize::from(picture.cursor.0);
    let found = regex.captures(picture.rows.get(cursor)?)?;
    let about = picture.rows.get(cursor.checked_sub(1)?);
    let about = about.map_or("", |row| row.trim());
    let rule = |c: char| c == '─';
    let about = if about.starts_with(rule) { "" } else { about };
    let text = format!("{} {about}", &found[1]);
    let names: Vec<String> = found[2]
        .split('/')
        .map(|option| option.replace(['(', ')'], ""))
        .collect();
    let kind = |name: &String| {
        let known = ANSWERS.iter().find(|(answer, ..)| answer == name);
        known.map_or(OptionKind::Other, |(.., kind)| *kind)
    };
    Some(Question {
        text: Reason::from_str(text.trim()).ok()?,
        kinds: names.iter().map(kind).collect(),
        id: None,
        options: names
            .iter()
            .map(|name| Reason::from_str(name))
            .collect::<std::result::Result<_, _>>()
            .ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Aider;
    use super::*;
    use crate::agent::{Agent as _, Draft, Reply};

    fn picture(rows: &[String], row: u16) -> ScreenView<'_> {
        ScreenView {
            rows,
            cursor: (row, 0),
            title: None,
        }
    }

    fn rows(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn l6_a_prompt_is_where_the_cursor_is() {
        let screen = rows("────\n> first\n>\n> a line that\ngoes on\n\nan answer > b\n");
        let draft = |row| Aider::new().draft(picture(&screen, row));
        assert_eq!(draft(1), Draft::Holds("first".into()));
        assert_eq!(
            draft(4),
            Draft::Holds("first\n\na line that\ngoes on".into())
        );
        assert_eq!(draft(5), Draft::Unseen, "it was submitted");
        assert_eq!(draft(6), Draft::Unseen, "it is answered");
        let taken = |row| taken_one(picture(&screen, row));
        assert_eq!([1, 4, 5, 6].map(taken), [false, false, false, true]);
        assert_eq!(draft(99), Draft::Unseen);
        assert_eq!(Aider::new().draft(picture(&rows("ask> "), 0)), Draft::Empty);
    }

    #[test]
    fn every_answer_of_a_question_has_its_letter() {
        let screen = rows(
            "touch a\nRun shell command? (Y)es/(N)o/(A)ll/(S)kip all/(D)on't ask again [Yes]: ",
        );
        let question = asked(picture(&screen, 1)).unwrap();
        assert_eq!(question.text.as_str(), "Run shell command? touch a");
        for (index, (name, keys, kind)) in ANSWERS.iter().enumerate() {
            assert_eq!(question.options[index].as_str(), *name);
            assert_eq!(question.kinds[index], *kind);
            let reply = Aider::new().answer(&question, Some(index), &question.options[index]);
            assert_eq!(reply, Reply::Keys(keys.as_bytes().to_vec()));
        }
    }
}
