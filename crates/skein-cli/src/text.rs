//! Makes foreign text safe and short enough for a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// One line without anything that a terminal interprets: control characters, line breaks and direction marks become
/// escapes.
pub(crate) fn line(text: &str) -> String {
    text.chars().flat_map(visible).collect()
}

/// As [`line`], but line breaks stay (tabs become spaces).
pub(crate) fn block(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, part) in text.lines().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        out.push_str(&line(&part.replace('\t', "    ")));
    }
    out
}

/// Quotes a word for a shell, if needed.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn visible(c: char) -> Vec<char> {
    if acts(c) {
        c.escape_default().collect()
    } else {
        vec![c]
    }
}

fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Makes the strings of a JSON document safe for a terminal. JSON itself escapes the lower control characters; the
/// others can occur only inside strings.
pub(crate) fn json(document: String) -> String {
    let stays = |c: char| !acts(c) || c.is_ascii_whitespace();
    if document.chars().all(stays) {
        return document;
    }
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        if stays(c) {
            out.push(c);
        } else {
            // All of them are in the basic plane.
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    out
}

pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Truncates to `columns`, with `…` at the end if something was cut.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = UnicodeWidthChar::width(c).unwrap_or(0);
        if used + next + 1 > columns {
            break;
        }
        out.push(c);
        used += next;
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// `12,345`.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `$1,234.50`; fractions of a cent are kept.
pub(crate) fn dollars(usd: f64) -> String {
    let small = (usd.max(0.0) * 10_000.0).round() as u64;
    let (whole, part) = (small / 10_000, small % 10_000);
    if part.is_multiple_of(100) {
        format!("${}.{:02}", number(whole), part / 100)
    } else {
        format!("${}.{part:04}", number(whole))
    }
}

/// The first line of a text, with `…` if there are more.
pub(crate) fn first_line(text: &str) -> String {
    let text = text.trim();
    match text.split_once(['\n', '\r']) {
        Some((first, _)) => format!("{} …", first.trim_end()),
        None => text.to_owned(),
    }
}

/// Breaks a line at spaces, and longer words anywhere, so that each part has at most this many columns.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = vec![];
    let mut rest = text;
    // Scans one line at a time: a line may have megabytes.
    while let Some(end) = overflow(rest, columns) {
        let at = rest[..end]
            .rfind(' ')
            .filter(|at| !rest[..*at].trim().is_empty())
            .or_else(|| rest[end..].starts_with(' ').then_some(end))
            .unwrap_or(end);
        lines.push(rest[..at].trim_end().to_owned());
        rest = rest[at..].trim_start();
    }
    if !rest.is_empty() || lines.is_empty() {
        lines.push(rest.to_owned());
    }
    lines
}

/// One safe line, wrapped to a terminal of this `width` so that it continues in the column in which it begins.
pub(crate) fn hanging(text: &str, width: Option<usize>, column: usize) -> String {
    let text = line(text);
    match width {
        Some(width) => wrap(&text, width.saturating_sub(column)).join(&format!("\n{:column$}", "")),
        None => text,
    }
}

/// The position of the first character beyond this many columns.
fn overflow(text: &str, columns: usize) -> Option<usize> {
    let mut used = 0;
    let beyond = |(_, c): &(usize, char)| {
        used += UnicodeWidthChar::width(*c).unwrap_or(0);
        used > columns
    };
    text.char_indices().find(beyond).map(|(at, _)| at)
}

/// `1 session`, `2 sessions`.
pub(crate) fn count(n: usize, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_acts_on_gets_through() {
        assert_eq!(
            line("a\u{1b}[31mb\nc\u{7}\u{9b}"),
            "a\\u{1b}[31mb\\nc\\u{7}\\u{9b}"
        );
        assert_eq!(line("abc\u{202e}cba"), "abc\\u{202e}cba");
        assert_eq!(line("größe 日本"), "größe 日本");
        assert_eq!(block("a\n\tb\r\nc\u{1b}"), "a\n    b\nc\\u{1b}");
    }

    #[test]
    fn l15_json_holds_nothing_a_terminal_acts_on() {
        let document = serde_json::json!({"a": "x\u{1b}\u{9d}0;t\u{9c}\u{7f}\u{202e}größe 日本"});
        let safe = json(serde_json::to_string_pretty(&document).unwrap());
        assert!(safe.chars().all(|c| !acts(c) || c == '\n'), "{safe:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&safe).unwrap(),
            document
        );
    }

    #[test]
    fn fitting_counts_columns_not_bytes() {
        assert_eq!(fit("hello", 5), "hello");
        assert_eq!(fit("hello!", 5), "hell…");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("x", 0), "");
    }

    #[test]
    fn long_lines_are_broken_at_spaces() {
        assert_eq!(wrap("short", 20), ["short"]);
        assert_eq!(wrap("", 20), [""]);
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(
            wrap("/a/very/long/path x", 8),
            ["/a/very/", "long/pat", "h x"]
        );
        assert_eq!(first_line("a\nb"), "a …");
        assert_eq!(first_line("a\n"), "a");
    }

    /// Would take hours if every line looked at all that is left.
    #[test]
    fn a_line_of_megabytes_is_broken_in_time() {
        const SIZE: usize = 4 * 1024 * 1024;
        let words = wrap("word ".repeat(SIZE / 10 * 2).trim_end(), 10);
        assert_eq!(words.len(), SIZE / 10);
        assert!(words.iter().all(|line| line == "word word"));
        assert_eq!(wrap(&"x".repeat(SIZE), 64).len(), SIZE / 64);
        assert_eq!(wrap(&" ".repeat(SIZE), 64).len(), 1);
        assert_eq!(wrap(&"\u{301}".repeat(SIZE / 2), 64).len(), 1);
    }

    #[test]
    fn money_has_thousands_and_small_change() {
        assert_eq!(dollars(1234.5), "$1,234.50");
        assert_eq!(dollars(0.0012), "$0.0012");
        assert_eq!(dollars(0.0), "$0.00");
    }

    #[test]
    fn numbers_have_thousands() {
        for (value, shown) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(number(value), shown);
        }
    }
}
