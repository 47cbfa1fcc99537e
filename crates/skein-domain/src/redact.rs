//! Keeps what looks like a secret out of names and lists (L14).
//!
//! A task may hold one, and the task itself is kept as it was given; but its display name is in events,
//! thread titles and every list, where nobody expects a secret.

const HIDDEN: &str = "[redacted]";

/// How well-known kinds of keys begin.
const BEGINNINGS: [&str; 16] = [
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
];
/// Shorter words are hardly secrets: `sk-learn`, `skein.toml`.
const SHORTEST: usize = 20;
/// What a name ends with whose value is a secret, as in `API_KEY=…`.
const NAMES: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD"];

/// The word, or what is left of it.
pub(crate) fn redacted(word: &str) -> String {
    if let Some((name, value)) = word.split_once(['=', ':'])
        && !value.is_empty()
        && NAMES.iter().any(|n| name.to_ascii_uppercase().ends_with(n))
    {
        return format!("{name}={HIDDEN}");
    }
    let bare = word.trim_matches(['"', '\'', '`', '(', ')', ',', ';']);
    if bare.len() >= SHORTEST && BEGINNINGS.iter().any(|b| bare.starts_with(b)) {
        return word.replace(bare, HIDDEN);
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
