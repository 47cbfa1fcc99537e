//! How to make each agent program use a scripted model.

use serde::Serialize;
use serde_json::json;

use crate::text::quoted;

/// Variables and arguments that make a program use the server.
#[derive(Debug, Serialize)]
pub(super) struct Agent {
    pub(super) name: &'static str,
    #[serde(skip)]
    pub(super) title: &'static str,
    /// What else it needs.
    #[serde(skip)]
    pub(super) note: &'static str,
    env: Vec<(&'static str, String)>,
    program: &'static str,
    /// Arguments of the program; the prompt comes last.
    args: Vec<String>,
}

impl Agent {
    /// The command line for a shell.
    pub(super) fn command_line(&self) -> String {
        let env = self.env.iter();
        let mut words: Vec<String> = env
            .map(|(name, value)| format!("{name}={}", quoted(value)))
            .collect();
        words.push(self.program.to_owned());
        words.extend(self.args.iter().map(|argument| quoted(argument)));
        words.push(quoted("[[bash touch a ;; say done]]"));
        words.join(" ")
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The five known programs, for a server at this address.
pub(super) fn all(url: &str) -> Vec<Agent> {
    vec![
        claude(url),
        codex(url),
        opencode(url),
        gemini(url),
        aider(url),
    ]
}

fn claude(url: &str) -> Agent {
    Agent {
        name: "claude-code",
        title: "Claude Code",
        note: "without -p for the terminal",
        env: vec![
            ("ANTHROPIC_BASE_URL", url.to_owned()),
            ("ANTHROPIC_AUTH_TOKEN", "x".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ],
        program: "claude",
        args: words("--permission-mode acceptEdits --allowedTools Bash -p"),
    }
}

fn codex(url: &str) -> Agent {
    let provider = format!(
        r#"model_providers.fake={{name="fake",base_url="{url}/v1",wire_api="responses",env_key="FAKE_KEY"}}"#
    );
    let mut args = words(
        "exec --skip-git-repo-check -s workspace-write -c model=fake-1 -c model_provider=fake \
         -c check_for_update_on_startup=false -c analytics.enabled=false -c features.plugins=false \
         -c features.apps=false -c features.daemon_auto_start=false -c",
    );
    args.push(provider);
    Agent {
        name: "codex",
        title: "Codex",
        note: "`codex --no-daemon` instead of `codex exec` for the terminal",
        env: vec![("FAKE_KEY", "x".to_owned())],
        program: "codex",
        args,
    }
}

fn opencode(url: &str) -> Agent {
    let config = json!({
        "model": "fake/fake-1",
        "small_model": "fake/fake-1",
        "autoupdate": false,
        "share": "disabled",
        "provider": { "fake": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{url}/v1"), "apiKey": "x" },
            "models": { "fake-1": {
                "tool_call": true,
                "cost": { "input": 3, "output": 15 },
                "limit": { "context": 200_000, "output": 8192 },
            } },
        } },
    });
    let mut env = vec![("OPENCODE_CONFIG_CONTENT", config.to_string())];
    env.extend(
        [
            "OPENCODE_DISABLE_MODELS_FETCH",
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_LSP_DOWNLOAD",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        ]
        .map(|name| (name, "1".to_owned())),
    );
    Agent {
        name: "opencode",
        title: "OpenCode",
        note: "without `run` for the terminal",
        env,
        program: "opencode",
        args: words("run"),
    }
}

fn gemini(url: &str) -> Agent {
    Agent {
        name: "gemini",
        title: "Gemini CLI",
        note: "its settings must choose `gemini-api-key` as security.auth.selectedType",
        env: vec![
            ("GEMINI_API_KEY", "x".to_owned()),
            ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()),
        ],
        program: "gemini",
        args: words("--approval-mode yolo -p"),
    }
}

fn aider(url: &str) -> Agent {
    Agent {
        name: "aider",
        title: "aider",
        note: "has no tools: `[[write a.txt hello]]` makes it write a file",
        env: vec![
            ("OPENAI_API_BASE", format!("{url}/v1")),
            ("OPENAI_API_KEY", "x".to_owned()),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True".to_owned()),
        ],
        program: "aider",
        args: words(
            "--model openai/fake-1 --no-show-model-warnings --no-check-update --no-show-release-notes \
             --no-gitignore --analytics-disable --yes-always --message",
        ),
    }
}
