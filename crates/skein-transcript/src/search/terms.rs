//! What was asked for: words, beginnings of words and phrases, all of which must be there. Nothing else in them is
//! syntax.

use std::fmt;
use std::str::FromStr;

use skein_domain::Invalid;

/// Parsed from words and "phrases". A star at the end of either asks for words that begin so. Anything else is text;
/// a quote that is not closed reaches to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms(Vec<Term>);

/// A word or a phrase, with a letter or digit in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub text: String,
    pub last: LastWord,
}

/// What the last word of a term must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWord {
    Whole,
    /// Whatever begins so.
    Beginning,
}

impl Terms {
    /// Most bytes of a question.
    pub const MOST: usize = 1_000;

    pub fn terms(&self) -> &[Term] {
        &self.0
    }
}

impl Term {
    /// One star, and only behind a word: that of `foo-*` says nothing of `foo`, and `**foo**` is how people write.
    fn parse(text: &str) -> Option<Self> {
        // Or behind the accent of one.
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '\u{300}'..='\u{36f}');
        let beginning = text
            .strip_suffix('*')
            .filter(|beginning| beginning.ends_with(is_word));
        let term = Self {
            text: beginning.unwrap_or(text).to_owned(),
            last: match beginning {
                Some(_) => LastWord::Beginning,
                None => LastWord::Whole,
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
                LastWord::Whole => "",
                LastWord::Beginning => "*",
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
        let ends = |text: &str, expected: &str, is: LastWord| {
            let expected = Term {
                text: expected.into(),
                last: is,
            };
            assert_eq!(last(text), expected, "{text}");
        };
        ends("log*", "log", LastWord::Beginning);
        ends("\"login fo*\"", "login fo", LastWord::Beginning);
        ends("\"never clos*", "never clos", LastWord::Beginning);
        ends("*log*", "*log", LastWord::Beginning);
        ends("日*", "日", LastWord::Beginning);
        ends("e\u{301}*", "e\u{301}", LastWord::Beginning);
        ends("a*b", "a*b", LastWord::Whole);
        ends("*log", "*log", LastWord::Whole);
        ends("log**", "log**", LastWord::Whole);
        ends("log-*", "log-*", LastWord::Whole);
        ends("log *", "log", LastWord::Whole);
        ends("\"log\"*", "log", LastWord::Whole);
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
