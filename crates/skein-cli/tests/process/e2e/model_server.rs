//! The scripted model, as people start it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Call, Home};

/// A server in a home of its own; ends with it.
struct Serving {
    child: Child,
    document: Value,
}

impl Serving {
    fn start(home: &Home, args: &[&str]) -> Self {
        let mut child = home
            .command(&[&["--json", "model-server"], args].concat())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.as_mut().unwrap());
        output.read_line(&mut line).unwrap();
        Self {
            child,
            document: serde_json::from_str(&line).unwrap(),
        }
    }

    fn address(&self) -> &str {
        let url = self.document["url"].as_str().unwrap();
        url.strip_prefix("http://").unwrap()
    }

    fn say(&self, prompt: &str) -> Value {
        let messages = json!([{ "role": "user", "content": prompt }]);
        let call = Call::post("/v1/chat/completions", &json!({ "messages": messages }));
        let answer = call.over_tcp(self.address()).json();
        answer["choices"][0]["message"]["content"].clone()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_scripted_model_serves_until_it_is_told_to_end() {
    let home = Home::new();
    let script = home.user().join("script.toml");
    let log = home.user().join("log.jsonl");
    std::fs::write(&script, "[defaults]\nsay = \"as told\"\n").unwrap();
    let (script, log) = (script.to_str().unwrap(), log.to_str().unwrap());
    let mut serving = Serving::start(&home, &["--script", script, "--log", log]);
    assert_eq!(serving.document["pid"], serving.child.id());
    let agents = serving.document["agents"].as_array().unwrap();
    let names: Vec<&str> = agents.iter().filter_map(|a| a["name"].as_str()).collect();
    assert_eq!(
        names,
        ["claude-code", "codex", "opencode", "gemini", "aider"]
    );
    assert_eq!(serving.say("hello"), "as told");
    assert_eq!(serving.say("[[say so]]"), "so");
    kill_process(Pid::from_child(&serving.child), Signal::INT).unwrap();
    assert!(serving.child.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 4);
    assert!(home.pid().is_none(), "no daemon is needed for that");
}

#[test]
fn l13_a_server_that_cannot_be_says_why() {
    let home = Home::new();
    let first = Serving::start(&home, &[]);
    let taken = home.error(6, &["model-server", "--listen", first.address()]);
    assert_eq!(
        taken["hints"],
        json!(["`--listen 127.0.0.1:0` takes a free port"])
    );
    let open = home.error(2, &["model-server", "--listen", "0.0.0.0:0"]);
    assert_eq!(open["message"], "`0.0.0.0:0` is not a loopback address");
    home.error(2, &["model-server", "--script", "missing.toml"]);
    let script = home.user().join("script.toml");
    std::fs::write(&script, "[[reply]]\nwhen = \"a\"\nsteps = [\"bahs\"]\n").unwrap();
    let wrong = home.error(2, &["model-server", "--script", script.to_str().unwrap()]);
    assert_eq!(wrong["details"]["line"], 3);
    let folder = home.user();
    home.error(6, &["model-server", "--log", folder.to_str().unwrap()]);
}
