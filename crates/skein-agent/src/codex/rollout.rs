//! Codex's own record of a conversation, which grows line by line: `{timestamp, ordinal, type, payload}`.
//!
//! Only lines with messages, the start and end of turns, and usage count; others may be long and are not parsed. The
//! file does not show that Codex waits for an approval.

use serde::Deserialize;
use skein_domain::{Activity, Timestamp, Usage};

use super::messages::RolloutMessages;
use crate::agent::{QuotaReset, Reader, Reading};

/// Beginnings of relevant lines, after their time and number.
const ITEM: &str = "\"type\":\"response_item\",\"payload\":{";
const EVENT: &str = "\"type\":\"event_msg\",\"payload\":{\"type\":\"";

#[derive(Debug, Default)]
pub(super) struct Rollout {
    /// When the exhausted quota is renewed, in seconds since 1970; reported before the turn's end.
    resets: Option<i64>,
    messages: RolloutMessages,
}

#[derive(Deserialize)]
struct Line {
    payload: Payload,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload {
    info: Option<Info>,
    rate_limits: Option<Limits>,
    error: Option<Failure>,
    num_turns: u64,
}

#[derive(Deserialize)]
struct Info {
    total_token_usage: Tokens,
}

#[derive(Deserialize)]
struct Tokens {
    input_tokens: u64,
    output_tokens: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Limits {
    primary: Option<Window>,
    secondary: Option<Window>,
}

#[derive(Deserialize)]
struct Window {
    used_percent: f64,
    #[serde(default)]
    resets_at: Option<i64>,
}

#[derive(Deserialize)]
struct Failure {
    message: String,
    #[serde(default)]
    codex_error_info: serde_json::Value,
}

impl Reader for Rollout {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        text.lines()
            .flat_map(|line| self.line(line).unwrap_or_default())
            .collect()
    }
}

impl Rollout {
    fn line(&mut self, line: &str) -> Option<Vec<Reading>> {
        // Similar text of a user is further inside a line.
        let begins = |with: &str| line.split_once(with).filter(|(b, _)| b.len() <= 100);
        if begins(ITEM).is_some() {
            return self.messages.item(line).map(|reading| vec![reading]);
        }
        let (_, rest) = begins(EVENT)?;
        let kind = rest.split('"').next()?;
        let does = |activity, detail: Option<&str>| {
            Reading::does(activity, format!("rollout {kind}"), detail)
        };
        match kind {
            "thread_rolled_back" => {
                let back = self.messages.rolled_back(parse(line)?.num_turns);
                back.map(|back| vec![back])
            }
            "task_started" => Some(vec![does(Activity::Active, None)]),
            "turn_aborted" => Some(vec![
                Reading::TurnEnded,
                does(Activity::Ready, Some("interrupted")),
            ]),
            "task_complete" => Some(self.complete(does, parse(line)?.error)),
            "token_count" => self.count(parse(line)?),
            _ => None,
        }
    }

    /// The totals belong to the conversation, also when it is resumed.
    fn count(&mut self, payload: Payload) -> Option<Vec<Reading>> {
        if let Some(limits) = payload.rate_limits {
            let used_up = |window: &Window| window.used_percent >= 100.0;
            let windows = [limits.primary, limits.secondary];
            let resets = windows.into_iter().flatten().filter(used_up);
            self.resets = resets.filter_map(|window| window.resets_at).max();
        }
        let total = payload.info?.total_token_usage;
        Some(vec![Reading::ConversationTotal(Usage {
            input_tokens: total.input_tokens,
            output_tokens: total.output_tokens,
            cost_micros: 0,
        })])
    }

    fn complete(
        &self,
        does: impl Fn(Activity, Option<&str>) -> Reading,
        error: Option<Failure>,
    ) -> Vec<Reading> {
        let detail = error.as_ref().map(|error| error.message.as_str());
        let is_limit =
            |error: &Failure| error.codex_error_info.as_str() == Some("usage_limit_exceeded");
        if !error.as_ref().is_some_and(is_limit) {
            return vec![Reading::TurnEnded, does(Activity::Ready, detail)];
        }
        let at = |seconds: i64| {
            QuotaReset::At(Timestamp::from_micros(seconds.saturating_mul(1_000_000)))
        };
        vec![
            Reading::TurnEnded,
            does(Activity::Blocked, detail),
            Reading::Limited {
                resets: self.resets.map(at),
            },
        ]
    }
}

fn parse(line: &str) -> Option<Payload> {
    let line: Line = serde_json::from_str(line).ok()?;
    Some(line.payload)
}
