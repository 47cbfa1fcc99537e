//! Claude Code's own protocol: JSON lines both ways, permissions by control requests.

mod tool;

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::questions::{Form, Next};
use super::{Answer, Effect, Over, Protocol, Question, Resets, Shown, Ticket, Used, Wants, limit};
use tool::{edits, fields, options, plan, title};

/// The tool by which the model asks people something.
const ASK: &str = "AskUserQuestion";

/// What a permission is asked for.
#[derive(Debug)]
struct Request {
    id: String,
    input: Value,
    /// What would have to be allowed so that it need not ask again.
    suggestions: Value,
}

#[derive(Debug)]
enum Open {
    Permission(Request, Vec<&'static str>),
    Form(Form<Request>),
}

#[derive(Debug, Default)]
pub(crate) struct Claude {
    native: Option<String>,
    turn: Option<Turn>,
    open: BTreeMap<Ticket, Open>,
    tickets: u64,
    /// Messages whose text was shown as it came.
    streamed: HashSet<String>,
    streaming: Option<String>,
    /// When the quota that was told of last is there again.
    resets: Option<Resets>,
    requests: u64,
}

#[derive(Debug, Default)]
struct Turn {
    taken: bool,
    interrupted: bool,
}

impl Claude {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn control(&mut self, request: &Value) -> Effect {
        self.requests += 1;
        let id = format!("skein-{}", self.requests);
        Effect::Send(json!({"type": "control_request", "request_id": id, "request": request}))
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    fn took(&mut self) -> Vec<Effect> {
        match &mut self.turn {
            Some(turn) if !turn.taken => {
                turn.taken = true;
                vec![Effect::Took]
            }
            _ => vec![],
        }
    }

    /// The conversation's name stands on every message; it is told when it is new.
    fn named(&mut self, message: &Value) -> Vec<Effect> {
        match message["session_id"].as_str() {
            Some(id) if self.native.as_deref() != Some(id) => {
                self.native = Some(id.to_owned());
                vec![Effect::Native(id.to_owned())]
            }
            _ => vec![],
        }
    }

    fn stream(&mut self, event: &Value) -> Vec<Effect> {
        let mut out = self.took();
        match event["type"].as_str() {
            Some("message_start") => {
                self.streaming = event["message"]["id"].as_str().map(str::to_owned);
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                let text = |key: &str| delta[key].as_str().unwrap_or_default().to_owned();
                match delta["type"].as_str() {
                    Some("text_delta") => {
                        self.streamed.extend(self.streaming.clone());
                        out.push(Effect::Show(Shown::Say(text("text"))));
                    }
                    Some("thinking_delta") => {
                        out.push(Effect::Show(Shown::Think(text("thinking"))));
                    }
                    _ => {}
                }
            }
            Some("content_block_stop") => out.push(Effect::Show(Shown::Pause)),
            _ => {}
        }
        out
    }

    fn assistant(&mut self, message: &Value) -> Vec<Effect> {
        let mut out = self.took();
        let inner = &message["message"];
        let streamed = inner["id"]
            .as_str()
            .is_some_and(|id| self.streamed.contains(id));
        for block in inner["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") if !streamed => {
                    let text = block["text"].as_str().unwrap_or_default();
                    out.push(Effect::Show(Shown::Say(format!("{text}\n"))));
                }
                Some("tool_use") => out.extend(self.tool(block)),
                _ => {}
            }
        }
        if message["error"] == "rate_limit" {
            let text = inner["content"][0]["text"].as_str().unwrap_or("rate limit");
            let resets = self.resets.take();
            out.push(Effect::Limit {
                text: text.to_owned(),
                resets: resets.or_else(|| limit::resets_in(text).map(Resets::In)),
            });
        }
        out
    }

    fn tool(&self, block: &Value) -> Option<Effect> {
        let name = block["name"].as_str()?;
        if name == "TodoWrite" {
            return Some(Effect::Show(Shown::Plan(plan(&block["input"]))));
        }
        Some(Effect::Show(Shown::Tool {
            id: block["id"].as_str()?.to_owned(),
            title: title(name, &block["input"]),
            name: name.to_owned(),
            input: block["input"].clone(),
        }))
    }

