//! The agents of this crate hold what every agent must hold.

use std::path::Path;
use std::sync::Arc;

use skein_agent::{
    Agent, AgentSettings, Aider, ClaudeCode, Codex, Custom, Gemini, LaunchRequest, OpenCode,
    Scripted,
};
use skein_agent_conformance::Subject;

fn custom(settings: &str) -> Arc<dyn Agent> {
    let settings: AgentSettings = toml::from_str(settings).unwrap();
    Arc::new(Custom::configured("stub".parse().unwrap(), settings, Path::new("/")).unwrap())
}

fn nothing(_order: &LaunchRequest) {}

/// What a first run of the scripted program leaves.
fn conversation(order: &LaunchRequest) {
    let native = Scripted::new().start(order).unwrap().native.unwrap();
    let line = format!("{{\"native\":\"{native}\"}}\n");
    std::fs::write(order.private.join("conversation.jsonl"), line).unwrap();
}

mod scripted {
    use super::*;

    fn fresh() -> Subject {
        Subject {
            agent: Arc::new(Scripted::new()),
            program: "skein",
            first_run: conversation,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}

mod scripted_with_hooks {
    use super::*;

    fn fresh() -> Subject {
        Subject {
            agent: Arc::new(Scripted::with_hooks()),
            program: "skein",
            first_run: conversation,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}

mod a_bare_command {
    use super::*;

    fn fresh() -> Subject {
        Subject {
            agent: custom("command = 'stub --flag \"a b\"'"),
            program: "stub",
            first_run: nothing,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}

mod a_command_with_everything {
    use super::*;

    const SETTINGS: &str = r#"
        command = "stub --id {native}"
        resume = "stub --resume {native}"
        prompt = "argv"
        separator = "--"
        env = { NO_COLOR = "1" }
        install = "make stub"
        submit = ["esc", "enter"]
        interrupt = "ctrl-c"
        hooks = true
        [[rules.rule]]
        name = "ready"
        says = "ready"
        all = ["[ready]"]
        [rules.box]
        prompt = '^> '
        [rules.answer]
        by = "arrows"
    "#;

    fn fresh() -> Subject {
        Subject {
            agent: custom(SETTINGS),
            program: "stub",
            first_run: nothing,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}

mod a_shell_line {
    use super::*;

    fn fresh() -> Subject {
        Subject {
            agent: custom(
                "command = 'export A=1; cd . && stub'\nprompt = 'stdin'\nsubmit = 'enter'",
            ),
            program: "stub",
            first_run: nothing,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}

mod claude_code {
    use super::*;

    /// The transcript of a first run.
    fn transcript(order: &LaunchRequest) {
        let native = ClaudeCode::new().start(order).unwrap().native.unwrap();
        let home = Path::new(&order.env["HOME"]);
        let folder = home.join(".claude/projects/-work");
        std::fs::create_dir_all(&folder).unwrap();
        let line = "{\"type\":\"user\"}\n";
        std::fs::write(folder.join(format!("{native}.jsonl")), line).unwrap();
    }

    fn fresh() -> Subject {
        Subject {
            agent: Arc::new(ClaudeCode::new()),
            program: "claude",
            first_run: transcript,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}

mod codex {
    use super::*;

    fn fresh() -> Subject {
        Subject {
            agent: Arc::new(Codex::new()),
            program: "codex",
            first_run: nothing,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}

mod gemini {
    use super::*;

    /// The chat of a first run.
    fn chat(order: &LaunchRequest) {
        let native = Gemini::new().start(order).unwrap().native.unwrap();
        let folder = Path::new(&order.env["HOME"]).join(".gemini/tmp/api/chats");
        std::fs::create_dir_all(&folder).unwrap();
        let name = format!("session-2026-11-17T03-48-{}.jsonl", &native.as_str()[..8]);
        let line = "{\"id\":\"1\",\"type\":\"user\"}\n";
        std::fs::write(folder.join(name), line).unwrap();
    }

    fn fresh() -> Subject {
        Subject {
            agent: Arc::new(Gemini::new()),
            program: "gemini",
            first_run: chat,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}

mod opencode {
    use super::*;

    fn fresh() -> Subject {
        Subject {
            agent: Arc::new(OpenCode::new()),
            program: "opencode",
            first_run: nothing,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}

/// What a first run of aider leaves.
fn chat_history(order: &LaunchRequest) {
    let native = Aider::new().start(order).unwrap().native.unwrap();
    std::fs::write(order.private.join(format!("aider-{native}.md")), "").unwrap();
}

mod aider {
    use super::*;

    fn fresh() -> Subject {
        Subject {
            agent: Arc::new(Aider::new()),
            program: "aider",
            first_run: chat_history,
        }
    }
    skein_agent_conformance::agent_conformance!(fresh);
}
