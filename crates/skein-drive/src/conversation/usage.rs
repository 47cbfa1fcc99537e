//! What a conversation used: tokens and cost.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::protocol::UsageAmounts;
use crate::text::grouped;

#[derive(Debug, Default)]
pub(super) struct Usage {
    /// In the running turn.
    turn: UsageAmounts,
    /// In the whole conversation, as far as the program says.
    total: UsageAmounts,
}

impl Usage {
    /// Used since the last time; the payload for the journal, unless it is nothing.
    pub(super) fn add(&mut self, used: UsageAmounts) -> Option<Value> {
        let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.turn.input_tokens = add(self.turn.input_tokens, used.input_tokens);
        self.turn.output_tokens = add(self.turn.output_tokens, used.output_tokens);
        (!used.is_nothing()).then(|| counts(used))
    }

    /// Used in the whole conversation; the payload for the journal, unless the program repeats what is known.
    pub(super) fn total(&mut self, used: UsageAmounts) -> Option<Value> {
        let total = UsageAmounts {
            input_tokens: used.input_tokens.or(self.total.input_tokens),
            output_tokens: used.output_tokens.or(self.total.output_tokens),
            cost_usd: used.cost_usd.or(self.total.cost_usd),
        };
        if total == self.total {
            return None;
        }
        self.total = total;
        let mut payload = counts(used);
        payload["scope"] = "conversation".into();
        Some(payload)
    }

    /// The turn is over: what it used and how long it took, in words.
    pub(super) fn end_turn(&mut self, took: Duration) -> String {
        let mut parts = vec![];
        let tokens = |used: UsageAmounts| used.input_tokens.zip(used.output_tokens);
        if let Some((input, output)) = tokens(self.turn) {
            parts.push(format!("{} in, {} out", grouped(input), grouped(output)));
        } else if let Some((input, output)) = tokens(self.total) {
            let (input, output) = (grouped(input), grouped(output));
            parts.push(format!("{input} in, {output} out in all"));
        }
        if let Some(cost) = self.total.cost_usd {
            parts.push(format!("${cost:.4} in all"));
        }
        parts.push(span(took));
        self.turn = UsageAmounts::default();
        parts.join(" · ")
    }
}

fn counts(used: UsageAmounts) -> Value {
    let fields = [
        ("input_tokens", used.input_tokens.map(Value::from)),
        ("output_tokens", used.output_tokens.map(Value::from)),
        ("cost_usd", used.cost_usd.map(dollars)),
    ];
    let known = fields.into_iter();
    let known = known.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect::<Map<_, _>>().into()
}

/// In millionths, so that no reader sees the noise of binary fractions or an exponent.
fn dollars(usd: f64) -> Value {
    let rounded = format!("{:.6}", usd.max(0.0));
    serde_json::from_str(&rounded).unwrap_or_default()
}

pub(super) fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}