    fn user(&mut self, message: &Value) -> Vec<Effect> {
        // It repeats a prompt when it takes it.
        if message["isReplay"] == true {
            return self.took();
        }
        let blocks = message["message"]["content"].as_array();
        let results = blocks
            .into_iter()
            .flatten()
            .filter(|b| b["type"] == "tool_result");
        results
            .filter_map(|block| {
                let content = &block["content"];
                let text = content.as_str().or_else(|| content[0]["text"].as_str());
                Some(Effect::Show(Shown::ToolDone {
                    id: block["tool_use_id"].as_str()?.to_owned(),
                    title: None,
                    failed: block["is_error"] == true,
                    result: text.unwrap_or_default().to_owned(),
                }))
            })
            .collect()
    }

    fn result(&mut self, result: &Value) -> Vec<Effect> {
        let Some(turn) = self.turn.take() else {
            return vec![];
        };
        self.streamed.clear();
        let usage = &result["usage"];
        let read = [
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ];
        let used = Used {
            input_tokens: Some(read.iter().filter_map(|key| usage[*key].as_u64()).sum()),
            output_tokens: usage["output_tokens"].as_u64(),
            cost_usd: None,
        };
        let total = Used {
            cost_usd: result["total_cost_usd"].as_f64(),
            ..Used::default()
        };
        let failed = result["is_error"] == true;
        let why = result["result"]
            .as_str()
            .or_else(|| result["subtype"].as_str());
        let over = match (failed, turn.interrupted) {
            (false, _) => Over::Done,
            (true, true) => Over::Interrupted,
            (true, false) => Over::Failed(why.unwrap_or("error").replace('_', " ")),
        };
        let mut out = vec![];
        // A turn that failed before anything showed that the prompt was taken does not show it either.
        if !turn.taken && over == Over::Done {
            out.push(Effect::Took);
        }
        if !used.is_nothing() {
            out.push(Effect::Used(used));
        }
        if total.cost_usd.is_some() {
            out.push(Effect::Total(total));
        }
        out.push(Effect::Over(over));
        out
    }

    fn request(&mut self, message: &Value) -> Vec<Effect> {
        let id = message["request_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let request = &message["request"];
        if request["subtype"] != "can_use_tool" {
            let error = json!({"subtype": "error", "request_id": id, "error": "not known here"});
            return vec![Effect::Send(
                json!({"type": "control_response", "response": error}),
            )];
        }
        let name = request["tool_name"].as_str().unwrap_or("a tool").to_owned();
        let asked = Request {
            id,
            input: request["input"].clone(),
            suggestions: request["permission_suggestions"].clone(),
        };
        let ticket = self.ticket();
        let mut out = self.took();
        let form = (name == ASK)
            .then(|| fields(&asked.input))
            .filter(|f| !f.is_empty());
        if let Some(fields) = form {
            let form = Form::new(asked, fields);
            out.extend(form.question(ticket, &form.to.id));
            self.open.insert(ticket, Open::Form(form));
            return out;
        }
        let (kinds, choices) = options(&asked.suggestions);
        out.push(Effect::Ask(Question {
            ticket,
            request: asked.id.clone(),
            text: title(&name, &asked.input),
            options: choices,
            wants: Wants::Permission,
            edits: edits(&name, &asked.input),
        }));
        self.open.insert(ticket, Open::Permission(asked, kinds));
        out
    }

    fn withdraw(&mut self, request: &str) -> Vec<Effect> {
        let is = |open: &Open| match open {
            Open::Permission(asked, _) => asked.id == request,
            Open::Form(form) => form.to.id == request,
        };
        let found = self
            .open
            .iter()
            .find(|(_, open)| is(open))
            .map(|(ticket, _)| *ticket);
        found
            .into_iter()
            .inspect(|ticket| drop(self.open.remove(ticket)))
            .map(Effect::Withdrawn)
            .collect()
    }
}

impl Protocol for Claude {
    fn begin(&mut self) -> Vec<Effect> {
        vec![self.control(&json!({"subtype": "initialize", "hooks": null}))]
    }

