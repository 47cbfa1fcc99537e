//! Events, one line each.

use anstyle::Style;
use serde_json::Value;
use skein_wire::Event;

use crate::output::{BLUE, BOLD, CYAN, DIM, GREEN, Paint, RED, YELLOW};
use crate::text::{self, line};
use crate::when;

/// How to print the time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// As an age.
    Ago,
    /// As a time in UTC, for lines that stay on the screen.
    Clock,
}

/// Columns of number, time, kind, subject and actor: the usual width, and the smallest.
const COLUMNS: [(usize, usize); 5] = [(5, 5), (8, 8), (23, 16), (20, 8), (12, 7)];
/// A shorter column of facts is useless.
const FACTS: usize = 10;
/// Narrower terminals show facts only if there is room.
const ROOMY: usize = 80;
const GAP: usize = 2;

/// Number, time, kind, subject, actor and facts, truncated to the terminal.
pub(crate) fn event_line(event: &Event, time: Time, width: Option<usize>, paint: Paint) -> String {
    let about = [&event.session, &event.thread, &event.project]
        .into_iter()
        .find_map(Option::as_deref)
        .unwrap_or("–");
    let at = match time {
        Time::Ago => when::ago(&event.at, when::now()),
        Time::Clock => when::clock(&event.at),
    };
    let cells = [
        (format!("{:>5}", event.seq), DIM),
        (at, DIM),
        (line(&event.kind), kind_style(&event.kind)),
        (line(about), BOLD),
        (line(&event.actor), BLUE),
    ];
    let widths = widths(width);
    let mut out = String::new();
    let mut taken = 0;
    for ((cell, style), column) in cells.iter().zip(widths) {
        let shown = match width {
            Some(_) => text::fit(cell, column),
            None => cell.clone(),
        };
        let wide = text::width(&shown).max(column);
        if width.is_some_and(|width| taken + wide > width) {
            break;
        }
        let padding = wide - text::width(&shown) + GAP;
        out.push_str(&paint.apply(*style, &shown));
        out.push_str(&" ".repeat(padding));
        taken += wide + GAP;
    }
    let facts = line(&compact(&event.data));
    let facts = match width {
        Some(width) if width >= taken + FACTS => text::fit(&facts, width - taken),
        Some(_) => String::new(),
        None => facts,
    };
    out.push_str(&paint.apply(DIM, &facts));
    out.trim_end().to_owned()
}

/// All lines have the same columns, because they are printed one by one.
fn widths(limit: Option<usize>) -> [usize; 5] {
    let mut widths = COLUMNS.map(|(usual, _)| usual);
    let Some(limit) = limit else { return widths };
    // The kind matters more than the first letters of the facts.
    let facts = if limit < ROOMY { 0 } else { GAP + FACTS };
    loop {
        let taken = widths.iter().sum::<usize>() + GAP * (widths.len() - 1) + facts;
        let widest = (0..widths.len())
            .filter(|&n| widths[n] > COLUMNS[n].1)
            .max_by_key(|&n| widths[n] - COLUMNS[n].1);
        match widest {
            Some(n) if taken > limit => widths[n] -= 1,
            _ => return widths,
        }
    }
}

/// `name=value name=value`, without needless braces and quotes.
fn compact(value: &Value) -> String {
    let Value::Object(map) = value else {
        return inner(value);
    };
    map.iter()
        .filter(|(_, value)| !says_nothing(value))
        .map(|(name, value)| format!("{name}={}", inner(value)))
        .collect::<Vec<_>>()
        .join(" ")
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(says_nothing),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn inner(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && !text.contains(char::is_whitespace) => {
            text.clone()
        }
        Value::Null => String::new(),
        Value::Object(_) => format!("({})", compact(value)),
        other => other.to_string(),
    }
}

fn kind_style(kind: &str) -> Style {
    match kind.split('.').next() {
        Some("audit") => RED,
        Some("handoff" | "broadcast") => YELLOW,
        Some("session") => GREEN,
        _ => CYAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_never_wrap() {
        let event = Event {
            seq: 12,
            at: "2026-03-01T12:00:00Z".to_owned(),
            tenant: "default".to_owned(),
            kind: "session.budget_returned".to_owned(),
            project: None,
            thread: None,
            session: Some("a-long-prefix-1".to_owned()),
            actor: "user:somebody-else".to_owned(),
            data: serde_json::json!({"child": "api-2", "unspent": {"tokens": 5}}),
            prev_hash: String::new(),
            hash: String::new(),
        };
        for width in [20, 40, 60, 80, 120] {
            let shown = event_line(&event, Time::Clock, Some(width), Paint::PLAIN);
            assert!(text::width(&shown) <= width, "{width}: {shown}");
            assert!(shown.starts_with("   12  12:00:00"), "{shown}");
        }
        assert_eq!(
            event_line(&event, Time::Clock, Some(60), Paint::PLAIN),
            "   12  12:00:00  session.budget_ret…  a-long-pre…  user:som…"
        );
    }

    #[test]
    fn facts_are_short_and_say_something() {
        let value = serde_json::json!({
            "a": null, "b": {"c": null}, "d": [], "e": "two words", "f": 1, "g": {"h": "x", "i": null}, "j": ""
        });
        assert_eq!(compact(&value), "e=\"two words\" f=1 g=(h=x) j=\"\"");
        assert_eq!(compact(&Value::Null), "");
    }
}
