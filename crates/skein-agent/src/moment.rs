//! Parses times that programs state for people: `resets 4:30am (Europe/Berlin)`, `resets Oct 9 at 5am`.
//!
//! Such a text contains a time of the day, with a date if it is more than a day ahead, in a stated zone or the
//! machine's. Its meaning depends on when it is read, so the caller passes the clock and the zone.

use std::sync::LazyLock;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, ToSpan as _, Zoned};
use regex::{Captures, Regex};
use skein_domain::Timestamp;

/// The machine's time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    pub fn new(zone: TimeZone) -> Self {
        Self(zone)
    }

    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }
}

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A program may show a time for this long after it has passed. Taking it for tomorrow's would cost a day.
const SHOWN: SignedDuration = SignedDuration::from_hours(1);

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let date = r"(?<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?<day>\d{1,2})(?:,\s*(?<year>\d{4}))?";
    let time = r"(?<hour>\d{1,2})(?::(?<minute>\d{2}))?(?:\s*(?<half>am|pm))?\b";
    let zone = r"\s*\((?<zone>[^)]+)\)|\s+(?<word>(?-i:[A-Z]{2,5}))\b";
    let separated = r"(?:,|\s+at)?\s+";
    let when = format!("(?:{date}(?:{separated}{time})?|{})", unnamed(time));
    Regex::new(&format!(r"(?i)\bresets?\s+(?:at\s+)?{when}(?:{zone})?")).expect("a constant")
});

/// The same groups under other names, because a regex may contain each name only once.
fn unnamed(time: &str) -> String {
    time.replace("(?<", "(?<only_")
}

/// The end of the minute that `said` states, because programs cut off the seconds. None if it states no time, or one
/// that is over.
pub fn moment(said: &str, now: Timestamp, here: &Zone) -> Option<Timestamp> {
    let words = WORDS.captures(said)?;
    let zone = zone(&words, here)?;
    let now = jiff::Timestamp::from_microsecond(now.as_micros()).ok()?;
    let now = now.to_zoned(zone);
    let next = match date(&words, &now)? {
        Some(date) => at(date, time(&words, "")?, &now)?,
        None => of_the_day(time(&words, "only_")?, &now)?,
    };
    let next = next.timestamp().checked_add(MINUTE).ok()?;
    (next > now.timestamp()).then(|| Timestamp::from_micros(next.as_microsecond()))
}

fn zone(words: &Captures<'_>, here: &Zone) -> Option<TimeZone> {
    let name = words.name("zone").or_else(|| words.name("word"));
    match name.map(|name| name.as_str().trim()) {
        None => Some(here.0.clone()),
        Some("UTC" | "GMT") => Some(TimeZone::UTC),
        // An unknown zone is not guessed.
        Some(name) => TimeZone::get(name).ok(),
    }
}

/// The date, if stated. Without a year the nearest one counts.
fn date(words: &Captures<'_>, now: &Zoned) -> Option<Option<Date>> {
    let Some(month) = words.name("month") else {
        return Some(None);
    };
    let month = month.as_str().to_ascii_lowercase();
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let month = i8::try_from(month).ok()?;
    let day: i8 = words["day"].parse().ok()?;
    let year = words.name("year").map(|year| year.as_str().parse());
    let years = match year {
        Some(year) => {
            let year: i16 = year.ok()?;
            year..=year
        }
        None => now.year().checked_sub(1)?..=now.year().checked_add(1)?,
    };
    let dates = years.filter_map(|year| Date::new(year, month, day).ok());
    let away = |date: &Date| (*date - now.date()).get_days().abs();
    dates.min_by_key(away).map(Some)
}

/// The time of the day; a date without one means its beginning.
fn time(words: &Captures<'_>, group: &str) -> Option<Time> {
    let part = |name: &str| words.name(&format!("{group}{name}")).map(|m| m.as_str());
    let Some(hour) = part("hour") else {
        return Some(Time::midnight());
    };
    let hour: i8 = hour.parse().ok()?;
    let minute = part("minute");
    let half = part("half").map(str::to_ascii_lowercase);
    let hour = match half.as_deref() {
        // A number alone is not a time of the day.
        None => minute.and(Some(hour))?,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some("am") => hour % 12,
        Some(_) => hour % 12 + 12,
    };
    let minute = minute.map_or(Ok(0), str::parse).ok()?;
    Time::new(hour, minute, 0, 0).ok()
}

/// A time that daylight saving skips is moved forward.
fn at(date: Date, time: Time, now: &Zoned) -> Option<Zoned> {
    date.to_datetime(time)
        .to_zoned(now.time_zone().clone())
        .ok()
}

