//! Claude Code's own protocol: JSON lines both ways, permissions by control requests.

mod tool;

use std::collections::HashSet;

use serde_json::{Value, json};

use super::questions::{Answers, OpenQuestions, PermissionRequest, fields};
use super::{
    Answer, DisplayItem, Effect, Protocol, QuestionId, Resets, TurnOutcome, UsageAmounts, limit,
    list, note, plan, text, titled,
};
use tool::{ABOUT, edits, options};

/// The tool by which the model asks people something.
const ASK: &str = "AskUserQuestion";

/// A call that asks people something.
#[derive(Debug)]
struct Request {
    id: String,
    input: Value,
}

#[derive(Debug)]
pub(crate) struct Claude {
    native: Option<String>,
    turn: Option<Turn>,
    questions: OpenQuestions<Request>,
    /// Messages whose text was shown as it came.
    streamed: HashSet<String>,
    streaming: Option<String>,
    /// When the quota that was reported last is there again.
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
        Self {
            native: None,
            turn: None,
            questions: OpenQuestions::new(filled),
            streamed: HashSet::new(),
            streaming: None,
            resets: None,
            requests: 0,
        }
    }

    fn control(&mut self, request: &Value) -> Effect {
        self.requests += 1;
        let id = format!("skein-{}", self.requests);
        Effect::Send(json!({"type": "control_request", "request_id": id, "request": request}))
    }

    fn prompt_taken(&mut self) -> Vec<Effect> {
        super::prompt_taken(self.turn.as_mut().map(|turn| &mut turn.taken))
    }

    /// Every message has the conversation's id; a new one is reported.
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
        let mut out = self.prompt_taken();
        match event["type"].as_str() {
            Some("message_start") => {
                self.streaming = event["message"]["id"].as_str().map(str::to_owned);
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                match delta["type"].as_str() {
                    Some("text_delta") => {
                        self.streamed.extend(self.streaming.clone());
                        out.push(Effect::Show(DisplayItem::Text(text(&delta["text"]))));
                    }
                    Some("thinking_delta") => {
                        out.push(Effect::Show(DisplayItem::Thinking(text(
                            &delta["thinking"],
                        ))));
                    }
                    _ => {}
                }
            }
            Some("content_block_stop") => out.push(Effect::Show(DisplayItem::TextEnd)),
            _ => {}
        }
        out
    }

    fn assistant(&mut self, message: &Value) -> Vec<Effect> {
        let mut out = self.prompt_taken();
        let inner = &message["message"];
        let streamed = inner["id"]
            .as_str()
            .is_some_and(|id| self.streamed.contains(id));
        for block in list(&inner["content"]) {
            match block["type"].as_str() {
                Some("text") if !streamed => {
                    out.push(Effect::Show(DisplayItem::Text(text(&block["text"]) + "\n")));
                }
                Some("tool_use") => out.extend(tool(block).map(Effect::Show)),
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

    fn user(&mut self, message: &Value) -> Vec<Effect> {
        // It repeats a prompt when it takes it.
        if message["isReplay"] == true {
            return self.prompt_taken();
        }
        list(&message["message"]["content"])
            .filter(|block| block["type"] == "tool_result")
            .filter_map(|block| {
                let content = &block["content"];
                let text = content.as_str().or_else(|| content[0]["text"].as_str());
                Some(Effect::Show(DisplayItem::ToolDone {
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
        let used = UsageAmounts {
            input_tokens: Some(read.iter().filter_map(|key| usage[*key].as_u64()).sum()),
            output_tokens: usage["output_tokens"].as_u64(),
            cost_usd: None,
        };
        let total = UsageAmounts {
            cost_usd: result["total_cost_usd"].as_f64(),
            ..UsageAmounts::default()
        };
        let failed = result["is_error"] == true;
        let why = result["result"]
            .as_str()
            .or_else(|| result["subtype"].as_str());
        let outcome = match (failed, turn.interrupted) {
            (false, _) => TurnOutcome::Done,
            (true, true) => TurnOutcome::Interrupted,
            (true, false) => TurnOutcome::Failed(why.unwrap_or("error").replace('_', " ")),
        };
        let mut out = vec![];
        // A turn that failed before anything showed that the prompt was taken does not show it either.
        if !turn.taken && outcome == TurnOutcome::Done {
            out.push(Effect::PromptTaken);
        }
        if !used.is_nothing() {
            out.push(Effect::UsageDelta(used));
        }
        if total.cost_usd.is_some() {
            out.push(Effect::UsageTotal(total));
        }
        out.push(Effect::TurnEnded(outcome));
        out
    }

    fn request(&mut self, message: &Value) -> Vec<Effect> {
        let id = text(&message["request_id"]);
        let request = &message["request"];
        if request["subtype"] != "can_use_tool" {
            let error = json!({"subtype": "error", "request_id": id, "error": "not known here"});
            return vec![Effect::Send(
                json!({"type": "control_response", "response": error}),
            )];
        }
        let name = request["tool_name"].as_str().unwrap_or("a tool");
        let input = request["input"].clone();
        let refusal = reply(&id, deny());
        let mut out = self.prompt_taken();
        let fields = match name {
            ASK => fields(&input, "question", |_| true),
            _ => vec![],
        };
        if !fields.is_empty() {
            let form = Request {
                id: id.clone(),
                input,
            };
            out.extend(self.questions.ask_form(id, form, fields, refusal));
            return out;
        }
        let options = options(&input, &request["permission_suggestions"]).into_iter();
        out.push(
            self.questions.ask(PermissionRequest {
                text: titled(name, &input, ABOUT),
                options: options
                    .map(|(choice, how)| (choice, reply(&id, how)))
                    .collect(),
                refusal,
                edits: edits(name, &input),
                request: id,
            }),
        );
        out
    }
}

impl Protocol for Claude {
    fn begin(&mut self) -> Vec<Effect> {
        vec![self.control(&json!({"subtype": "initialize", "hooks": null}))]
    }

    fn on_message(&mut self, line: &str) -> Vec<Effect> {
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
            Some("control_cancel_request") => self
                .questions
                .withdraw(message["request_id"].as_str().unwrap_or_default()),
            // The answer to the first request; whether it knew it does not matter.
            Some("control_response") if message["response"]["request_id"] == "skein-1" => {
                vec![Effect::Ready]
            }
            Some("rate_limit_event") => {
                let limit = &message["rate_limit_info"];
                self.resets = limit["resetsAt"].as_u64().map(Resets::At);
                vec![]
            }
            Some("system") if message["subtype"] == "api_retry" => {
                vec![note("the model's server fails; trying again")]
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

    fn answer(&mut self, local_id: QuestionId, answer: &Answer) -> Vec<Effect> {
        self.questions
            .answer(local_id, answer)
            .into_iter()
            .collect()
    }

    fn interrupt(&mut self) -> Vec<Effect> {
        if let Some(turn) = &mut self.turn {
            turn.interrupted = true;
        }
        let mut out = vec![self.control(&json!({"subtype": "interrupt"}))];
        out.extend(self.questions.refuse_all());
        out
    }
}

/// What people see of a call.
fn tool(block: &Value) -> Option<DisplayItem> {
    let (name, input) = (block["name"].as_str()?, &block["input"]);
    if name == "TodoWrite" {
        return Some(plan(&input["todos"], "content"));
    }
    Some(DisplayItem::Tool {
        id: block["id"].as_str()?.to_owned(),
        title: titled(name, input, ABOUT),
        name: name.to_owned(),
        input: input.clone(),
    })
}

fn deny() -> Value {
    json!({"behavior": "deny", "message": "The user does not allow this."})
}

fn filled(mut form: Request, answers: Answers) -> Effect {
    form.input["answers"] = answers.into_iter().collect();
    let how = json!({"behavior": "allow", "updatedInput": form.input});
    reply(&form.id, how)
}

fn reply(id: &str, how: Value) -> Effect {
    let response = json!({"subtype": "success", "request_id": id, "response": how});
    Effect::Send(json!({"type": "control_response", "response": response}))
}
