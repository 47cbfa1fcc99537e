//! Hides what looks like a secret in names, lists, reasons and logs (L14).
//!
//! Skein stores a task unchanged, but its display name is in events, thread titles and every list, where no user
//! expects a secret. A failed setup command's output is in the reason of the failure, and may contain one too.

const HIDDEN: &str = "[redacted]";

/// Prefixes of well-known kinds of keys.
const BEGINNINGS: [&str; 17] = [
    "sk-",
    "sk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "npm_",
    "skein.",
    "skein-run.",
];
/// Shorter words are hardly secrets: `sk-learn`, `skein.toml`.
const SHORTEST: usize = 20;
/// A variable whose name ends like this has a secret value, as in `API_KEY=…`.
const NAMES: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// The word with its secret part replaced.
pub(crate) fn redacted(word: &str) -> String {
    if let Some((name, value)) = word.split_once(['=', ':'])
        && !value.is_empty()
        && is_secret(name)
    {
        return format!("{name}={HIDDEN}");
    }
    let bare = word.trim_matches(['"', '\'', '`', '(', ')', ',', ';']);
    if bare.len() >= SHORTEST && BEGINNINGS.iter().any(|b| bare.starts_with(b)) {
        return word.replace(bare, HIDDEN);
    }
    word.to_owned()
}

/// Whether a variable of this name has a secret value.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    NAMES.iter().any(|n| name.ends_with(n))
}

/// Hides given secrets, and what looks like one, in a program's output.
#[derive(Clone, Debug, Default)]
pub struct Redaction(Vec<String>);

impl Redaction {
    /// Hides the values of variables whose names end like those of secrets.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let mut values: Vec<String> = variables
            .into_iter()
            .filter(|(name, value)| is_secret(name) && value.len() >= 4)
            .map(|(_, value)| value.clone())
            .collect();
        // One secret may contain another: replace the longest first.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    pub fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.0 {
            text = text.replace(value, HIDDEN);
        }
        text.split_inclusive(char::is_whitespace)
            .map(|piece| {
                let word = piece.trim_end();
                redacted(word) + &piece[word.len()..]
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l14_what_a_program_prints_hides_the_secrets_it_was_given() {
        let pairs = [
            ("API_TOKEN", "hunter2hunter2"),
            ("Db_Password", "hunter2"),
            ("MODE", "production"),
            ("SHORT_KEY", "abc"),
        ];
        let variables: Vec<(String, String)> = pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        let redaction = Redaction::of(variables.iter().map(|(name, value)| (name, value)));
        assert_eq!(
            redaction.apply("+ curl -H hunter2hunter2\n  at hunter2, in production abc\n"),
            "+ curl -H [redacted]\n  at [redacted], in production abc\n"
        );
        assert_eq!(
            redaction.apply("GITHUB_TOKEN=x ghp_0123456789abcdefghij\tends"),
            "GITHUB_TOKEN=[redacted] [redacted]\tends"
        );
    }

    #[test]
    fn l14_what_looks_like_a_secret_is_not_shown() {
        for (word, shown) in [
            (
                "AWS_SECRET_ACCESS_KEY=abc/def",
                "AWS_SECRET_ACCESS_KEY=[redacted]",
            ),
            ("password:hunter2", "password=[redacted]"),
            ("`ghp_0123456789abcdefghijklmnopqrstuvwxyz`", "`[redacted]`"),
            ("npm_0123456789abcdefghij", "[redacted]"),
            ("skein.default.tok_0123456789abcdef.00ff", "[redacted]"),
            ("skein.toml", "skein.toml"),
            ("sk-learn", "sk-learn"),
            ("key", "key"),
            ("monkey:", "monkey:"),
            ("https://example.org/a", "https://example.org/a"),
        ] {
            assert_eq!(redacted(word), shown);
        }
    }
}
