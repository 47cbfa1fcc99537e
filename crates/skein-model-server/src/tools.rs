//! Turns what a step wants into a call of a tool that the agent offers.

use serde_json::{Value, json};

use crate::conversation::{Conversation, Edits};
use crate::reply::Part;
use crate::step::Step;

/// What this step is for this agent: a call where it has a tool, else a text.
pub(crate) fn part(conversation: &Conversation, step: &Step) -> Part {
    let tools = &conversation.tools;
    let call = match step {
        Step::Bash(command) => shell(tools, command, Rights::Given),
        Step::Escalate(command) => shell(tools, command, Rights::Asked),
        Step::Write { path, content } => match conversation.edits() {
            Edits::WholeFiles => return Part::text(&format!("{path}\n```\n{}```", lines(content))),
            Edits::SearchReplace => {
                return Part::text(&format!(
                    "{path}\n```\n<<<<<<< SEARCH\n=======\n{}>>>>>>> REPLACE\n```",
                    lines(content)
                ));
            }
            Edits::Tools | Edits::None => write(tools, path, content),
        },
        Step::Ask { question, options } => ask(tools, question, options),
        _ => None,
    };
    match call {
        Some((name, arguments)) => Part::Call { name, arguments },
        None => Part::text(&instead(step)),
    }
}

/// What is said when there is no tool for it.
fn instead(step: &Step) -> String {
    match step {
        Step::Bash(command) | Step::Escalate(command) => {
            format!("I have no tool to run `{command}`.")
        }
        Step::Write { path, .. } => format!("I have no tool to write `{path}`."),
        Step::Ask { question, options } => format!("{question} ({})", options.join(" / ")),
        Step::Say(text) | Step::Slow { text, .. } => text.clone(),
        _ => String::new(),
    }
}

fn lines(content: &str) -> String {
    if content.is_empty() || content.ends_with('\n') {
        content.to_owned()
    } else {
        format!("{content}\n")
    }
}

/// Whether the command needs rights that the agent must ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    Given,
    Asked,
}

type Call = (String, Value);

/// Finds a tool by what is left of its name without the prefix of a server that passes it on.
fn find(tools: &[String], make: impl Fn(&str) -> Option<Value>) -> Option<Call> {
    tools.iter().find_map(|tool| {
        let bare = tool.rsplit("__").next().unwrap_or(tool);
        Some((tool.clone(), make(bare)?))
    })
}

fn shell(tools: &[String], command: &str, rights: Rights) -> Option<Call> {
    let codex = |key: &str, command: Value| {
        let mut arguments = json!({ key: command });
        if rights == Rights::Asked {
            arguments["sandbox_permissions"] = "require_escalated".into();
            arguments["justification"] = "The script asks for it.".into();
        }
        arguments
    };
    find(tools, |name| match name {
        "Bash" | "bash" | "run_shell_command" => {
            Some(json!({ "command": command, "description": "Runs a scripted command" }))
        }
        "exec_command" => Some(codex("cmd", command.into())),
        "shell_command" => Some(codex("command", command.into())),
        "shell" | "local_shell" => Some(codex("command", json!(["bash", "-lc", command]))),
        // Codex gives models that it knows a tool that runs JavaScript, where the shell is a function.
        "exec" => {
            let arguments = codex("cmd", command.into());
            Some(format!("text(await tools.exec_command({arguments}));").into())
        }
        _ => None,
    })
}

fn write(tools: &[String], path: &str, content: &str) -> Option<Call> {
    let native = find(tools, |name| match name {
        "Write" | "write_file" => Some(json!({ "file_path": path, "content": content })),
        "write" => Some(json!({ "filePath": path, "content": content })),
        _ => None,
    });
    native.or_else(|| {
        let command = format!("printf %s {} > {}", quoted(content), quoted(path));
        shell(tools, &command, Rights::Given)
    })
}

fn ask(tools: &[String], question: &str, options: &[String]) -> Option<Call> {
    find(tools, |name| match name {
        "AskUserQuestion" => Some(json!({
            "questions": [{
                "question": question,
                "header": "Question",
                "options": options
                    .iter()
                    .map(|option| json!({ "label": option, "description": option }))
                    .collect::<Vec<_>>(),
                "multiSelect": false,
            }],
        })),
        _ => None,
    })
}

/// For the shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
