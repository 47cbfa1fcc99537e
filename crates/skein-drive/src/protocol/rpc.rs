//! JSON-RPC as the protocols use it: requests that are numbered by us, and what is still unanswered.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::Effect;

/// Requests on their way, each with what its answer is for.
#[derive(Debug)]
pub(super) struct Requests<T> {
    next: u64,
    open: HashMap<u64, T>,
    /// Codex leaves the version out of every message.
    versioned: bool,
}

/// What a message is.
#[derive(Debug)]
pub(super) enum Incoming<T> {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notice {
        method: String,
        params: Value,
    },
    Result(T, Value),
    Error(T, Value),
    Nothing,
}

impl<T> Requests<T> {
    pub(super) fn new(versioned: bool) -> Self {
        Self {
            next: 1,
            open: HashMap::new(),
            versioned,
        }
    }

    pub(super) fn call(&mut self, what: T, method: &str, params: Value) -> Effect {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, what);
        self.message(json!({"id": id, "method": method, "params": params}))
    }

    pub(super) fn notify(&self, method: &str, params: Value) -> Effect {
        self.message(json!({"method": method, "params": params}))
    }

    pub(super) fn reply(&self, id: &Value, result: Value) -> Effect {
        self.message(json!({"id": id, "result": result}))
    }

    /// Says no to a request that is not known here.
    pub(super) fn refuse(&self, id: &Value, method: &str) -> Effect {
        let error = json!({"code": -32601, "message": format!("`{method}` is not known here")});
        self.message(json!({"id": id, "error": error}))
    }

    fn message(&self, mut message: Value) -> Effect {
        if let (true, Some(fields)) = (self.versioned, message.as_object_mut()) {
            fields.insert("jsonrpc".into(), "2.0".into());
        }
        Effect::Send(message)
    }

    pub(super) fn read(&mut self, line: &str) -> Incoming<T> {
        let Ok(Value::Object(mut message)) = serde_json::from_str(line) else {
            return Incoming::Nothing;
        };
        let method = match message.remove("method") {
            Some(Value::String(method)) => method,
            _ => return self.answer(message),
        };
        let params = message.remove("params").unwrap_or_default();
        match message.remove("id") {
            Some(id) if !id.is_null() => Incoming::Request { id, method, params },
            _ => Incoming::Notice { method, params },
        }
    }

    fn answer(&mut self, mut message: Map<String, Value>) -> Incoming<T> {
        let id = message.get("id").and_then(Value::as_u64);
        let Some(what) = id.and_then(|id| self.open.remove(&id)) else {
            return Incoming::Nothing;
        };
        match message.remove("error") {
            Some(error) if !error.is_null() => Incoming::Error(what, error),
            _ => Incoming::Result(what, message.remove("result").unwrap_or_default()),
        }
    }
}

/// What an error says, in one line.
pub(super) fn error_text(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("no reason given");
    let details = ["details", "message"]
        .iter()
        .find_map(|key| error["data"][key].as_str())
        .or_else(|| error["data"].as_str());
    match details {
        Some(details) if !message.contains(details) => format!("{message}: {details}"),
        _ => message.to_owned(),
    }
}
