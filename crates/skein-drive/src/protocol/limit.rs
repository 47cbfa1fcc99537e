//! Quotas that are used up, as errors tell of them.

use serde_json::Value;

use super::{Effect, Resets};

/// The limit behind an error, if it is one.
pub(super) fn of_error(error: &Value, text: &str) -> Option<Effect> {
    let data = &error["data"];
    let named = |value: &Value| {
        let name = value.as_str().unwrap_or_default().to_ascii_lowercase();
        name.contains("limit") && !name.contains("context")
    };
    let is_limit = error["code"] == 429
        || named(&data["errorKind"])
        || named(&data["codexErrorInfo"])
        || named(&error["codexErrorInfo"])
        || speaks_of_limit(text);
    is_limit.then(|| Effect::Limit {
        text: text.to_owned(),
        resets: resets_in(text).map(Resets::In),
    })
}

/// Whether a text of a program speaks of a quota.
pub(super) fn speaks_of_limit(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "usage limit",
        "rate limit",
        "quota exceeded",
        "too many requests",
        "session limit",
    ]
    .iter()
    .any(|phrase| text.contains(phrase))
}

/// The seconds in `retry after 3600s`, `try again in 20 seconds` and the like.
pub(super) fn resets_in(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let phrases = ["retry after ", "try again in ", "resets in ", "retry in "];
    let rest = phrases.iter().find_map(|phrase| {
        let at = lower.find(phrase)?;
        lower.get(at + phrase.len()..)
    })?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let number: u64 = rest[..digits].parse().ok()?;
    let unit = match rest[digits..].trim_start().chars().next() {
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        _ => 1,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_reset_is_read() {
        for (text, expected) in [
            ("429 limit\nSuggested retry after 3600s.", Some(3_600)),
            ("Rate limited, try again in 20 seconds", Some(20)),
            ("try again in 5 minutes", Some(300)),
            ("resets in 2h", Some(7_200)),
            ("resets 3pm", None),
            ("try again in a while", None),
        ] {
            assert_eq!(resets_in(text), expected, "{text}");
        }
    }
}
