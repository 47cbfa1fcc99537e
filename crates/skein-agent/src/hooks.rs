//! The events that `scripted` and `custom` agents report by `$SKEIN_BIN hook EVENT`, with the payload on standard
//! input.
//!
//! | event | payload | means |
//! |---|---|---|
//! | `prompt` | `{"text": …}` | it accepted a prompt; a turn begins |
//! | `turn-end` | `{}` | the turn is over |
//! | `ready` | `{}` | it can take its first prompt |
//! | `ask` | `{"text": …, "options": […], "kinds": […], "wants": "permission"\|"choice"\|"text"}` | it asks; kinds are those of [`OptionKind`]; a driver adds the `id` of the request |
//! | `answered` | `{}` | the question is closed |
//! | `usage` | `{"input_tokens": …, "output_tokens": …, "cost_usd": …}` | used since the last call |
//! | `usage-total` | the same, and `"scope": "run"\|"conversation"` | used in all since the launch, or since the conversation began |
//! | `limit` | `{"text": …, "resets_in": seconds}` | a quota is used up |
//! | `native` | `{"id": …}` | its own id of the conversation |
//! | `finished` | `{"failed": …, "reason": …}` | done for good |
//! | `message` | `{"id": …, "role": "user"\|"assistant"\|"tool", "text": …}` | a message of its conversation; see below |
//!
//! All keys but `id` and the `text` of `ask` are optional. An unreadable payload is ignored.
//!
//! A message with an id counts once, however often it is reported; one without counts each time. Instead of `text` it
//! may have `blocks`: `{"type": "text"\|"thinking", "text": …}`, `{"type": "call", "id": …, "name": …, "input": …}`
//! and `{"type": "result", "call": …, "text": …, "failed": …}`. `at` is its time in milliseconds since 1970.

use std::str::FromStr;

use serde_json::Value;
use skein_domain::{Activity, NativeId, OptionKind, Question, Reason, Usage};
use skein_transcript::{Block, Message, MessageId, MessageRole, json};

use crate::agent::{AnswerTarget, QuotaReset, Reading};
use crate::messages;

/// Prefix of ids of messages that were reported without one; each report counts.
pub const UNNAMED: &str = "unnamed-";

/// The readings of a call; none if the event is unknown or the payload invalid.
pub fn read(event: &str, payload: &str) -> Vec<Reading> {
    let payload = match payload.trim() {
        "" => Value::Null,
        text => match json::read(text) {
            Ok(payload) => payload,
            Err(_) => return vec![],
        },
    };
    let text = |key: &str| payload.get(key).and_then(Value::as_str);
    let number = |key: &str| payload.get(key).and_then(Value::as_u64);
    let does = |activity, detail| Reading::does(activity, format!("hook {event}"), detail);
    match event {
        "prompt" => vec![
            Reading::PromptTaken {
                text: text("text").map(str::to_owned),
            },
            does(Activity::Active, None),
        ],
        "turn-end" => vec![Reading::TurnEnded, does(Activity::Ready, None)],
        "ready" => vec![does(Activity::Ready, None)],
        "ask" => match question(&payload) {
            Some((wanted, question)) => vec![
                does(Activity::WaitingInput, None),
                Reading::Wants(wanted),
                Reading::Asks(question),
            ],
            None => vec![does(Activity::WaitingInput, None)],
        },
        "answered" => vec![Reading::AnswerTaken, does(Activity::Active, None)],
        "usage" => vec![Reading::Usage(usage(&payload))],
        "usage-total" => match text("scope") {
            Some("conversation") => vec![Reading::ConversationTotal(usage(&payload))],
            _ => vec![Reading::UsageTotal(usage(&payload))],
        },
        "limit" => vec![
            does(Activity::Blocked, text("text")),
            Reading::Limited {
                resets: number("resets_in")
                    .map(|seconds| QuotaReset::In { seconds })
                    .or_else(|| QuotaReset::in_text(text("text")?)),
            },
        ],
        "native" => text("id")
            .and_then(|id| NativeId::from_str(id).ok())
            .map(Reading::Native)
            .into_iter()
            .collect(),
        "finished" => vec![Reading::Finished {
            failed: payload
                .get("failed")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            reason: text("reason").and_then(|reason| Reason::from_str(reason).ok()),
        }],
        "message" => message(&payload)
            .map(messages::reading)
            .into_iter()
            .collect(),
        _ => vec![],
    }
}

