//! Text that came from elsewhere, made safe and short enough for a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// One line without anything a terminal would act on: control characters, line breaks and the marks that
/// turn the direction of writing are shown as escapes.
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

fn visible(c: char) -> Vec<char> {
    let acts = c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    if acts {
        c.escape_default().collect()
    } else {
        vec![c]
    }
}

pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Cuts to at most `columns`, ending in `…` when something was cut.
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
    fn fitting_counts_columns_not_bytes() {
        assert_eq!(fit("hello", 5), "hello");
        assert_eq!(fit("hello!", 5), "hell…");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("x", 0), "");
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
