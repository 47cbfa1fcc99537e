//! Codex' app server: JSON-RPC without its version, one message per line.

mod item;
mod request;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::questions::OpenQuestions;
use super::rpc::{Incoming, Requests, error_text};
use super::{
    Answer, Effect, Protocol, QuestionId, Resets, Setting, TurnOutcome, UsageAmounts, id_text,
    limit, note, text,
};
use crate::args::{ConversationStart, Permission};

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Initialize,
    Open,
    Turn,
    Interrupt,
}

#[derive(Debug)]
pub(crate) struct Codex {
    setting: Setting,
    requests: Requests<RequestKind>,
    thread: Option<String>,
    turn: Option<Turn>,
    questions: OpenQuestions<Value>,
    /// The files that calls want to change, which the question does not repeat.
    changes: HashMap<String, Vec<PathBuf>>,
    resets: Option<Resets>,
    /// It repeats its warnings every turn.
    warned: HashSet<String>,
}

#[derive(Debug, Default)]
struct Turn {
    id: Option<String>,
    taken: bool,
    /// To be interrupted as soon as it has a name.
    interrupt: bool,
}

impl Codex {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            setting,
            requests: Requests::new(false),
            thread: None,
            turn: None,
            questions: OpenQuestions::new(request::filled),
            changes: HashMap::new(),
            resets: None,
            warned: HashSet::new(),
        }
    }

    fn open_thread(&mut self) -> Vec<Effect> {
        let (policy, sandbox) = match self.setting.permission {
            Permission::Ask => ("untrusted", "workspace-write"),
            Permission::Edits => ("on-request", "workspace-write"),
            Permission::Full => ("never", "danger-full-access"),
        };
        let mut params = json!({
            "cwd": self.setting.cwd,
            "approvalPolicy": policy,
            "approvalsReviewer": "user",
            "sandbox": sandbox,
        });
        if let Some(model) = &self.setting.model {
            params["model"] = model.as_str().into();
        }
        let (method, thread) = match &self.setting.start {
            ConversationStart::New { .. } => ("thread/start", None),
            ConversationStart::Resume(id) => ("thread/resume", Some(id)),
        };
        if let Some(id) = thread {
            params["threadId"] = id.as_str().into();
        }
        vec![
            self.requests.notify("initialized", json!({})),
            self.requests.call(RequestKind::Open, method, params),
        ]
    }

    fn result(&mut self, request: RequestKind, result: &Value) -> Vec<Effect> {
        match request {
            RequestKind::Initialize => self.open_thread(),
            RequestKind::Open => {
                let Some(id) = result["thread"]["id"].as_str() else {
                    return vec![Effect::Stop(
                        "the program opened a thread without a name".into(),
                    )];
                };
                self.thread = Some(id.to_owned());
                let mut out = vec![Effect::Native(id.to_owned())];
                out.extend(item::history(&result["thread"]));
                out.push(Effect::Ready);
                out
            }
            RequestKind::Turn => {
                let id = result["turn"]["id"].as_str().map(str::to_owned);
                self.turn_named(id)
            }
            RequestKind::Interrupt => vec![],
        }
    }

    fn error(&mut self, request: RequestKind, error: &Value) -> Vec<Effect> {
        let why = error_text(error);
        match request {
            RequestKind::Initialize | RequestKind::Open => {
                vec![Effect::Stop(format!("no conversation: {why}"))]
            }
            // It was refused, not taken.
            RequestKind::Turn => {
                self.turn = None;
                vec![Effect::TurnEnded(TurnOutcome::Failed(why))]
            }
            RequestKind::Interrupt => vec![],
        }
    }

    fn turn_named(&mut self, id: Option<String>) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else {
            return vec![];
        };
        turn.id = turn.id.take().or(id);
        if turn.interrupt && turn.id.is_some() {
            turn.interrupt = false;
            return self.stop_turn();
        }
        vec![]
    }

    fn stop_turn(&mut self) -> Vec<Effect> {
        let turn = self.turn.as_ref().and_then(|turn| turn.id.clone());
        let params = json!({"threadId": self.thread, "turnId": turn});
        vec![
            self.requests
                .call(RequestKind::Interrupt, "turn/interrupt", params),
        ]
    }

    fn notice(&mut self, method: &str, params: &Value) -> Vec<Effect> {
        // Threads that make titles or help are not the conversation.
        let thread = params["threadId"].as_str();
        if thread.is_some() && thread != self.thread.as_deref() {
            return vec![];
        }
        match method {
            "turn/started" => self.started(&params["turn"]),
            "turn/completed" => self.completed(&params["turn"]),
            "thread/tokenUsage/updated" => {
                total(&params["tokenUsage"]["total"]).into_iter().collect()
            }
            "account/rateLimits/updated" => {
                self.resets = item::resets(&params["rateLimits"]).or(self.resets);
                vec![]
            }
            "serverRequest/resolved" => self.questions.withdraw(&id_text(&params["requestId"])),
            "error" if params["willRetry"] == true => {
                vec![note(error_text(&params["error"]))]
            }
            "warning" => {
                let text = text(&params["message"]);
                let is_new = self.warned.insert(text.clone());
                is_new.then(|| note(text)).into_iter().collect()
            }
            _ => {
                if method == "item/started" {
                    self.remember(&params["item"]);
                }
                item::read(method, params)
            }
        }
    }

    fn started(&mut self, turn: &Value) -> Vec<Effect> {
        let Some(running) = &mut self.turn else {
            return vec![];
        };
        let mut out = super::prompt_taken(Some(&mut running.taken));
        out.extend(self.turn_named(turn["id"].as_str().map(str::to_owned)));
        out
    }

    fn completed(&mut self, turn: &Value) -> Vec<Effect> {
        if self.turn.take().is_none() {
            return vec![];
        }
        self.changes.clear();
        let error = &turn["error"];
        let outcome = match turn["status"].as_str() {
            Some("completed") => TurnOutcome::Done,
            Some("interrupted") => TurnOutcome::Interrupted,
            _ => TurnOutcome::Failed(error_text(error)),
        };
        let mut out = vec![];
        if let TurnOutcome::Failed(why) = &outcome {
            let mut limit = limit::of_error(error, why);
            if let Some(Effect::Limit { resets, .. }) = &mut limit {
                *resets = resets.or(self.resets);
            }
            out.extend(limit);
        }
        out.push(Effect::TurnEnded(outcome));
        out
    }

    fn remember(&mut self, item: &Value) {
        if let (Some(id), "fileChange") = (
            item["id"].as_str(),
            item["type"].as_str().unwrap_or_default(),
        ) {
            self.changes.insert(id.to_owned(), item::paths(item));
        }
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) -> Vec<Effect> {
        let of_call = params["itemId"]
            .as_str()
            .and_then(|item| self.changes.get(item));
        let changes = of_call.cloned().unwrap_or_default();
        let asked = request::ask(&mut self.questions, id, method, params, changes);
        vec![asked.unwrap_or_else(|| self.requests.refuse(id, method))]
    }
}