fn message(payload: &Value) -> Option<Message> {
    let role = match payload["role"].as_str()? {
        "user" => MessageRole::User,
        "assistant" => MessageRole::Assistant,
        "tool" => MessageRole::Tool,
        _ => return None,
    };
    let id = match payload["id"].as_str() {
        Some(id) => MessageId::from_str(id).ok()?,
        None => messages::id(&format!(
            "{UNNAMED}{}",
            messages::hashed("m", &[&payload.to_string()])
        )),
    };
    let text = payload["text"].as_str().and_then(messages::text);
    let blocks = payload["blocks"].as_array().into_iter().flatten();
    let blocks = text.into_iter().chain(blocks.filter_map(block));
    messages::message(
        id,
        role,
        blocks,
        messages::at_millis(payload["at"].as_u64()),
    )
}

fn block(block: &Value) -> Option<Block> {
    let text = |key: &str| block[key].as_str().unwrap_or_default();
    match block["type"].as_str()? {
        "text" => messages::text(text("text")),
        "thinking" => messages::thinking(text("text"), None),
        "call" => {
            let input = block.get("input").cloned().unwrap_or_default();
            Some(messages::call(block["id"].as_str()?, text("name"), input))
        }
        "result" => {
            let content = vec![messages::part(text("text"))];
            let failed = block["failed"] == true;
            Some(messages::result(block["call"].as_str()?, content, failed))
        }
        _ => None,
    }
}

fn usage(payload: &Value) -> Usage {
    let number = |key: &str| payload.get(key).and_then(Value::as_u64).unwrap_or(0);
    let cost = payload.get("cost_usd").map(ToString::to_string);
    Usage {
        input_tokens: number("input_tokens"),
        output_tokens: number("output_tokens"),
        cost_micros: cost.and_then(|cost| micros(&cost)).unwrap_or(0),
    }
}

fn question(payload: &Value) -> Option<(AnswerTarget, Question)> {
    let text = Reason::from_str(payload.get("text")?.as_str()?).ok()?;
    let listed = |key: &str| payload[key].as_array().into_iter().flatten();
    let options: Vec<Reason> = listed("options")
        .filter_map(|option| Reason::from_str(option.as_str()?).ok())
        .collect();
    let wanted = match payload.get("wants").and_then(Value::as_str) {
        Some("permission") => AnswerTarget::Permission,
        Some("choice") => AnswerTarget::Choice,
        Some("text") => AnswerTarget::Text,
        _ if options.is_empty() => AnswerTarget::Text,
        _ => AnswerTarget::Choice,
    };
    let kind = |kind: &Value| OptionKind::parse(kind.as_str()?);
    let mut kinds: Vec<OptionKind> = listed("kinds")
        .map(|value| kind(value).unwrap_or(OptionKind::Other))
        .collect();
    // A list of another length says nothing about any option.
    if kinds.len() != options.len() {
        kinds.clear();
    }
    let question = Question {
        text,
        options,
        kinds,
        id: payload["id"].as_str().and_then(|id| id.parse().ok()),
    };
    Some((wanted, question))
}

