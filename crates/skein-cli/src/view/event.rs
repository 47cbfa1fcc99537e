//! Events, one line each.

use anstyle::Style;
use serde_json::Value;
use skein_wire::Event;

use crate::output::{BLUE, BOLD, CYAN, DIM, GREEN, Paint, RED, YELLOW};
use crate::text::{self, line};
use crate::when;

/// Number, age, kind, what it is about, who, and the facts, cut to the terminal.
pub(crate) fn event_line(event: &Event, width: Option<usize>, paint: Paint) -> String {
    let about = [&event.session, &event.thread, &event.project]
        .into_iter()
        .find_map(Option::as_deref)
        .unwrap_or("–");
    let number = format!("{:>5}", event.seq);
    let age = format!("{:<8}", when::ago(&event.at, when::now()));
    let kind = format!("{:<23}", line(&event.kind));
    let about = format!("{:<20}", line(about));
    let actor = format!("{:<12}", line(&event.actor));
    let facts = line(&compact(&event.data));
    let taken = [&number, &age, &kind, &about, &actor]
        .iter()
        .map(|part| text::width(part) + 2)
        .sum::<usize>();
    let facts = width.map_or(facts.clone(), |width| {
        text::fit(&facts, width.saturating_sub(taken))
    });
    format!(
        "{}  {}  {}  {}  {}  {}",
        paint.apply(DIM, &number),
        paint.apply(DIM, &age),
        paint.apply(kind_style(&event.kind), &kind),
        paint.apply(BOLD, &about),
        paint.apply(BLUE, &actor),
        paint.apply(DIM, &facts)
    )
    .trim_end()
    .to_owned()
}

/// `name=value name=value`, without braces and quotes where they say nothing.
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
    fn facts_are_short_and_say_something() {
        let value = serde_json::json!({
            "a": null, "b": {"c": null}, "d": [], "e": "two words", "f": 1, "g": {"h": "x", "i": null}, "j": ""
        });
        assert_eq!(compact(&value), "e=\"two words\" f=1 g=(h=x) j=\"\"");
        assert_eq!(compact(&Value::Null), "");
    }
}
