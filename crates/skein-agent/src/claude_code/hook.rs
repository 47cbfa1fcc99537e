//! Reads Claude Code's hooks.
//!
//! Their payloads contain `session_id`, `transcript_path` and the event's own fields.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use skein_domain::{Activity, NativeId, Usage};

use super::transcript;
use crate::agent::Reading;
use crate::hooks::micros;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Payload {
    session_id: Option<String>,
    transcript_path: Option<PathBuf>,
    agent_id: Option<String>,
    prompt: Option<String>,
    error: Option<String>,
    last_assistant_message: Option<String>,
    cost: Option<Cost>,
}

#[derive(Debug, Deserialize)]
struct Cost {
    total_cost_usd: serde_json::Number,
}

pub(super) fn read(event: &str, payload: &str) -> Vec<Reading> {
    let Ok(payload) = serde_json::from_str::<Payload>(payload) else {
        return vec![];
    };
    match event {
        "SessionStart" | "UserPromptSubmit" => {
            let text = payload.prompt.clone();
            let taken = (event == "UserPromptSubmit").then_some(Reading::PromptTaken { text });
            let found = [native(&payload), watch(&payload), taken];
            found.into_iter().flatten().collect()
        }
        "SubagentStart" => watch_below(&payload).into_iter().collect(),
        "StopFailure" => failure(&payload),
        "StatusLine" => cost(&payload).into_iter().collect(),
        _ => vec![],
    }
}

fn native(payload: &Payload) -> Option<Reading> {
    let id = payload.session_id.as_deref()?;
    NativeId::from_str(id).ok().map(Reading::Native)
}

fn watch(payload: &Payload) -> Option<Reading> {
    let path = payload.transcript_path.clone()?;
    path.is_absolute()
        .then(|| Reading::Watch(transcript::source(path)))
}

/// Only the sub-agent's own file contains its usage.
fn watch_below(payload: &Payload) -> Option<Reading> {
    let path = payload.transcript_path.as_deref()?;
    let agent = payload.agent_id.as_deref()?;
    let plain = agent
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    (path.is_absolute() && plain)
        .then(|| Reading::Watch(transcript::source(transcript::below(path, agent))))
}

/// A turn that ended with an error. An error that only time or a person can fix blocks the agent; after any other
/// error it can continue.
fn failure(payload: &Payload) -> Vec<Reading> {
    let text = payload.last_assistant_message.clone().unwrap_or_default();
    // Too frequent requests cause the same error, but have no end to wait for.
    let limited = text.to_lowercase().contains("limit") && !text.starts_with("API Error");
    let blocked = Reading::does(Activity::Blocked, "hook StopFailure", Some(&text));
    match payload.error.as_deref() {
        Some("rate_limit") if limited => vec![blocked, Reading::limited(&text)],
        Some("authentication_failed" | "oauth_org_not_allowed" | "billing_error") => vec![blocked],
        _ => vec![Reading::TurnEnded],
    }
}

/// A resumed conversation continues with its former sum.
fn cost(payload: &Payload) -> Option<Reading> {
    let dollars = payload.cost.as_ref()?.total_cost_usd.to_string();
    Some(Reading::ConversationTotal(Usage {
        cost_micros: micros(&dollars)?,
        ..Usage::default()
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::agent::QuotaReset;

    #[test]
    fn hooks_name_the_conversation_and_where_it_is_written() {
        let payload = r#"{"session_id":"a-1","transcript_path":"/h/a-1.jsonl","prompt":"do it"}"#;
        let readings = read("UserPromptSubmit", payload);
        assert_eq!(readings[0], Reading::Native("a-1".parse().unwrap()));
        assert!(matches!(&readings[1], Reading::Watch(s) if s.path == Path::new("/h/a-1.jsonl")));
        assert_eq!(
            readings[2],
            Reading::PromptTaken {
                text: Some("do it".into())
            }
        );
        assert_eq!(read("SessionStart", payload), readings[..2]);
        assert_eq!(read("SessionStart", r#"{"transcript_path":"x"}"#), []);
    }

    #[test]
    fn a_helper_is_counted_by_its_own_transcript() {
        let payload = |id: &str| {
            format!(r#"{{"session_id":"a-1","transcript_path":"/h/a-1.jsonl","agent_id":"{id}"}}"#)
        };
        let path = PathBuf::from("/h/a-1/subagents/agent-ae79.jsonl");
        assert_eq!(
            read("SubagentStart", &payload("ae79")),
            [Reading::Watch(transcript::source(path))]
        );
        assert_eq!(read("SubagentStart", &payload("../ae79")), []);
    }

    #[test]
    fn a_limit_blocks_and_says_until_when_and_other_errors_end_the_turn() {
        let said = "You've hit your 5-hour limit · resets 4:30am (UTC)";
        let payload = format!(r#"{{"error":"rate_limit","last_assistant_message":"{said}"}}"#);
        assert_eq!(
            read("StopFailure", &payload),
            [
                Reading::Activity {
                    activity: Activity::Blocked,
                    rule: "hook StopFailure".into(),
                    detail: Some(said.into()),
                },
                Reading::Limited {
                    resets: Some(QuotaReset::Text("resets 4:30am (UTC)".into()))
                },
            ]
        );
        let untold = r#"{"error":"rate_limit","last_assistant_message":"You've hit your limit"}"#;
        let limited = Reading::Limited { resets: None };
        assert_eq!(read("StopFailure", untold).last(), Some(&limited));
        for error in [
            r#"{"error":"rate_limit","last_assistant_message":"API Error: Request rejected (429)"}"#,
            r#"{"error":"rate_limit","last_assistant_message":"API Error: 429 your account's rate limit"}"#,
            r#"{"error":"server_error","last_assistant_message":"API Error: 529"}"#,
            "{}",
        ] {
            assert_eq!(read("StopFailure", error), [Reading::TurnEnded], "{error}");
        }
    }

    #[test]
    fn the_status_line_tells_what_the_conversation_cost() {
        let payload = r#"{"cost":{"total_cost_usd":0.005600000000000001,"total_duration_ms":1}}"#;
        let usage = Usage {
            cost_micros: 5_600,
            ..Usage::default()
        };
        assert_eq!(
            read("StatusLine", payload),
            [Reading::ConversationTotal(usage)]
        );
        assert_eq!(read("StatusLine", "{}"), []);
    }
}