impl Protocol for Codex {
    fn begin(&mut self) -> Vec<Effect> {
        let client =
            json!({"name": "skein", "title": "Skein", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
        vec![
            self.requests
                .call(RequestKind::Initialize, "initialize", params),
        ]
    }

    fn on_message(&mut self, line: &str) -> Vec<Effect> {
        match self.requests.read(line) {
            Incoming::Request { id, method, params } => self.request(&id, &method, &params),
            Incoming::Notice { method, params } => self.notice(&method, &params),
            Incoming::Result(request, result) => self.result(request, &result),
            Incoming::Error(request, error) => self.error(request, &error),
            Incoming::Nothing => vec![],
        }
    }

    fn submit(&mut self, text: &str) -> Vec<Effect> {
        self.turn = Some(Turn::default());
        let input = json!([{"type": "text", "text": text}]);
        let params = json!({"threadId": self.thread, "input": input});
        vec![self.requests.call(RequestKind::Turn, "turn/start", params)]
    }

    fn answer(&mut self, local_id: QuestionId, answer: &Answer) -> Vec<Effect> {
        self.questions
            .answer(local_id, answer)
            .into_iter()
            .collect()
    }

    fn interrupt(&mut self) -> Vec<Effect> {
        let mut out: Vec<Effect> = match &mut self.turn {
            Some(turn) if turn.id.is_none() => {
                turn.interrupt = true;
                vec![]
            }
            Some(_) => self.stop_turn(),
            None => vec![],
        };
        out.extend(self.questions.refuse_all());
        out
    }
}

/// The counts are of the whole thread, also of what was before the program was started.
fn total(counts: &Value) -> Option<Effect> {
    let used = UsageAmounts {
        input_tokens: counts["inputTokens"].as_u64(),
        output_tokens: counts["outputTokens"].as_u64(),
        cost_usd: None,
    };
    used.total()
}
