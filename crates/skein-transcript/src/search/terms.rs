//! Search terms: words, prefixes of words, and phrases, all of which must match. There is no other syntax.

use std::fmt;
use std::str::FromStr;

use skein_domain::Invalid;

/// Parsed from words and "phrases". A star at the end of either matches words with that prefix. Everything else is
/// text; an unclosed quote extends to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms(Vec<Term>);

/// A word or phrase that contains a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub text: String,
    pub last: WordMatch,
}

/// How the last word of a term matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordMatch {
    Whole,
    /// Any word with this prefix.
    Beginning,
}

impl Terms {
    /// Most bytes of a query.
    pub const MOST: usize = 1_000;

    pub fn terms(&self) -> &[Term] {
        &self.0
    }
}

impl Term {
    /// A star counts only once and after a word character: `foo-*` is no prefix of `foo`, and `**foo**` is Markdown.
    fn parse(text: &str) -> Option<Self> {
        // Or after a combining accent.
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '\u{300}'..='\u{36f}');
        let beginning = text
            .strip_suffix('*')
            .filter(|beginning| beginning.ends_with(is_word));
        let term = Self {
            text: beginning.unwrap_or(text).to_owned(),
            last: match beginning {
                Some(_) => WordMatch::Beginning,
                None => WordMatch::Whole,
            },
        };
        text.chars().any(char::is_alphanumeric).then_some(term)
    }
}

impl FromStr for Terms {
    type Err = Invalid;
    fn from_str(value: &str) -> Result<Self, Invalid> {
        let refuse = |why: &str| {
            let shown: String = value.chars().take(60).collect();
            Err(Invalid::new("search", &shown, why))
        };
        if value.len() > Self::MOST {
            return refuse("expected at most 1000 bytes");
        }
        let text: String = value
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let mut terms = vec![];
        for (n, part) in text.split('"').enumerate() {
            if n % 2 == 1 {
                terms.extend(Term::parse(part.trim()));
            } else {
                terms.extend(part.split_whitespace().filter_map(Term::parse));
            }
        }
        if terms.is_empty() {
            return refuse("expected a word, or a phrase in double quotes");
        }
        Ok(Self(terms))
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Term { text, last }) in self.0.iter().enumerate() {
            let gap = if n == 0 { "" } else { " " };
            let star = match last {
                WordMatch::Whole => "",
                WordMatch::Beginning => "*",
            };
            write!(f, "{gap}\"{text}{star}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each term as it is shown, which is parsed to the same again.
    fn check(text: &str, expected: &str) {
        let terms: Terms = text.parse().unwrap();
        assert_eq!(terms.to_string(), expected, "{text}");
        assert_eq!(terms.to_string().parse(), Ok(terms), "{text}");
    }

    #[test]
    fn words_and_phrases_are_told_apart_and_nothing_is_syntax() {
        check("login form", r#""login" "form""#);
        check(r#"a "login form" b"#, r#""a" "login form" "b""#);
        check(r#"x "never closed"#, r#""x" "never closed""#);
        check("NOT (b) ^c {d}:e --", r#""NOT" "(b)" "^c" "{d}:e""#);
        check("a\0b\"\"", r#""a" "b""#);
    }

    #[test]
    fn a_star_behind_a_word_asks_for_its_beginning() {
        check("log* \"login fo*\"", r#""log*" "login fo*""#);
        let last = |text: &str| text.parse::<Terms>().unwrap().0.pop().unwrap();
        let ends = |text: &str, expected: &str, is: WordMatch| {
            let expected = Term {
                text: expected.into(),
                last: is,
            };
            assert_eq!(last(text), expected, "{text}");
        };
        ends("log*", "log", WordMatch::Beginning);
        ends("\"login fo*\"", "login fo", WordMatch::Beginning);
        ends("\"never clos*", "never clos", WordMatch::Beginning);
        ends("*log*", "*log", WordMatch::Beginning);
        ends("日*", "日", WordMatch::Beginning);
        ends("e\u{301}*", "e\u{301}", WordMatch::Beginning);
        ends("a*b", "a*b", WordMatch::Whole);
        ends("*log", "*log", WordMatch::Whole);
        ends("log**", "log**", WordMatch::Whole);
        ends("log-*", "log-*", WordMatch::Whole);
        ends("log *", "log", WordMatch::Whole);
        ends("\"log\"*", "log", WordMatch::Whole);
    }

    #[test]
    fn l13_nothing_to_look_for_is_refused() {
        for bad in [
            "",
            "  ",
            "\"\"",
            "*",
            "**",
            "\"*\"",
            "*** --",
            &"a".repeat(1_001),
        ] {
            assert!(bad.parse::<Terms>().is_err(), "{bad:?}");
        }
    }
}
