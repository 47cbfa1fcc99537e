//! OpenCode's server: requests by HTTP, everything else by its stream of events.

mod part;

use std::collections::HashSet;

use serde_json::{Value, json};

use super::questions::{Answers, OpenQuestions, PermissionRequest, fields};
use super::{
    Answer, Choice, Effect, HttpRequest, Kind, Protocol, QuestionId, Resets, Setting, TurnOutcome,
    UsageAmounts, limit, note, plan,
};
use crate::args::ConversationStart;
use part::Parts;

/// What the server says when it can be called.
const LISTENING: &str = "listening on ";

#[derive(Debug)]
pub(crate) struct OpenCode {
    setting: Setting,
    connected: bool,
    session: Option<String>,
    turn: Option<Turn>,
    /// Prompts that were seen.
    prompts: HashSet<String>,
    parts: Parts,
    /// A form belongs to its request's id.
    questions: OpenQuestions<String>,
}

#[derive(Debug, Default)]
struct Turn {
    taken: bool,
    interrupted: bool,
    failed: Option<String>,
    limited: bool,
}

impl OpenCode {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            setting,
            connected: false,
            session: None,
            turn: None,
            prompts: HashSet::new(),
            parts: Parts::default(),
            questions: OpenQuestions::new(filled),
        }
    }

    /// Opens the conversation; done once events are heard, so that none is missed.
    fn open_session(&self) -> Vec<Effect> {
        vec![match &self.setting.start {
            ConversationStart::New { native: None } => post("open", "/session".into(), json!({})),
            ConversationStart::New { native: Some(id) } => {
                post("open", "/api/session".into(), json!({"id": id}))
            }
            ConversationStart::Resume(id) => get("open", format!("/session/{id}")),
        }]
    }

    fn answered(&mut self, call: &str, status: u64, body: &Value) -> Vec<Effect> {
        let went_well = (200..300).contains(&status);
        match call {
            "open" => self.opened(went_well, body),
            "history" => {
                let mut out = part::history(body, &mut self.prompts);
                out.push(Effect::Ready);
                out
            }
            "prompt" if !went_well => {
                // It was refused, not taken.
                self.turn = None;
                vec![Effect::TurnEnded(TurnOutcome::Failed(error_text(body)))]
            }
            _ if !went_well => {
                let why = error_text(body);
                vec![note(format!("the program did not understand: {why}"))]
            }
            _ => vec![],
        }
    }

    fn opened(&mut self, went_well: bool, body: &Value) -> Vec<Effect> {
        // The newer address wraps what it gives.
        let id = body["id"].as_str().or_else(|| body["data"]["id"].as_str());
        let Some(id) = id.filter(|_| went_well).map(str::to_owned) else {
            return vec![Effect::Stop(format!(
                "no conversation: {}",
                error_text(body)
            ))];
        };
        self.session = Some(id.clone());
        let mut out = vec![Effect::Native(id.clone())];
        match self.setting.start {
            ConversationStart::New { .. } => out.push(Effect::Ready),
            ConversationStart::Resume(_) => {
                out.push(get("history", format!("/session/{id}/message")));
            }
        }
        out
    }

    fn event(&mut self, kind: &str, properties: &Value) -> Vec<Effect> {
        match kind {
            "server.connected" if !self.connected => {
                self.connected = true;
                return self.open_session();
            }
            // Helpers have conversations of their own, and their questions are for people too.
            "permission.asked" => return self.permission(properties).into_iter().collect(),
            "question.asked" => return self.question(properties).into_iter().collect(),
            "permission.replied" | "question.replied" | "question.rejected" => {
                let request = properties["requestID"].as_str().unwrap_or_default();
                return self.questions.withdraw(request);
            }
            _ => {}
        }
        let session = properties["sessionID"].as_str();
        if session.is_none() || session != self.session.as_deref() {
            return vec![];
        }
        match kind {
            "message.updated" => self.message(&properties["info"]),
            "message.part.updated" => self.parts.updated(&properties["part"], &self.prompts),
            "message.part.delta" => self.parts.delta(properties),
            "todo.updated" => vec![Effect::Show(plan(&properties["todos"], "content"))],
            "session.updated" => total(&properties["info"]).into_iter().collect(),
            "session.status" if properties["status"]["type"] == "retry" => {
                self.retry(&properties["status"])
            }
            "session.error" => {
                if let Some(turn) = &mut self.turn {
                    turn.failed = Some(part::error(&properties["error"]));
                }
                vec![]
            }
            "session.idle" => self.idle(),
            _ => vec![],
        }
    }

    /// A prompt that was not there before is the one that was submitted.
    fn message(&mut self, info: &Value) -> Vec<Effect> {
        let id = info["id"].as_str().filter(|_| info["role"] == "user");
        let is_new = id.is_some_and(|id| self.prompts.insert(id.to_owned()));
        let turn = self.turn.as_mut().filter(|_| is_new);
        super::prompt_taken(turn.map(|turn| &mut turn.taken))
    }

    /// After an interrupt it says twice that it is idle, the second time when the next prompt is on its way
    /// already: only a turn that was taken ends.
    fn idle(&mut self) -> Vec<Effect> {
        let Some(turn) = self.turn.take_if(|turn| turn.taken) else {
            return vec![];
        };
        vec![Effect::TurnEnded(match (turn.interrupted, turn.failed) {
            (true, _) => TurnOutcome::Interrupted,
            (false, Some(why)) => TurnOutcome::Failed(why),
            (false, None) => TurnOutcome::Done,
        })]
    }

    fn retry(&mut self, status: &Value) -> Vec<Effect> {
        let text = status["message"]
            .as_str()
            .unwrap_or("the model's server fails")
            .to_owned();
        let lower = text.to_ascii_lowercase();
        let is_limit =
            lower.contains("limit") || lower.contains("quota") || limit::speaks_of_limit(&text);
        match &mut self.turn {
            Some(turn) if is_limit && !turn.limited => {
                turn.limited = true;
                let resets = status["next"].as_u64().map(|ms| Resets::At(ms / 1_000));
                vec![Effect::Limit { text, resets }]
            }
            _ => vec![note(format!("{text}; trying again"))],
        }
    }

    fn permission(&mut self, properties: &Value) -> Option<Effect> {
        let id = properties["id"].as_str()?;
        let reply = |how: &str| {
            let path = format!("/permission/{id}/reply");
            post("reply", path, json!({"reply": how}))
        };
        let option = |name: &str, kind, how| (Choice::new(name, kind), reply(how));
        Some(self.questions.ask(PermissionRequest {
            request: id.to_owned(),
            text: part::question(properties),
            options: vec![
                option("Allow once", Kind::AllowOnce, "once"),
                option("Always allow", Kind::AllowAlways, "always"),
                option("Reject", Kind::RejectOnce, "reject"),
            ],
            refusal: reply("reject"),
            edits: part::edits(properties),
        }))
    }

    fn question(&mut self, properties: &Value) -> Option<Effect> {
        let id = properties["id"].as_str()?.to_owned();
        let fields = fields(properties, "question", |question| {
            question["custom"] != false
        });
        let refusal = post("reply", format!("/question/{id}/reject"), json!({}));
        self.questions.ask_form(id.clone(), id, fields, refusal)
    }

    /// The model as requests want it: `provider/model`.
    fn model(&self) -> Option<Value> {
        let (provider, model) = self.setting.model.as_deref()?.split_once('/')?;
        Some(json!({"providerID": provider, "modelID": model}))
    }
}