/// Today's or tomorrow's.
fn of_the_day(time: Time, now: &Zoned) -> Option<Zoned> {
    let today = at(now.date(), time, now)?;
    if now.duration_since(&today) < SHOWN {
        return Some(today);
    }
    at(now.date().checked_add(1.day()).ok()?, time, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(time: &str) -> Timestamp {
        let time: jiff::Timestamp = time.parse().unwrap();
        Timestamp::from_micros(time.as_microsecond())
    }

    /// Read at `now` on a machine in Berlin; `expected` is the minute that is to be over.
    fn check(now: &str, said: &str, expected: Option<&str>) {
        let here = Zone::new(TimeZone::get("Europe/Berlin").unwrap());
        let found = moment(said, utc(now), &here);
        let expected = expected.map(|minute| utc(minute).plus_seconds(60));
        assert_eq!(found, expected, "{said} at {now}");
    }

    #[test]
    fn an_hour_is_the_next_one_in_its_zone() {
        let now = "2026-11-17T06:00:00Z";
        for (said, expected) in [
            ("resets 4:30am (UTC)", "2026-11-18T04:30:00Z"),
            ("resets 9:36am (UTC)", "2026-11-17T09:36:00Z"),
            ("resets 3pm (Europe/Berlin)", "2026-11-17T14:00:00Z"),
            ("resets 3pm", "2026-11-17T14:00:00Z"),
            ("resets 10:30pm (Asia/Tokyo)", "2026-11-17T13:30:00Z"),
            ("resets 1pm (Etc/GMT+5)", "2026-11-17T18:00:00Z"),
            ("resets 12am (UTC)", "2026-11-18T00:00:00Z"),
            ("resets 12pm (UTC)", "2026-11-17T12:00:00Z"),
            ("resets 12:15am (UTC)", "2026-11-18T00:15:00Z"),
            (
                "Your limit will reset at 1pm (UTC).",
                "2026-11-17T13:00:00Z",
            ),
            ("resets at 7:49 AM UTC", "2026-11-17T07:49:00Z"),
            ("resets at 7:49\u{202f}AM UTC.", "2026-11-17T07:49:00Z"),
            ("resets at 18:05 UTC", "2026-11-17T18:05:00Z"),
            (
                "Weekly limit reached · resets 10am (Asia/Seoul) · /upgrade to Max",
                "2026-11-18T01:00:00Z",
            ),
            ("resets 5pm · contact your admin", "2026-11-17T16:00:00Z"),
        ] {
            check(now, said, Some(expected));
        }
    }

    #[test]
    fn a_date_is_the_nearest_one() {
        let now = "2026-11-17T06:00:00Z";
        for (said, expected) in [
            ("resets Nov 21 at 5am (UTC)", Some("2026-11-21T05:00:00Z")),
            ("resets Nov 21, 5am (UTC)", Some("2026-11-21T05:00:00Z")),
            ("resets Nov 21, 5:30pm", Some("2026-11-21T16:30:00Z")),
            ("resets Dec 1", Some("2026-11-30T23:00:00Z")),
            ("resets January 2, 5am (UTC)", Some("2027-01-02T05:00:00Z")),
            (
                "resets Jan 2, 2027, 5am (UTC)",
                Some("2027-01-02T05:00:00Z"),
            ),
            // They have come: what is shown is old.
            ("resets Oct 9 at 5am", None),
            ("resets Nov 17, 5am (UTC)", None),
            ("resets Jan 2, 2026, 5am (UTC)", None),
        ] {
            check(now, said, expected);
        }
        check("2027-01-01T00:00:00Z", "resets Dec 31, 5am (UTC)", None);
    }

    #[test]
    fn a_time_that_has_just_come_is_not_tomorrows() {
        let said = "resets 3pm (UTC)";
        check("2026-11-17T15:00:59Z", said, Some("2026-11-17T15:00:00Z"));
        check("2026-11-17T15:01:00Z", said, None);
        check("2026-11-17T15:59:59Z", said, None);
        check("2026-11-17T16:00:00Z", said, Some("2026-11-18T15:00:00Z"));
    }

    #[test]
    fn clocks_that_are_changed_meanwhile_are_right() {
        // Back by an hour on October 25, forward on March 28.
        check(
            "2026-10-24T20:00:00Z",
            "resets 5am",
            Some("2026-10-25T04:00:00Z"),
        );
        check(
            "2027-03-27T20:00:00Z",
            "resets 5am",
            Some("2027-03-28T03:00:00Z"),
        );
        check(
            "2027-03-27T20:00:00Z",
            "resets 2:30am",
            Some("2027-03-28T01:30:00Z"),
        );
    }

    #[test]
    fn nonsense_is_no_moment() {
        for said in [
            "",
            "resets soon",
            "resets in 2h",
            "resets 5",
            "resets 13pm",
            "resets 0am",
            "resets 4:75am",
            "resets 25:00 UTC",
            "resets Feb 30 at 5am",
            "resets 3pm (Mars/Olympus)",
            "resets 3pm PST",
            "presets 3pm",
            "resets 99999999999999999999pm",
        ] {
            check("2026-11-17T06:00:00Z", said, None);
        }
    }
}
