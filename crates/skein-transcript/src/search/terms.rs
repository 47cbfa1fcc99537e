//! What was asked for: words and phrases, all of which must be there. Nothing in them is syntax.

use std::fmt;
use std::str::FromStr;

use skein_domain::Invalid;

/// Parsed from words and "phrases". Anything else is text; a quote that is not closed reaches to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms(Vec<String>);

impl Terms {
    /// Most bytes of a question.
    pub const MOST: usize = 1_000;

    /// Each a word or a phrase, with a letter or digit in it.
    pub fn phrases(&self) -> &[String] {
        &self.0
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
        let mut phrases = vec![];
        for (n, part) in text.split('"').enumerate() {
            if n % 2 == 1 {
                phrases.push(part.trim().to_owned());
            } else {
                phrases.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        phrases.retain(|phrase| phrase.chars().any(char::is_alphanumeric));
        if phrases.is_empty() {
            return refuse("expected a word, or a phrase in double quotes");
        }
        Ok(Self(phrases))
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, phrase) in self.0.iter().enumerate() {
            let gap = if n == 0 { "" } else { " " };
            write!(f, "{gap}\"{phrase}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_phrases_are_told_apart_and_nothing_is_syntax() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(text.parse::<Terms>().unwrap().phrases(), expected, "{text}");
        };
        check("login form", &["login", "form"]);
        check("a \"login form\" b", &["a", "login form", "b"]);
        check("x \"never closed", &["x", "never closed"]);
        check(
            "NOT a* (b) ^c {d}:e --",
            &["NOT", "a*", "(b)", "^c", "{d}:e"],
        );
        check("a\0b\"\"", &["a", "b"]);
    }

    #[test]
    fn l13_nothing_to_look_for_is_refused() {
        for bad in ["", "  ", "\"\"", "*** --", &"a".repeat(1_001)] {
            assert!(bad.parse::<Terms>().is_err(), "{bad:?}");
        }
    }
}
