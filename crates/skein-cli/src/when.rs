//! Relative and clock times.

use jiff::Timestamp;

pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// `3m ago` for an RFC 3339 time; an unreadable time is printed as it is.
pub(crate) fn ago(time: &str, now: Timestamp) -> String {
    let Ok(then) = time.parse::<Timestamp>() else {
        return crate::text::line(time);
    };
    let seconds = now.as_second() - then.as_second();
    match seconds {
        ..=-2 => format!("in {}", span(seconds.unsigned_abs())),
        -1..=1 => "now".to_owned(),
        _ => format!("{} ago", span(seconds.unsigned_abs())),
    }
}

/// `12:34:56` in UTC.
pub(crate) fn clock(time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(at) => at.strftime("%H:%M:%S").to_string(),
        Err(_) => crate::text::line(time),
    }
}

/// The two largest units that matter: `45s`, `3m`, `5h`, `2d`, `6w`, `3y`.
pub(crate) fn span(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 14 * DAY => format!("{}d", seconds / DAY),
        _ if seconds < 730 * DAY => format!("{}w", seconds / (7 * DAY)),
        _ => format!("{}y", seconds / (365 * DAY)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_to_now() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let check = |time: &str, expected: &str| assert_eq!(ago(time, now), expected, "{time}");
        check("2026-03-01T12:00:00Z", "now");
        check("2026-03-01T11:59:15.5Z", "45s ago");
        check("2026-03-01T11:57:00Z", "3m ago");
        check("2026-03-01T07:00:00Z", "5h ago");
        check("2026-02-27T12:00:00Z", "2d ago");
        check("2026-01-01T12:00:00Z", "8w ago");
        check("2020-01-01T12:00:00Z", "6y ago");
        check("2026-03-01T12:05:00Z", "in 5m");
        check("soon\u{1b}", "soon\\u{1b}");
    }
}