/// Dollars in millionths, rounded: `0.25` is 250,000. None for an invalid amount.
pub(crate) fn micros(dollars: &str) -> Option<u64> {
    let written = |b: u8| b.is_ascii_digit() || b".eE-".contains(&b);
    let text = dollars.trim();
    let dollars: f64 = text.bytes().all(written).then(|| text.parse().ok())??;
    let micros = format!("{dollars:.6}").replace('.', "");
    micros.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_say_what_the_table_says() {
        let says = |event: &str, payload: &str| read(event, payload);
        assert_eq!(
            says("prompt", r#"{"text":"do it"}"#)[0],
            Reading::PromptTaken {
                text: Some("do it".into())
            }
        );
        assert_eq!(says("turn-end", "{}")[0], Reading::TurnEnded);
        assert_eq!(says("turn-end", "")[0], Reading::TurnEnded);
        assert_eq!(says("answered", "{}")[0], Reading::AnswerTaken);
        assert_eq!(
            says("ask", r#"{"text":"a?","options":["yes","no"]}"#)[1..],
            [
                Reading::Wants(AnswerTarget::Choice),
                Reading::Asks(Question {
                    text: "a?".parse().unwrap(),
                    options: vec!["yes".parse().unwrap(), "no".parse().unwrap()],
                    kinds: vec![],
                    id: None,
                }),
            ]
        );
        assert_eq!(
            says(
                "usage",
                r#"{"input_tokens":1,"output_tokens":2,"cost_usd":0.25}"#
            ),
            [Reading::Usage(Usage {
                input_tokens: 1,
                output_tokens: 2,
                cost_micros: 250_000
            })]
        );
        assert_eq!(
            says("native", r#"{"id":"x-1"}"#),
            [Reading::Native("x-1".parse().unwrap())]
        );
        assert_eq!(
            says("finished", r#"{"failed":true,"reason":"no"}"#),
            [Reading::Finished {
                failed: true,
                reason: Some("no".parse().unwrap())
            }]
        );
        assert_eq!(
            says("limit", r#"{"resets_in":5}"#)[1],
            Reading::Limited {
                resets: Some(QuotaReset::In { seconds: 5 })
            }
        );
    }

    #[test]
    fn messages_have_a_role_and_words_or_blocks() {
        let message = |payload: &str| match &read("message", payload)[..] {
            [Reading::Message(message)] => (**message).clone(),
            other => panic!("{other:?}"),
        };
        let plain = message(r#"{"id":"m1","role":"user","text":"do it","at":5}"#);
        let at = skein_domain::Timestamp::from_micros(5_000);
        let words = vec![Block::Text("do it".into())];
        assert_eq!(
            plain,
            Message::new("m1".parse().unwrap(), MessageRole::User, words, at)
        );
        let tool = message(
            r#"{"role":"tool","blocks":[{"type":"result","call":"c1","text":"no","failed":true},{"type":"?"}]}"#,
        );
        assert_eq!(tool.results().count(), 1);
        assert!(tool.id.as_str().starts_with(UNNAMED));
    }

    #[test]
    fn l13_a_message_of_any_depth_is_read() {
        let deep = format!("{}{}", "[".repeat(9_000), "]".repeat(9_000));
        let payload = format!(
            r#"{{"id":"m","role":"assistant","blocks":[{{"type":"call","id":"c","name":"x","input":{deep}}}]}}"#
        );
        let [Reading::Message(message)] = &read("message", &payload)[..] else {
            panic!("it says nothing");
        };
        let input = message.calls().next().unwrap().input.to_string();
        assert!(input.contains(json::OMITTED), "{input}");
    }

    #[test]
    fn l13_what_cannot_be_read_says_nothing() {
        for (event, payload) in [
            ("message", r#"{"role":"king","text":"a"}"#),
            ("message", r#"{"role":"user","text":" "}"#),
            ("message", r#"{"id":"a b","role":"user","text":"a"}"#),
            ("native", r#"{"id":"--evil"}"#),
            ("native", "{}"),
            ("prompt", "not json"),
            ("nonsense", "{}"),
        ] {
            assert_eq!(read(event, payload), [], "{event} {payload}");
        }
    }

    #[test]
    fn dollars_become_the_nearest_millionths() {
        for (dollars, expected) in [
            ("0.25", Some(250_000)),
            ("3", Some(3_000_000)),
            ("0.1234567", Some(123_457)),
            ("0.025199999999999997", Some(25_200)),
            ("3e-5", Some(30)),
            (".5", Some(500_000)),
            ("-1", None),
            ("", None),
            ("inf", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(micros(dollars), expected, "{dollars}");
        }
    }
}