impl Protocol for OpenCode {
    fn begin(&mut self) -> Vec<Effect> {
        vec![]
    }

    fn on_message(&mut self, line: &str) -> Vec<Effect> {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            let address = line
                .split_once(LISTENING)
                .map(|(_, address)| address.trim());
            return address
                .map(|address| Effect::Connect(address.to_owned()))
                .into_iter()
                .collect();
        };
        if let Some(call) = message["call"].as_str() {
            return self.answered(
                call,
                message["status"].as_u64().unwrap_or(0),
                &message["body"],
            );
        }
        if let Some(why) = message["closed"].as_str() {
            return vec![Effect::Stop(format!("the program's events ended: {why}"))];
        }
        self.event(
            message["type"].as_str().unwrap_or_default(),
            &message["properties"],
        )
    }

    fn submit(&mut self, text: &str) -> Vec<Effect> {
        self.turn = Some(Turn::default());
        let mut body = json!({"parts": [{"type": "text", "text": text}]});
        if let Some(model) = self.model() {
            body["model"] = model;
        }
        let session = self.session.as_deref().unwrap_or_default();
        vec![post(
            "prompt",
            format!("/session/{session}/prompt_async"),
            body,
        )]
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
        let session = self.session.as_deref().unwrap_or_default();
        let mut out = vec![post(
            "abort",
            format!("/session/{session}/abort"),
            json!({}),
        )];
        out.extend(self.questions.withdraw_all());
        out
    }
}

/// The reply of a form.
fn filled(id: String, answers: Answers) -> Effect {
    let answers: Vec<[String; 1]> = answers.into_iter().map(|(_, text)| [text]).collect();
    let path = format!("/question/{id}/reply");
    post("reply", path, json!({"answers": answers}))
}

fn post(tag: &'static str, path: String, body: Value) -> Effect {
    Effect::Request(HttpRequest {
        tag,
        path,
        body: Some(body),
    })
}

fn get(tag: &'static str, path: String) -> Effect {
    Effect::Request(HttpRequest {
        tag,
        path,
        body: None,
    })
}

/// What a refusal says.
fn error_text(body: &Value) -> String {
    let candidates = [&body["data"]["message"], &body["message"], body];
    let text = candidates.iter().find_map(|value| value.as_str());
    text.map_or_else(|| body.to_string(), str::to_owned)
}

/// The server counts the whole conversation.
fn total(info: &Value) -> Option<Effect> {
    let tokens = &info["tokens"];
    let sum = |values: &[&Value]| values.iter().filter_map(|value| value.as_u64()).sum();
    let used = UsageAmounts {
        input_tokens: Some(sum(&[
            &tokens["input"],
            &tokens["cache"]["read"],
            &tokens["cache"]["write"],
        ])),
        output_tokens: Some(sum(&[&tokens["output"], &tokens["reasoning"]])),
        cost_usd: info["cost"].as_f64(),
    };
    used.total()
}
