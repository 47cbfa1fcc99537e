//! Points in time as plain numbers; the caller reads the clock.

use std::fmt;

/// Microseconds since the Unix epoch, UTC.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The moment `seconds` earlier, clamped to the range of the type.
    pub const fn minus_seconds(self, seconds: u64) -> Self {
        let micros = seconds.saturating_mul(1_000_000);
        Self(self.0.saturating_sub_unsigned(micros))
    }

    /// The moment `seconds` later, clamped to the range of the type.
    pub const fn plus_seconds(self, seconds: u64) -> Self {
        let micros = seconds.saturating_mul(1_000_000);
        Self(self.0.saturating_add_unsigned(micros))
    }

    /// Whole seconds since `earlier`; 0 if `earlier` is later.
    pub const fn seconds_since(self, earlier: Self) -> u64 {
        let micros = self.0 as i128 - earlier.0 as i128;
        if micros > 0 {
            (micros / 1_000_000) as u64
        } else {
            0
        }
    }
}

/// Printed to the second: `2026-11-17 03:04:05 UTC`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1_000_000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // With years that begin in March the leap day is the last one; the calendar repeats every 400 years.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_in_utc() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_794_884_645, "2026-11-17 03:04:05 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
        ] {
            let moment = Timestamp::from_micros(seconds * 1_000_000);
            assert_eq!(moment.to_string(), shown);
        }
    }
}