    fn hear(&mut self, line: &str) -> Vec<Effect> {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return vec![];
        };
        let mut out = self.named(&message);
        // What helpers of the agent do is part of one tool call.
        if message["parent_tool_use_id"].is_string() {
            return out;
        }
        out.extend(match message["type"].as_str() {
            Some("stream_event") => self.stream(&message["event"]),
            Some("assistant") => self.assistant(&message),
            Some("user") => self.user(&message),
            Some("result") => self.result(&message),
            Some("control_request") => self.request(&message),
            Some("control_cancel_request") => {
                self.withdraw(message["request_id"].as_str().unwrap_or_default())
            }
            // The answer to the first request; whether it knew it does not matter.
            Some("control_response") if message["response"]["request_id"] == "skein-1" => {
                vec![Effect::Ready]
            }
            Some("rate_limit_event") => {
                let told = &message["rate_limit_info"];
                self.resets = told["resetsAt"].as_u64().map(Resets::At);
                vec![]
            }
            Some("system") if message["subtype"] == "api_retry" => {
                vec![Effect::Show(Shown::Note(
                    "the model's server fails; trying again".into(),
                ))]
            }
            _ => vec![],
        });
        out
    }

    fn submit(&mut self, text: &str) -> Vec<Effect> {
        self.turn = Some(Turn::default());
        let content = json!([{"type": "text", "text": text}]);
        let message = json!({"role": "user", "content": content});
        vec![Effect::Send(json!({"type": "user", "message": message}))]
    }

    fn answer(&mut self, ticket: Ticket, answer: &Answer) -> Vec<Effect> {
        match self.open.remove(&ticket) {
            Some(Open::Permission(asked, kinds)) => {
                let chosen = match answer {
                    Answer::Option(index) => kinds.get(*index).copied(),
                    Answer::Text(_) | Answer::Dismissed => None,
                };
                vec![reply(&asked, chosen.unwrap_or("deny"))]
            }
            Some(Open::Form(form)) => match form.answer(answer) {
                Next::Ask(form) => {
                    let ticket = self.ticket();
                    let out = form.question(ticket, &form.to.id).into_iter().collect();
                    self.open.insert(ticket, Open::Form(form));
                    out
                }
                Next::Filled(mut form) => {
                    form.to.input["answers"] = form.answers.iter().cloned().collect::<Value>();
                    vec![reply(&form.to, "allow")]
                }
                Next::Dismissed(asked) => vec![reply(&asked, "deny")],
            },
            None => vec![],
        }
    }

    fn interrupt(&mut self) -> Vec<Effect> {
        if let Some(turn) = &mut self.turn {
            turn.interrupted = true;
        }
        let mut out = vec![self.control(&json!({"subtype": "interrupt"}))];
        for (ticket, open) in std::mem::take(&mut self.open) {
            let asked = match open {
                Open::Permission(asked, _) => asked,
                Open::Form(form) => form.to,
            };
            out.push(reply(&asked, "deny"));
            out.push(Effect::Withdrawn(ticket));
        }
        out
    }
}

/// Allows, allows for the rest of the session, or denies.
fn reply(asked: &Request, how: &str) -> Effect {
    let response = match how {
        "allow" => json!({"behavior": "allow", "updatedInput": asked.input}),
        "always" => json!({
            "behavior": "allow",
            "updatedInput": asked.input,
            "updatedPermissions": tool::for_the_session(&asked.suggestions),
        }),
        _ => json!({"behavior": "deny", "message": "The user does not allow this."}),
    };
    let response = json!({"subtype": "success", "request_id": asked.id, "response": response});
    Effect::Send(json!({"type": "control_response", "response": response}))
}
