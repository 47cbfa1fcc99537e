//! The same things, said in four ways.

use serde_json::{Value, json};
use skein_model_server::{Protocol, Server};

use crate::client::{Answer, ask};

/// The forms in which the four protocols put the same things.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) protocol: Protocol,
    pub(crate) path: &'static str,
    pub(crate) shell: &'static str,
    pub(crate) request: fn(Value, &[&str]) -> Value,
    pub(crate) user: fn(&str) -> Value,
    /// A call and its result.
    pub(crate) result: fn() -> Vec<Value>,
    /// Text, calls and usage of a stream.
    pub(crate) read: fn(&[Value]) -> Said,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) text: String,
    /// Name and arguments.
    pub(crate) calls: Vec<(String, Value)>,
    pub(crate) usage: (u64, u64),
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

pub(crate) const DIALECTS: [Dialect; 4] = [
    Dialect {
        protocol: Protocol::Anthropic,
        path: "/v1/messages?beta=true",
        shell: "Bash",
        request: |messages, tools| {
            let tools: Vec<Value> = tools.iter().map(|name| json!({ "name": name })).collect();
            json!({ "model": "m", "stream": true, "messages": messages, "tools": tools })
        },
        user: |text| {
            let reminder =
                json!({ "type": "text", "text": "<system-reminder>[[say no]]</system-reminder>" });
            json!({ "role": "user", "content": [{ "type": "text", "text": text }, reminder] })
        },
        result: || {
            vec![
                json!({ "role": "assistant", "content": [{ "type": "tool_use" }] }),
                json!({ "role": "user", "content": [{ "type": "tool_result" }] }),
            ]
        },
        read: |events| {
            let mut said = Said::default();
            for event in events {
                match event["type"].as_str() {
                    Some("message_start") => {
                        said.usage.0 = number(&event["message"]["usage"]["input_tokens"]);
                    }
                    Some("content_block_start") if event["content_block"]["type"] == "tool_use" => {
                        said.calls
                            .push((text(&event["content_block"]["name"]), Value::Null));
                    }
                    Some("content_block_delta") => {
                        said.text.push_str(&text(&event["delta"]["text"]));
                        if let Some(part) = event["delta"]["partial_json"].as_str() {
                            said.calls.last_mut().unwrap().1 = serde_json::from_str(part).unwrap();
                        }
                    }
                    Some("message_delta") => {
                        said.usage.1 = number(&event["usage"]["output_tokens"]);
                        let reason = if said.calls.is_empty() {
                            "end_turn"
                        } else {
                            "tool_use"
                        };
                        assert_eq!(event["delta"]["stop_reason"], reason);
                    }
                    _ => {}
                }
            }
            said
        },
    },
    Dialect {
        protocol: Protocol::Responses,
        path: "/v1/responses",
        shell: "exec_command",
        request: |input, tools| {
            let tools: Vec<Value> = tools
                .iter()
                .map(|name| json!({ "type": "function", "name": name }))
                .collect();
            json!({ "model": "m", "stream": true, "input": input, "tools": tools })
        },
        user: |text| json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] }),
        result: || {
            vec![
                json!({ "type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}" }),
                json!({ "type": "function_call_output", "call_id": "c", "output": "" }),
            ]
        },
        read: |events| {
            let mut said = Said::default();
            for event in events {
                match event["type"].as_str() {
                    Some("response.output_text.delta") => {
                        said.text.push_str(&text(&event["delta"]))
                    }
                    Some("response.output_item.done")
                        if event["item"]["type"] == "function_call" =>
                    {
                        let arguments = text(&event["item"]["arguments"]);
                        said.calls.push((
                            text(&event["item"]["name"]),
                            serde_json::from_str(&arguments).unwrap(),
                        ));
                    }
                    Some("response.completed") => {
                        let usage = &event["response"]["usage"];
                        said.usage = (
                            number(&usage["input_tokens"]),
                            number(&usage["output_tokens"]),
                        );
                    }
                    _ => {}
                }
            }
            said
        },
    },
    Dialect {
        protocol: Protocol::Chat,
        path: "/v1/chat/completions",
        shell: "bash",
        request: |messages, tools| {
            let tools: Vec<Value> = tools
                .iter()
                .map(|name| json!({ "type": "function", "function": { "name": name } }))
                .collect();
            json!({ "model": "m", "stream": true, "messages": messages, "tools": tools })
        },
        user: |text| json!({ "role": "user", "content": text }),
        result: || {
            vec![
                json!({ "role": "assistant", "tool_calls": [{}] }),
                json!({ "role": "tool", "content": "" }),
            ]
        },
        read: |events| {
            let mut said = Said::default();
            for event in events {
                let delta = &event["choices"][0]["delta"];
                said.text.push_str(&text(&delta["content"]));
                for call in delta["tool_calls"].as_array().into_iter().flatten() {
                    let function = &call["function"];
                    said.calls.push((
                        text(&function["name"]),
                        serde_json::from_str(&text(&function["arguments"])).unwrap(),
                    ));
                }
                if event["usage"].is_object() {
                    let usage = &event["usage"];
                    said.usage = (
                        number(&usage["prompt_tokens"]),
                        number(&usage["completion_tokens"]),
                    );
                }
            }
            said
        },
    },
    Dialect {
        protocol: Protocol::Gemini,
        path: "/v1beta/models/m:streamGenerateContent?alt=sse",
        shell: "run_shell_command",
        request: |contents, tools| {
            let tools: Vec<Value> = tools.iter().map(|name| json!({ "name": name })).collect();
            json!({ "contents": contents, "tools": [{ "functionDeclarations": tools }] })
        },
        user: |text| json!({ "role": "user", "parts": [{ "text": text }] }),
        result: || {
            vec![
                json!({ "role": "model", "parts": [{ "functionCall": {} }] }),
                json!({ "role": "user", "parts": [{ "functionResponse": {} }] }),
            ]
        },
        read: |events| {
            let mut said = Said::default();
            for event in events {
                for part in event["candidates"][0]["content"]["parts"]
                    .as_array()
                    .unwrap()
                {
                    said.text.push_str(&text(&part["text"]));
                    if part["functionCall"].is_object() {
                        let call = &part["functionCall"];
                        said.calls.push((text(&call["name"]), call["args"].clone()));
                    }
                }
                if event["usageMetadata"].is_object() {
                    let usage = &event["usageMetadata"];
                    said.usage = (
                        number(&usage["promptTokenCount"]),
                        number(&usage["candidatesTokenCount"]),
                    );
                }
            }
            said
        },
    },
];

impl Dialect {
    /// Asks with this past; the user's text comes first, results behind it.
    pub(crate) async fn ask(self, server: &Server, prompt: &str, results: usize) -> Answer {
        let mut past = vec![(self.user)(prompt)];
        for _ in 0..results {
            past.extend((self.result)());
        }
        let body = (self.request)(past.into(), &["Other", self.shell]);
        ask(server, self.path, &body).await
    }

    pub(crate) async fn said(self, server: &Server, prompt: &str, results: usize) -> Said {
        let answer = self.ask(server, prompt, results).await;
        assert_eq!(answer.status, 200, "{self:?}");
        assert!(answer.whole, "{self:?}");
        (self.read)(&answer.events())
    }
}
