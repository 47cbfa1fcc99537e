//! The Agent Client Protocol, version 1: JSON-RPC, one message per line.
//!
//! Read by hand and forgivingly: programs send more than the published types know, and the crate that holds those
//! would switch on `serde_json/preserve_order` for the whole of Skein, and with it another order of keys in what is
//! stored and hashed.

mod update;

use serde_json::{Value, json};

use super::questions::{OpenQuestions, PermissionRequest};
use super::rpc::{Incoming, Requests, error_text};
use super::{
    Answer, Choice, Effect, Kind, Protocol, QuestionId, Setting, TurnOutcome, id_text, list, note,
    text,
};
use crate::args::{ConversationStart, Permission};
use crate::protocol::limit;
use update::{edits, read_update, shows_work, used};

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Initialize,
    Open,
    Mode,
    Model,
    Prompt,
}

#[derive(Debug)]
pub(crate) struct Acp {
    setting: Setting,
    requests: Requests<RequestKind>,
    session: Option<String>,
    /// Whether the result of a prompt tells what all of its turn used.
    counts: bool,
    /// Answers that are awaited before a prompt may be given.
    preparing: usize,
    turn: Option<Turn>,
    /// It has no forms.
    questions: OpenQuestions<std::convert::Infallible>,
}

#[derive(Debug, Default)]
struct Turn {
    taken: bool,
}

/// Modes by which programs ask for, or spare, permissions; the first that is offered is set. Where none is, the
/// program's own settings stand, and its questions are answered here.
const MODES: [(Permission, &[&str]); 3] = [
    // Codex' own default asks a model instead of people.
    (Permission::Ask, &["default", "read-only"]),
    (
        Permission::Edits,
        &["acceptEdits", "autoEdit", "workspace-write"],
    ),
    (
        Permission::Full,
        &["bypassPermissions", "yolo", "agent-full-access"],
    ),
];

impl Acp {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            setting,
            requests: Requests::new(true),
            session: None,
            counts: true,
            preparing: 0,
            turn: None,
            questions: OpenQuestions::new(|form, _| match form {}),
        }
    }

    fn initialized(&mut self, result: &Value) -> Vec<Effect> {
        // Its results have the tokens of a turn's last request only, and nothing else has the others'.
        self.counts = result["agentInfo"]["name"] != "OpenCode";
        let can = &result["agentCapabilities"];
        let offers = |name: &str| {
            can["sessionCapabilities"]
                .get(name)
                .is_some_and(|v| !v.is_null())
        };
        let mut params = json!({"cwd": self.setting.cwd, "mcpServers": []});
        let (method, id) = match self.setting.start.clone() {
            ConversationStart::New { .. } => ("session/new", None),
            ConversationStart::Resume(id) if can["loadSession"] == true => {
                ("session/load", Some(id))
            }
            ConversationStart::Resume(id) if offers("resume") => ("session/resume", Some(id)),
            ConversationStart::Resume(_) => return stop("the program cannot resume conversations"),
        };
        if let Some(id) = id {
            params["sessionId"] = id.into();
        }
        vec![self.requests.call(RequestKind::Open, method, params)]
    }

    fn opened(&mut self, result: &Value) -> Vec<Effect> {
        let named = result["sessionId"].as_str().map(str::to_owned);
        let id = match (named, &self.setting.start) {
            (Some(id), _) => id,
            (None, ConversationStart::Resume(id)) => id.clone(),
            (None, ConversationStart::New { .. }) => {
                return stop("the program opened a conversation without a name");
            }
        };
        self.session = Some(id.clone());
        let mut out = vec![Effect::Native(id.clone())];
        out.extend(self.set_mode(&id, result));
        out.extend(self.set_model(&id, result));
        self.preparing = out.len() - 1;
        if self.preparing == 0 {
            out.push(Effect::Ready);
        }
        out
    }

    /// The mode is set even when it is set already: the answer comes after the last of what a resumed
    /// conversation repeats, which some programs send after they said that it is loaded.
    fn set_mode(&mut self, id: &str, opened: &Value) -> Option<Effect> {
        let offered = opened["modes"]["availableModes"].as_array()?;
        let (_, wanted) = MODES.iter().find(|(p, _)| *p == self.setting.permission)?;
        let is_offered = |mode: &&&str| offered.iter().any(|o| o["id"] == **mode);
        let mode = wanted.iter().find(is_offered)?;
        let params = json!({"sessionId": id, "modeId": mode});
        Some(
            self.requests
                .call(RequestKind::Mode, "session/set_mode", params),
        )
    }

    fn set_model(&mut self, id: &str, opened: &Value) -> Option<Effect> {
        let model = self.setting.model.clone()?;
        let option = list(&opened["configOptions"]).find(|o| o["category"] == "model");
        let (method, params) = match option {
            Some(option) => (
                "session/set_config_option",
                json!({"sessionId": id, "configId": option["id"], "value": model}),
            ),
            None => (
                "session/set_model",
                json!({"sessionId": id, "modelId": model}),
            ),
        };
        Some(self.requests.call(RequestKind::Model, method, params))
    }

    fn prepared(&mut self) -> Vec<Effect> {
        self.preparing = self.preparing.saturating_sub(1);
        match self.preparing {
            0 => vec![Effect::Ready],
            _ => vec![],
        }
    }

    fn result(&mut self, request: RequestKind, result: &Value) -> Vec<Effect> {
        match request {
            RequestKind::Initialize => self.initialized(result),
            RequestKind::Open => self.opened(result),
            RequestKind::Mode | RequestKind::Model => self.prepared(),
            RequestKind::Prompt => {
                let mut out = self.prompt_taken();
                self.turn = None;
                out.extend(used(result).filter(|_| self.counts).map(Effect::UsageDelta));
                out.push(Effect::TurnEnded(match result["stopReason"].as_str() {
                    Some("end_turn") | None => TurnOutcome::Done,
                    Some("cancelled") => TurnOutcome::Interrupted,
                    Some(reason) => TurnOutcome::Failed(reason.replace('_', " ")),
                }));
                out
            }
        }
    }

    fn error(&mut self, request: RequestKind, error: &Value) -> Vec<Effect> {
        let why = error_text(error);
        match request {
            RequestKind::Initialize => stop(&format!("it does not begin: {why}")),
            RequestKind::Open => stop(&format!("no conversation: {why}")),
            RequestKind::Mode | RequestKind::Model => {
                let what = if request == RequestKind::Mode {
                    "mode"
                } else {
                    "model"
                };
                let mut out = vec![note(format!("the {what} could not be set: {why}"))];
                out.extend(self.prepared());
                out
            }
            RequestKind::Prompt => {
                // That it answers at all shows that it has the prompt.
                let mut out = self.prompt_taken();
                self.turn = None;
                out.extend(limit::of_error(error, &why));
                out.push(Effect::TurnEnded(TurnOutcome::Failed(why)));
                out
            }
        }
    }

    fn prompt_taken(&mut self) -> Vec<Effect> {
        super::prompt_taken(self.turn.as_mut().map(|turn| &mut turn.taken))
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) -> Vec<Effect> {
        if method != "session/request_permission" {
            return vec![self.requests.refuse(id, method)];
        }
        let reply = |outcome: Value| self.requests.reply(id, json!({"outcome": outcome}));
        let option = |option: &Value| {
            let kind = Kind::parse(option["kind"].as_str().unwrap_or_default());
            let chosen = json!({"outcome": "selected", "optionId": text(&option["optionId"])});
            (Choice::new(text(&option["name"]), kind), reply(chosen))
        };
        let call = &params["toolCall"];
        let asked = PermissionRequest {
            request: id_text(id),
            text: question(call),
            options: list(&params["options"]).map(option).collect(),
            refusal: reply(json!({"outcome": "cancelled"})),
            edits: edits(call),
        };
        let mut out = self.prompt_taken();
        out.push(self.questions.ask(asked));
        out
    }
}

