//! A conversation that is branched off by the program itself, as its adapter says: no command of Skein does that yet.

use std::fmt::Write as _;
use std::{fs, iter};

use skein_agent::{Agent, ClaudeCode, Codex, Order};
use skein_domain::{LaunchSettings, Permission};

use crate::common::text;
use crate::stage::{CLAUDE, CODEX, Program, Stage};

fn quoted(words: impl IntoIterator<Item = String>) -> String {
    let quote = |word: String| format!("'{}'", word.replace('\'', r"'\''"));
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

const TASK: &str = "MARK-FORK [[say forked]]";

/// What the program is launched with, as a command for a shell that gets the task as its last word.
fn fork(stage: &Stage, agent: &dyn Agent, from: &str) -> String {
    let private = stage.fleet.home.root().join("forked");
    fs::create_dir(&private).unwrap();
    let (_, path) = stage.variables().find(|(name, _)| *name == "PATH").unwrap();
    let order = Order {
        session: "api-2".parse().unwrap(),
        run: 1,
        task: TASK.parse().unwrap(),
        settings: LaunchSettings {
            permission: Permission::Full,
            ..LaunchSettings::default()
        },
        workspace: stage.fleet.folder("api-2"),
        private: private.clone(),
        skein: "true".into(),
        path: path.to_owned(),
        env: iter::once((
            "HOME".to_owned(),
            stage.fleet.home.user().display().to_string(),
        ))
        .collect(),
        native: None,
    };
    let mut start = agent.fork(&order, &from.parse().unwrap()).unwrap();
    assert_eq!(start.argv.pop().as_deref(), Some(TASK));
    for (path, content) in start.files {
        let path = private.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let env = start
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    quoted(iter::once("env".to_owned()).chain(env).chain(start.argv))
}

fn branches_off(program: Program, agent: &dyn Agent) {
    let stage = Stage::new(program);
    let source = stage.spawn("MARK-ONE [[say one]]", &["--permission", "full"]);
    stage.until_status(&source, "idle");
    let shown = stage.until(&source, "a name", |s| s["native"].is_string());
    let before = stage.transcripts();

    // It runs in a terminal of Skein's, as a program that Skein knows nothing of.
    let mut settings = String::from("pass = ['FAKE_KEY']\n[agents.forked]\n");
    let command = fork(&stage, agent, &text(&shown["native"]));
    let _ = writeln!(settings, "command = {}", serde_json::Value::from(command));
    settings += "prompt = 'argv'\n";
    let names: Vec<&str> = stage.variables().map(|(name, _)| name).collect();
    let _ = writeln!(settings, "inherit = {names:?}");
    stage.fleet.settings(&settings);
    let base = ["spawn", "--project", "api", "--agent", "forked", TASK];
    let forked = text(&stage.json(&base)["id"]);
    let heard = stage.heard("MARK-FORK");
    let past = heard.history.users.join("\n");
    assert!(past.contains("MARK-ONE"), "{past}");
    stage.json(&["kill", &forked]);

    // The source's own is what it was, and goes on without what was said in the branch.
    let now = stage.transcripts();
    assert!(before.lines().all(|line| now.contains(line)));
    assert!(!before.contains("MARK-FORK"));
    let after = stage.post(&source, "MARK-AFTER [[say done]]");
    stage.until_receipt(&after, &["turn_started"]);
    let past = stage.heard("MARK-AFTER").history.users.join("\n");
    assert!(
        past.contains("MARK-ONE") && !past.contains("MARK-FORK"),
        "{past}"
    );
}

#[test]
fn heavy_claude_code_branches_a_conversation_off() {
    branches_off(CLAUDE, &ClaudeCode::new());
}

#[test]
fn heavy_codex_branches_a_conversation_off() {
    branches_off(CODEX, &Codex::new());
}
