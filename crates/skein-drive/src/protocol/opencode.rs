//! OpenCode's server: requests by HTTP, everything else by its stream of events.

mod part;

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::questions::{Field, Form, Next};
use super::{
    Answer, Call, Choice, Effect, Kind, Over, Protocol, Question, Resets, Setting, Shown, Ticket,
    Used, Wants, limit,
};
use crate::args::Begin;
use part::Parts;

/// What the server says when it can be called.
const LISTENING: &str = "listening on ";

#[derive(Debug)]
enum Open {
    /// The request's id.
    Permission(String),
    Form(Form<String>),
}

#[derive(Debug)]
pub(crate) struct OpenCode {
    setting: Setting,
    connected: bool,
    session: Option<String>,
    turn: Option<Turn>,
    /// Prompts that were seen.
    prompts: HashSet<String>,
    parts: Parts,
    open: BTreeMap<Ticket, Open>,
    tickets: u64,
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
            open: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// Opens the conversation; done once events are heard, so that none is missed.
    fn open_session(&self) -> Vec<Effect> {
        vec![match &self.setting.begin {
            Begin::New { native: None } => post("open", "/session".into(), json!({})),
            Begin::New { native: Some(id) } => {
                post("open", "/api/session".into(), json!({"id": id}))
            }
            Begin::Resume(id) => get("open", format!("/session/{id}")),
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
                vec![Effect::Over(Over::Failed(told(body)))]
            }
            _ if !went_well => {
                let note = format!("the program did not understand: {}", told(body));
                vec![Effect::Show(Shown::Note(note))]
            }
            _ => vec![],
        }
    }

    fn opened(&mut self, went_well: bool, body: &Value) -> Vec<Effect> {
        // The newer address wraps what it gives.
        let id = body["id"].as_str().or_else(|| body["data"]["id"].as_str());
        let Some(id) = id.filter(|_| went_well).map(str::to_owned) else {
            return vec![Effect::Stop(format!("no conversation: {}", told(body)))];
        };
        self.session = Some(id.clone());
        let mut out = vec![Effect::Native(id.clone())];
        match self.setting.begin {
            Begin::New { .. } => out.push(Effect::Ready),
            Begin::Resume(_) => {
                out.push(get("history", format!("/session/{id}/message")));
            }
        }
        out
    }

