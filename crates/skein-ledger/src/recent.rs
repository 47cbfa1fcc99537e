//! Remembers what was recorded lately, so that a caller who repeats a request does not fill the log.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use skein_domain::Timestamp;

/// How long a repetition is not recorded again.
const SECONDS: u64 = 60;
/// Most entries; beyond this old entries are forgotten early.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<HashMap<String, Timestamp>>);

impl Recent {
    /// Whether this is the first time within a minute.
    pub(crate) fn is_new(&self, what: String, now: Timestamp) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.minus_seconds(SECONDS);
        if seen.len() >= MOST {
            seen.retain(|_, at| *at > since);
            if seen.len() >= MOST {
                seen.clear();
            }
        }
        match seen.get(&what) {
            Some(at) if *at > since && *at <= now => false,
            _ => {
                seen.insert(what, now);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_counts_again_after_a_minute() {
        let recent = Recent::default();
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        assert!(recent.is_new("a".into(), at(100)));
        assert!(!recent.is_new("a".into(), at(130)));
        assert!(recent.is_new("b".into(), at(130)));
        assert!(recent.is_new("a".into(), at(161)));
        // A clock that went back suppresses nothing for long.
        assert!(recent.is_new("a".into(), at(50)));
    }
}
