//! Points in time as plain numbers; reading the clock is the caller's business.

/// Microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
        let micros = (seconds as i128) * 1_000_000;
        let earlier = self.0 as i128 - micros;
        if earlier < i64::MIN as i128 {
            Self(i64::MIN)
        } else {
            Self(earlier as i64)
        }
    }

    /// Whole seconds from `earlier` to this moment; 0 if it was later.
    pub const fn seconds_since(self, earlier: Self) -> u64 {
        let micros = self.0 as i128 - earlier.0 as i128;
        if micros > 0 {
            (micros / 1_000_000) as u64
        } else {
            0
        }
    }
}