impl Protocol for Acp {
    fn begin(&mut self) -> Vec<Effect> {
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "skein", "title": "Skein", "version": env!("CARGO_PKG_VERSION")},
        });
        vec![
            self.requests
                .call(RequestKind::Initialize, "initialize", params),
        ]
    }

    fn on_message(&mut self, line: &str) -> Vec<Effect> {
        match self.requests.read(line) {
            Incoming::Request { id, method, params } => self.request(&id, &method, &params),
            Incoming::Notice { method, params } if method == "session/update" => {
                let update = &params["update"];
                let mut out = vec![];
                if shows_work(update) {
                    out.extend(self.prompt_taken());
                }
                out.extend(read_update(update, self.turn.is_some()));
                out
            }
            Incoming::Notice { .. } | Incoming::Nothing => vec![],
            Incoming::Result(request, result) => self.result(request, &result),
            Incoming::Error(request, error) => self.error(request, &error),
        }
    }

    fn submit(&mut self, text: &str) -> Vec<Effect> {
        self.turn = Some(Turn::default());
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        vec![
            self.requests
                .call(RequestKind::Prompt, "session/prompt", params),
        ]
    }

    fn answer(&mut self, local_id: QuestionId, answer: &Answer) -> Vec<Effect> {
        self.questions
            .answer(local_id, answer)
            .into_iter()
            .collect()
    }

    fn interrupt(&mut self) -> Vec<Effect> {
        let params = json!({"sessionId": self.session});
        let mut out = vec![self.requests.notify("session/cancel", params)];
        // The protocol wants every open request answered after a cancel.
        out.extend(self.questions.refuse_all());
        out
    }
}

fn stop(why: &str) -> Vec<Effect> {
    vec![Effect::Stop(why.to_owned())]
}

/// What a permission is asked for: the title, and the command or the files where it does not name them.
fn question(call: &Value) -> String {
    let mut text = call["title"].as_str().unwrap_or("a tool").trim().to_owned();
    let mut add = |more: &str| {
        if !text.contains(more) {
            text.push('\n');
            text.push_str(more);
        }
    };
    if let Some(command) = call["rawInput"]["command"].as_str() {
        add(command);
    }
    for path in edits(call) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.is_empty() {
            add(&name);
        }
    }
    text
}
