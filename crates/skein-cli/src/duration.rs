//! Parsing of durations: `45s`, `30m`, `12h`, `7d`, `2w`, `1h30m`.

use std::fmt;

/// Whole seconds, as given on the command line or in a settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) u64);

impl std::str::FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!(
                "`{}` is not a duration; write e.g. `45s`, `30m`, `12h` or `7d`",
                crate::text::line(text)
            )
        };
        if text == "0" {
            return Ok(Self(0));
        }
        let mut total: u64 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let amount: u64 = rest[..digits].parse().map_err(|_| refuse())?;
            let unit = rest[digits..]
                .chars()
                .next()
                .and_then(unit)
                .ok_or_else(refuse)?;
            total = amount
                .checked_mul(unit)
                .and_then(|part| total.checked_add(part))
                .ok_or_else(refuse)?;
            rest = &rest[digits + 1..];
        }
        if text.is_empty() {
            Err(refuse())
        } else {
            Ok(Self(total))
        }
    }
}

fn unit(letter: char) -> Option<u64> {
    match letter {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        'w' => Some(604_800),
        _ => None,
    }
}

/// In the form that `FromStr` parses.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        if rest == 0 {
            return f.write_str("0");
        }
        if rest.is_multiple_of(604_800) {
            return write!(f, "{}w", rest / 604_800);
        }
        // Weeks and days together are hard to read: 30d is 30d, not 4w2d.
        for (letter, size) in [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)] {
            if rest >= size {
                write!(f, "{}{letter}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, seconds) in [
            ("0", 0),
            ("45s", 45),
            ("30m", 1800),
            ("1h30m", 5400),
            ("7d", 604_800),
            ("2w", 1_209_600),
        ] {
            assert_eq!(text.parse(), Ok(Seconds(seconds)), "{text}");
            assert_eq!(Seconds(seconds).to_string().parse(), Ok(Seconds(seconds)));
        }
        for bad in [
            "",
            "5",
            "h",
            "-1s",
            "1x",
            "1.5h",
            "99999999999999999999w",
            "9999999999999999w",
            "5 m",
            "1ü",
        ] {
            assert!(bad.parse::<Seconds>().is_err(), "{bad}");
        }
        assert_eq!(Seconds(5400).to_string(), "1h30m");
        assert_eq!(Seconds(30 * 86_400).to_string(), "30d");
        assert_eq!(Seconds(14 * 86_400).to_string(), "2w");
    }
}