    fn event(&mut self, kind: &str, told: &Value) -> Vec<Effect> {
        match kind {
            "server.connected" if !self.connected => {
                self.connected = true;
                return self.open_session();
            }
            // Helpers have conversations of their own, and their questions are for people too.
            "permission.asked" => return self.permission(told),
            "question.asked" => return self.question(told),
            "permission.replied" | "question.replied" | "question.rejected" => {
                return self.settled(told["requestID"].as_str().unwrap_or_default());
            }
            _ => {}
        }
        let session = told["sessionID"].as_str();
        if session.is_none() || session != self.session.as_deref() {
            return vec![];
        }
        match kind {
            "message.updated" => self.message(&told["info"]),
            "message.part.updated" => self.parts.updated(&told["part"], &self.prompts),
            "message.part.delta" => self.parts.delta(told),
            "todo.updated" => vec![Effect::Show(Shown::Plan(part::plan(&told["todos"])))],
            "session.updated" => total(&told["info"]).into_iter().collect(),
            "session.status" if told["status"]["type"] == "retry" => self.retry(&told["status"]),
            "session.error" => {
                if let Some(turn) = &mut self.turn {
                    turn.failed = Some(part::error(&told["error"]));
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
        match &mut self.turn {
            Some(turn) if is_new && !turn.taken => {
                turn.taken = true;
                vec![Effect::Took]
            }
            _ => vec![],
        }
    }

    /// After an interrupt it says twice that it is idle, the second time when the next prompt is on its way
    /// already: only a turn that was taken ends.
    fn idle(&mut self) -> Vec<Effect> {
        let Some(turn) = self.turn.take_if(|turn| turn.taken) else {
            return vec![];
        };
        vec![Effect::Over(match (turn.interrupted, turn.failed) {
            (true, _) => Over::Interrupted,
            (false, Some(why)) => Over::Failed(why),
            (false, None) => Over::Done,
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
            _ => vec![Effect::Show(Shown::Note(format!("{text}; trying again")))],
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    fn permission(&mut self, told: &Value) -> Vec<Effect> {
        let Some(id) = told["id"].as_str() else {
            return vec![];
        };
        let ticket = self.ticket();
        self.open.insert(ticket, Open::Permission(id.to_owned()));
        let option = |name: &str, kind| Choice {
            name: name.into(),
            kind,
        };
        vec![Effect::Ask(Question {
            ticket,
            request: id.to_owned(),
            text: part::question(told),
            options: vec![
                option("Allow once", Kind::AllowOnce),
                option("Always allow", Kind::AllowAlways),
                option("Reject", Kind::RejectOnce),
            ],
            wants: Wants::Permission,
            edits: part::edits(told),
        })]
    }

    fn question(&mut self, told: &Value) -> Vec<Effect> {
        let Some(id) = told["id"].as_str() else {
            return vec![];
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let questions = told["questions"].as_array().into_iter().flatten();
        let fields = questions.map(|question| Field {
            key: text(&question["question"]),
            text: text(&question["question"]),
            options: question["options"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|option| text(&option["label"]))
                .collect(),
            free: question["custom"] != false,
        });
        let form = Form::new(id.to_owned(), fields.collect());
        self.ask(form)
    }

    fn ask(&mut self, form: Form<String>) -> Vec<Effect> {
        let ticket = self.ticket();
        let out = form.question(ticket, &form.to).into_iter().collect();
        self.open.insert(ticket, Open::Form(form));
        out
    }

    fn settled(&mut self, request: &str) -> Vec<Effect> {
        let is = |open: &Open| match open {
            Open::Permission(id) => id == request,
            Open::Form(form) => form.to == request,
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

    fn hear(&mut self, line: &str) -> Vec<Effect> {
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

    fn answer(&mut self, ticket: Ticket, answer: &Answer) -> Vec<Effect> {
        match self.open.remove(&ticket) {
            Some(Open::Permission(id)) => {
                let reply = match answer {
                    Answer::Option(0) => "once",
                    Answer::Option(1) => "always",
                    Answer::Option(_) | Answer::Text(_) | Answer::Dismissed => "reject",
                };
                vec![post(
                    "reply",
                    format!("/permission/{id}/reply"),
                    json!({"reply": reply}),
                )]
            }
            Some(Open::Form(form)) => match form.answer(answer) {
                Next::Ask(form) => self.ask(form),
                Next::Filled(form) => {
                    let answers: Vec<[&str; 1]> = form
                        .answers
                        .iter()
                        .map(|(_, text)| [text.as_str()])
                        .collect();
                    let path = format!("/question/{}/reply", form.to);
                    vec![post("reply", path, json!({"answers": answers}))]
                }
                Next::Dismissed(id) => {
                    vec![post("reply", format!("/question/{id}/reject"), json!({}))]
                }
            },
            None => vec![],
        }
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
        out.extend(
            std::mem::take(&mut self.open)
                .into_keys()
                .map(Effect::Withdrawn),
        );
        out
    }
}

fn post(tag: &'static str, path: String, body: Value) -> Effect {
    Effect::Call(Call {
        tag,
        path,
        body: Some(body),
    })
}

fn get(tag: &'static str, path: String) -> Effect {
    Effect::Call(Call {
        tag,
        path,
        body: None,
    })
}

/// What a refusal says.
fn told(body: &Value) -> String {
    let told = [&body["data"]["message"], &body["message"], body];
    let text = told.iter().find_map(|value| value.as_str());
    text.map_or_else(|| body.to_string(), str::to_owned)
}

/// The server counts the whole conversation.
fn total(info: &Value) -> Option<Effect> {
    let tokens = &info["tokens"];
    let sum = |values: &[&Value]| values.iter().filter_map(|value| value.as_u64()).sum();
    let used = Used {
        input_tokens: Some(sum(&[
            &tokens["input"],
            &tokens["cache"]["read"],
            &tokens["cache"]["write"],
        ])),
        output_tokens: Some(sum(&[&tokens["output"], &tokens["reasoning"]])),
        cost_usd: info["cost"].as_f64(),
    };
    (!used.is_nothing()).then_some(Effect::Total(used))
}
