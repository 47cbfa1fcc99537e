//! Turns a step into a call of a tool that the agent offers.

use serde_json::{Value, json};

use crate::model_server::conversation::{Conversation, Edits};
use crate::model_server::reply::Part;
use crate::model_server::step::Step;

/// The step for this agent: a call if it has a tool, else a text.
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

/// The text if there is no tool for it.
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

/// Finds a tool by its name without the prefix of a server that forwards it.
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
        // Codex gives known models a tool that runs JavaScript, where the shell is a function.
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
    let options: Vec<Value> = options
        .iter()
        .map(|option| json!({ "label": option, "description": option }))
        .collect();
    let asked = |more: &str, value: Value| {
        json!({
            "questions": [{
                "question": question,
                "header": "Question",
                "options": options,
                more: value,
            }],
        })
    };
    // Codex always offers such a tool, but supports it only in its plan mode.
    find(tools, |name| match name {
        "AskUserQuestion" => Some(asked("multiSelect", false.into())),
        "question" => Some(asked("multiple", false.into())),
        "ask_user" => Some(asked("type", "choice".into())),
        _ => None,
    })
}

/// Quotes any text for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each program offers, as far as steps need it.
    const CLAUDE: &[&str] = &["AskUserQuestion", "Bash", "Write"];
    const CODEX: &[&str] = &["exec_command", "request_user_input"];
    const CODEX_CODE: &[&str] = &["exec", "request_user_input"];
    const OPENCODE: &[&str] = &["bash", "question", "write"];
    const GEMINI: &[&str] = &["ask_user", "run_shell_command", "write_file"];

    fn check(tools: &[&str], step: &str, name: &str, expected: Value) {
        let conversation = Conversation {
            tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
            ..Conversation::default()
        };
        let step = Step::parse(step).unwrap();
        let made = match part(&conversation, &step) {
            Part::Call { name, arguments } => (name, arguments),
            Part::Text { text, .. } => ("-".to_owned(), text.into()),
        };
        assert_eq!(made, (name.to_owned(), expected), "{step:?}");
    }

    #[test]
    fn a_command_goes_to_the_shell_of_each_agent() {
        let plain = json!({ "command": "ls", "description": "Runs a scripted command" });
        check(CLAUDE, "bash ls", "Bash", plain.clone());
        check(OPENCODE, "bash ls", "bash", plain.clone());
        check(GEMINI, "bash ls", "run_shell_command", plain.clone());
        check(&["mcp__acp__Bash"], "escalate ls", "mcp__acp__Bash", plain);
        check(CODEX, "bash ls", "exec_command", json!({ "cmd": "ls" }));
        check(
            &["shell"],
            "bash ls",
            "shell",
            json!({ "command": ["bash", "-lc", "ls"] }),
        );
        let script = r#"text(await tools.exec_command({"cmd":"ls"}));"#;
        check(CODEX_CODE, "bash ls", "exec", script.into());
        check(
            &["read"],
            "bash ls",
            "-",
            "I have no tool to run `ls`.".into(),
        );
    }

    #[test]
    fn codex_is_made_to_ask_for_rights() {
        let asked = json!({
            "cmd": "ls",
            "sandbox_permissions": "require_escalated",
            "justification": "The script asks for it.",
        });
        check(CODEX, "escalate ls", "exec_command", asked);
    }

    #[test]
    fn a_file_is_written_by_tool_or_by_shell() {
        let claude = json!({ "file_path": "a", "content": "b c" });
        check(CLAUDE, "write a b c", "Write", claude.clone());
        check(GEMINI, "write a b c", "write_file", claude);
        check(
            OPENCODE,
            "write a b c",
            "write",
            json!({ "filePath": "a", "content": "b c" }),
        );
        let command = json!({ "cmd": r"printf %s 'it'\''s' > 'a'" });
        check(CODEX, "write a it's", "exec_command", command);
    }

    #[test]
    fn a_question_is_asked_by_tool_or_in_words() {
        let asked = |more: &str, value: Value| {
            let option = |label: &str| json!({ "label": label, "description": label });
            json!({ "questions": [{
                "question": "Go?", "header": "Question", "options": [option("a"), option("b")], more: value,
            }] })
        };
        let step = "ask Go? | a | b";
        check(
            CLAUDE,
            step,
            "AskUserQuestion",
            asked("multiSelect", false.into()),
        );
        check(OPENCODE, step, "question", asked("multiple", false.into()));
        check(GEMINI, step, "ask_user", asked("type", "choice".into()));
        check(CODEX, step, "-", "Go? (a / b)".into());
    }
}
