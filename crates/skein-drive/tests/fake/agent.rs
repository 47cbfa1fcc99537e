//! A tiny agent that speaks ACP, for the tests: what it does is the first word of the prompt.

#![expect(clippy::unwrap_used, reason = "a program of the tests may panic")]
#![expect(
    clippy::zombie_processes,
    reason = "it leaves a child behind on purpose"
)]

use std::io::{BufRead, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn main() {
    let mut lines = std::io::stdin().lock().lines();
    let mut next = move || -> Option<Value> {
        let line = lines.next()?.ok()?;
        Some(serde_json::from_str(&line).unwrap())
    };
    let mut asked: Option<Value> = None;
    while let Some(message) = next() {
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            Some("initialize") => {
                let can = json!({"loadSession": true});
                reply(id, &json!({"protocolVersion": 1, "agentCapabilities": can}));
            }
            Some("session/new") => reply(id, &json!({"sessionId": "fake-1"})),
            Some("session/load") => {
                update(
                    &json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "earlier"}}),
                );
                say("of old\n");
                reply(id, &Value::Null);
            }
            Some("session/cancel") => {
                if let Some(prompt) = asked.take() {
                    reply(&prompt, &json!({"stopReason": "cancelled"}));
                }
            }
            Some("session/prompt") => prompt(
                id,
                params["prompt"][0]["text"].as_str().unwrap(),
                &mut asked,
            ),
            None if message["id"] == "p1" => {
                let outcome = &message["result"]["outcome"];
                let chosen = outcome["optionId"].as_str().unwrap_or("nothing");
                if let Some(prompt) = asked.take() {
                    say(&format!("chosen: {chosen}\n"));
                    reply(&prompt, &json!({"stopReason": "end_turn"}));
                }
            }
            _ => {}
        }
    }
}

fn prompt(id: &Value, text: &str, asked: &mut Option<Value>) {
    let over = || {
        reply(
            id,
            &json!({"stopReason": "end_turn", "usage": {"inputTokens": 7, "outputTokens": 3}}),
        )
    };
    match text.split_whitespace().next() {
        Some("ask") => {
            *asked = Some(id.clone());
            let options = json!([
                {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                {"optionId": "ever", "name": "Always", "kind": "allow_always"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
            ]);
            let call = json!({"toolCallId": "t1", "title": "rm -r everything", "kind": "execute"});
            let params = json!({"sessionId": "fake-1", "toolCall": call, "options": options});
            send(
                &json!({"jsonrpc": "2.0", "id": "p1", "method": "session/request_permission", "params": params}),
            );
        }
        Some("slow") => {
            say("beginning ");
            *asked = Some(id.clone());
        }
        Some("die") => {
            let _ = writeln!(std::io::stderr(), "no more \u{1b}[31mstrength");
            std::process::exit(3);
        }
        Some("child") => {
            let child = Command::new("setsid")
                .args(["sleep", "1000"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            say(&format!("child {}\n", child.id()));
            over();
        }
        Some("shell") => {
            let command = &text["shell ".len()..];
            let ran = Command::new("sh").args(["-c", command]).output().unwrap();
            let done = if ran.status.success() {
                "done"
            } else {
                "not done"
            };
            say(&format!("{done}: {command}\n"));
            over();
        }
        Some("evil") => {
            say("\u{1b}]0;stolen\u{7}\u{1b}[2Jinnocent\n");
            over();
        }
        Some("deaf") => loop {
            std::thread::park();
        },
        _ => {
            say(&format!(
                "{} bytes, {} lines\n",
                text.len(),
                text.split('\n').count()
            ));
            over();
        }
    }
}

fn say(text: &str) {
    update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
    );
}

fn update(update: &Value) {
    let params = json!({"sessionId": "fake-1", "update": update});
    send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
}

fn reply(id: &Value, result: &Value) {
    send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn send(message: &Value) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{message}").unwrap();
    stdout.flush().unwrap();
}
