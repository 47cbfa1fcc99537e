//! What a client does next, chosen by what it last knew of a session. It may be out of date: lost races and
//! refusals are part of the load.

use serde_json::{Value, json};

use crate::storm::http::Request;
use crate::storm::random::Random;

/// A change and the event that tells of it, exactly once if it was carried out.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) request: Request,
    pub(crate) tells: &'static str,
    pub(crate) often: Often,
}

/// How many events of its kind a successful operation tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Often {
    Once,
    /// Repeating it changes nothing, so it may have found its work done.
    AtMostOnce,
    /// Once for each session it took.
    PerSession,
}

/// Names the operation, and where it is sent.
pub(crate) struct Draft<'a> {
    pub(crate) name: String,
    pub(crate) random: &'a mut Random,
}

impl Draft<'_> {
    fn send(
        self,
        method: &'static str,
        path: String,
        tells: &'static str,
        body: Value,
    ) -> Operation {
        let often = match tells {
            "thread.archived" | "thread.reopened" => Often::AtMostOnce,
            "session.ended" if body["tree"] == true => Often::PerSession,
            _ => Often::Once,
        };
        let request = Request {
            method,
            path,
            name: self.name,
            body,
        };
        Operation {
            request,
            tells,
            often,
        }
    }

    fn act(self, session: &Value, verb: &str, tells: &'static str, body: Value) -> Operation {
        let path = format!("/api/v1/sessions/{}/{verb}", text(session, "id"));
        self.send("POST", path, tells, body)
    }

    pub(crate) fn new_thread(self, project: &str) -> Operation {
        let body = json!({"project": project, "title": format!("thread of {}", self.name)});
        self.send("POST", "/api/v1/threads".into(), "thread.opened", body)
    }

    pub(crate) fn archive_or_reopen(self, thread: &str) -> Operation {
        let (verb, tells) = if self.random.one_in(2) {
            ("archive", "thread.archived")
        } else {
            ("reopen", "thread.reopened")
        };
        let path = format!("/api/v1/threads/{thread}/{verb}");
        self.send("POST", path, tells, Value::Null)
    }

    pub(crate) fn spawn(self, project: &str, thread: Option<&str>) -> Operation {
        let mut body = json!({"task": format!("task of {}", self.name), "owner": "user:ann"});
        match thread {
            Some(thread) => body["thread"] = thread.into(),
            None => body["project"] = project.into(),
        }
        if self.random.one_in(2) {
            body["budget"] = json!({"tokens": 1000 + self.random.below(100_000), "cost_usd": 12.5});
        }
        self.send("POST", "/api/v1/sessions".into(), "session.spawned", body)
    }

    fn delegate(self, parent: &Value) -> Operation {
        let mut body = json!({
            "task": format!("part of {}", self.name), "owner": "agent:helper", "parent": parent["id"],
        });
        if self.random.one_in(2) {
            body["budget"] = json!({"tokens": 1 + self.random.below(2000), "cost_usd": 0.25});
        }
        self.send("POST", "/api/v1/sessions".into(), "session.spawned", body)
    }

    /// Something that `session`, as last seen, allows.
    pub(crate) fn next(self, session: &Value, child: Option<&Value>) -> Operation {
        let chance = self.random.below(100);
        match (text(session, "phase"), chance) {
            ("idle", 0..25) => self.act(session, "begin-turn", "session.turn_began", json!({})),
            ("idle", 25..45) => self.delegate(session),
            ("idle", 45..65) => self.hand_over(session),
            ("idle", 65..80) => self.broadcast(session),
            ("idle" | "awaiting_merge", 80..88) | ("awaiting_merge", 0..40) if child.is_some() => {
                let from = child.map_or(Value::Null, |child| child["id"].clone());
                self.act(session, "merge", "session.merged", json!({"from": from}))
            }
            ("active", 0..50) => {
                let used = json!({
                    "input_tokens": self.random.below(50), "output_tokens": self.random.below(50), "cost_usd": 0.01,
                });
                self.act(session, "end-turn", "session.turn_ended", used)
            }
            ("active", 50..75) => {
                let question = json!({"question": "which way?", "options": ["left", "right"]});
                self.act(session, "ask", "session.asked", question)
            }
            ("active", 75..85) => self.delegate(session),
            ("awaiting_input", 0..75) => {
                self.act(session, "answer", "session.answered", json!({"text": "2"}))
            }
            ("awaiting_input", 75..85) => {
                self.act(session, "withdraw", "session.withdrawn", json!({}))
            }
            ("ended", 0..70) => self.act(session, "restore", "session.restored", json!({})),
            ("ended", _) => self.summarize(session),
            (_, 90..95) => {
                let tree = json!({"tree": true, "reason": "the storm"});
                self.act(session, "kill", "session.ended", tree)
            }
            _ => self.act(session, "end", "session.ended", json!({"outcome": "done"})),
        }
    }

    fn hand_over(self, session: &Value) -> Operation {
        let to = format!("user:u{}", self.random.below(1000));
        let body = json!({"to": to, "expect_version": session["owner_version"]});
        self.act(session, "handoff", "handoff.committed", body)
    }

    fn broadcast(self, session: &Value) -> Operation {
        let recipients = 2 + self.random.below(3);
        let to: Vec<String> = (0..recipients).map(|n| format!("agent:r{n}")).collect();
        let body = json!({"to": to, "expect_version": session["owner_version"]});
        self.act(session, "broadcast", "broadcast.committed", body)
    }

    fn summarize(self, session: &Value) -> Operation {
        let path = format!("/api/v1/sessions/{}/summary", text(session, "id"));
        let body = json!({"text": format!("summary of {}", self.name), "key_decisions": ["go on"]});
        self.send("PUT", path, "summary.recorded", body)
    }
}

pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field]
        .as_str()
        .unwrap_or_else(|| panic!("no text `{field}` in {object}"))
}
