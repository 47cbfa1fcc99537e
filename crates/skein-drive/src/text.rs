//! Text for the terminal: without what a terminal would act on, cut into rows that fit.

use unicode_width::UnicodeWidthChar;

/// One line without control characters, escape sequences and marks that turn the direction of writing.
pub(crate) fn clean(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            '\t' => out.push_str("    "),
            c if c.is_control() => {}
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c => out.push(c),
        }
    }
    out
}

/// The rest of an escape sequence, which would be read as text without its beginning.
fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next_if(|c| matches!(c, '[' | ']' | 'P' | '^' | '_' | '(' | ')')) {
        Some('[') => {
            while chars
                .next_if(|c| ('\u{20}'..='\u{3f}').contains(c))
                .is_some()
            {}
            chars.next_if(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
        Some('(' | ')') => {
            chars.next();
        }
        Some(_) => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
        }
        None => {}
    }
}

/// Longest text of a question or a reason, in bytes.
const PLAIN: usize = 32 * 1024;

/// A text that can be stored and shown anywhere: clean and bounded; none if nothing is left.
pub(crate) fn plain(text: &str) -> Option<String> {
    let lines: Vec<String> = text.trim().lines().map(clean).collect();
    let mut text = lines.join("\n");
    if text.len() > PLAIN {
        text.truncate(text.floor_char_boundary(PLAIN));
        text.push('…');
    }
    (!text.trim().is_empty()).then_some(text)
}

pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Cuts one clean line into rows: at blanks where there are some, else where it must be. Never none.
pub(crate) fn wrap(line: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut rows = Vec::new();
    let (mut row, mut wide) = (String::new(), 0);
    for c in line.chars() {
        let own = c.width().unwrap_or(0);
        if wide + own > columns {
            let rest = match row.rfind(' ').filter(|at| *at > 0) {
                Some(at) => row.split_off(at + 1),
                None => String::new(),
            };
            rows.push(std::mem::replace(&mut row, rest));
            wide = width(&row);
        }
        row.push(c);
        wide += own;
    }
    rows.push(row);
    rows
}

/// At most that many columns, with a mark where something is left out.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut out, mut wide) = (String::new(), 1);
    for c in text.chars() {
        wide += c.width().unwrap_or(0);
        if wide > columns {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// The first line that says something, cleaned.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    clean(line.unwrap_or_default().trim())
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.0 MB`.
pub(crate) fn bytes(count: usize) -> String {
    match count {
        0..1_000 => format!("{count} bytes"),
        1_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_would_act_on_is_left() {
        for (line, expected) in [
            ("\u{1b}[31;1mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("\u{1b}P1;2q\u{1b}\\x", "x"),
            ("a\tb\rc\u{7}\u{9b}", "a    bc"),
            ("\u{202e}abc", "abc"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("\u{1b}]never ends", ""),
        ] {
            assert_eq!(clean(line), expected, "{line:?}");
        }
    }

    #[test]
    fn plain_text_is_clean_and_bounded() {
        assert_eq!(plain(" a\u{1b}[31m\r\nb\t\n"), Some("a\nb".into()));
        assert_eq!(plain("\u{7}\n \n"), None);
        assert!(plain(&"é".repeat(PLAIN)).unwrap().len() <= PLAIN + 3);
    }

    #[test]
    fn rows_are_cut_at_blanks_and_fit() {
        assert_eq!(wrap("aaa bbb ccc", 8), ["aaa bbb ", "ccc"]);
        assert_eq!(wrap("aaaaaaaaaa", 4), ["aaaa", "aaaa", "aa"]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    #[test]
    fn numbers_are_read_at_a_glance() {
        assert_eq!(grouped(12_000), "12,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(7), "7");
        assert_eq!(bytes(1_048_576), "1.0 MB");
    }

    proptest::proptest! {
        #[test]
        fn l13_any_text_is_cleaned_and_fits(text: String, columns in 0usize..40) {
            let clean = clean(&text);
            proptest::prop_assert!(!clean.chars().any(char::is_control));
            for row in wrap(&clean, columns) {
                proptest::prop_assert!(width(&row) <= columns.max(2));
            }
        }
    }
}
