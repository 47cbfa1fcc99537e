//! Failures and limits, in each protocol's form.

use serde_json::{Value, json};

use super::Protocol;
use crate::model_server::reply::{Rendered, What};

/// The answer, if it is a failure.
pub(super) fn failure(protocol: Protocol, what: &What, now: u64) -> Option<Rendered> {
    match what {
        What::Error { status, message } => Some(error(protocol, *status, message)),
        What::RateLimit { seconds } => Some(limit(protocol, *seconds, now)),
        What::Parts { .. } => None,
    }
}

pub(super) fn error(protocol: Protocol, status: u16, message: &str) -> Rendered {
    let body = match protocol {
        Protocol::Anthropic => anthropic(anthropic_type(status), message),
        Protocol::Gemini => {
            json!({ "error": { "code": status, "message": message, "status": gemini_status(status) } })
        }
        Protocol::Responses | Protocol::Chat | Protocol::Other => json!({
            "error": {
                "message": message,
                "type": if status < 500 { "invalid_request_error" } else { "server_error" },
                "param": null,
                "code": null,
            },
        }),
    };
    Rendered::json(status, &body)
}

fn limit(protocol: Protocol, seconds: u64, now: u64) -> Rendered {
    let resets = now.saturating_add(seconds);
    let (body, headers) = match protocol {
        Protocol::Anthropic => anthropic_limit(seconds, resets),
        Protocol::Responses => codex_limit(seconds, resets),
        Protocol::Chat | Protocol::Other => chat_limit(seconds),
        Protocol::Gemini => (gemini_limit(seconds), vec![]),
    };
    Rendered::json(429, &body)
        .with(headers)
        .with(vec![("retry-after", seconds.to_string())])
}

type Limit = (Value, Vec<(&'static str, String)>);

fn anthropic(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

/// As for a plan whose five hours are used up, the most common limit.
fn anthropic_limit(seconds: u64, resets: u64) -> Limit {
    let message = format!(
        "This request would exceed your account's rate limit. Please try again in {seconds} seconds."
    );
    let headers = vec![
        ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-reset", resets.to_string()),
        (
            "anthropic-ratelimit-unified-representative-claim",
            "five_hour".to_owned(),
        ),
        (
            "anthropic-ratelimit-unified-5h-status",
            "rejected".to_owned(),
        ),
        (
            "anthropic-ratelimit-unified-5h-utilization",
            "1.0".to_owned(),
        ),
        ("anthropic-ratelimit-unified-5h-reset", resets.to_string()),
        ("anthropic-ratelimit-requests-limit", "50".to_owned()),
        ("anthropic-ratelimit-requests-remaining", "0".to_owned()),
    ];
    (anthropic("rate_limit_error", &message), headers)
}

fn codex_limit(seconds: u64, resets: u64) -> Limit {
    let body = json!({
        "error": {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "pro",
            "resets_at": resets,
            "resets_in_seconds": seconds,
        },
    });
    let headers = vec![
        ("x-codex-primary-used-percent", "100.0".to_owned()),
        ("x-codex-primary-window-minutes", "300".to_owned()),
        ("x-codex-primary-reset-at", resets.to_string()),
    ];
    (body, headers)
}

fn chat_limit(seconds: u64) -> Limit {
    let body = json!({
        "error": {
            "message": format!("Rate limit reached for requests. Please try again in {seconds}s."),
            "type": "requests",
            "param": null,
            "code": "rate_limit_exceeded",
        },
    });
    let headers = vec![
        ("x-ratelimit-limit-requests", "50".to_owned()),
        ("x-ratelimit-remaining-requests", "0".to_owned()),
        ("x-ratelimit-reset-requests", format!("{seconds}s")),
    ];
    (body, headers)
}

fn gemini_limit(seconds: u64) -> Value {
    json!({
        "error": {
            "code": 429,
            "message": format!(
                "You exceeded your current quota, please check your plan and billing details. Please retry in {seconds}s."
            ),
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [{
                        "quotaMetric": "generativelanguage.googleapis.com/generate_requests",
                        "quotaId": "GenerateRequestsPerMinutePerProjectPerModel",
                    }],
                },
                {
                    "@type": "type.googleapis.com/google.rpc.RetryInfo",
                    "retryDelay": format!("{seconds}s"),
                },
            ],
        },
    })
}

fn gemini_status(status: u16) -> &'static str {
    match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ if status < 500 => "FAILED_PRECONDITION",
        _ => "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_server::reply::data;

    fn limited(protocol: Protocol) -> (Value, Rendered) {
        let limit = failure(protocol, &What::RateLimit { seconds: 60 }, 1000).unwrap();
        assert_eq!(limit.status, 429);
        assert!(limit.headers.contains(&("retry-after", "60".into())));
        (data(&limit).remove(0), limit)
    }

    #[test]
    fn each_protocol_tells_when_a_limit_ends() {
        let (body, limit) = limited(Protocol::Anthropic);
        assert_eq!(body["error"]["type"], "rate_limit_error");
        let reset = ("anthropic-ratelimit-unified-reset", "1060".to_owned());
        assert!(limit.headers.contains(&reset));
        let (body, _) = limited(Protocol::Responses);
        assert_eq!(body["error"]["type"], "usage_limit_reached");
        assert_eq!(body["error"]["resets_at"], 1060);
        let (body, limit) = limited(Protocol::Chat);
        assert_eq!(body["error"]["code"], "rate_limit_exceeded");
        assert!(
            limit
                .headers
                .contains(&("x-ratelimit-reset-requests", "60s".into()))
        );
        let (body, _) = limited(Protocol::Gemini);
        assert_eq!(body["error"]["details"][1]["retryDelay"], "60s");
    }

    #[test]
    fn an_error_has_the_name_that_its_protocol_gives_it() {
        for (protocol, status, pointer, name) in [
            (Protocol::Anthropic, 529, "/error/type", "overloaded_error"),
            (
                Protocol::Anthropic,
                418,
                "/error/type",
                "invalid_request_error",
            ),
            (Protocol::Chat, 500, "/error/type", "server_error"),
            (
                Protocol::Responses,
                400,
                "/error/type",
                "invalid_request_error",
            ),
            (Protocol::Gemini, 503, "/error/status", "UNAVAILABLE"),
        ] {
            let body = data(&error(protocol, status, "no")).remove(0);
            assert_eq!(body.pointer(pointer), Some(&json!(name)));
            assert_eq!(body["error"]["message"], "no");
        }
    }
}
