//! Conversations as the real programs had them, played again: `<` is what the program said, `!` what people did.

use std::fmt::Write as _;
use std::path::PathBuf;

use skein_terminal::Key;

use super::*;
use crate::args::{Begin, Permission};
use crate::protocol::acp::Acp;
use crate::protocol::claude::Claude;
use crate::protocol::codex::Codex;
use crate::protocol::opencode::OpenCode;

fn setting(begin: Begin, permission: Permission) -> Setting {
    Setting {
        cwd: PathBuf::from("/repo"),
        begin,
        permission,
        model: None,
    }
}

fn asks() -> Setting {
    setting(Begin::New { native: None }, Permission::Ask)
}

/// What is sent, journalled and shown while a recording is played.
struct Played {
    conversation: Conversation,
    now: Instant,
    out: String,
}

impl Played {
    fn new(protocol: Box<dyn Protocol>, setting: Setting) -> Self {
        let mut played = Self {
            conversation: Conversation::new(protocol, setting),
            now: Instant::now(),
            out: String::new(),
        };
        let acts = played.conversation.begin(played.now);
        played.tell(acts);
        played
    }

    fn tell(&mut self, acts: Vec<Act>) {
        for act in acts {
            let _ = match act {
                Act::Send(message) => writeln!(self.out, "> {message}"),
                Act::Connect(address) => writeln!(self.out, "connect {address}"),
                Act::Call(call) => match call.body {
                    Some(body) => writeln!(self.out, "> POST {} {body}", call.path),
                    None => writeln!(self.out, "> GET {}", call.path),
                },
                Act::Journal(event) => writeln!(self.out, "= {} {}", event.name, event.payload),
                Act::End(why) => writeln!(self.out, "end {why:?}"),
            };
        }
        for line in self.conversation.lines() {
            let _ = writeln!(self.out, "| {}{}", line.mark, line.text);
        }
    }

    fn hear(&mut self, line: &str) {
        let acts = self.conversation.hear(line, self.now);
        self.tell(acts);
    }

    fn key(&mut self, key: Key) {
        let acts = self.conversation.key(key, self.now);
        self.tell(acts);
    }

    fn play(&mut self, recording: &str) {
        for line in recording.lines() {
            match line.split_at(2) {
                ("< ", message) => self.hear(message),
                (_, "escape") => self.key(Key::Escape),
                (_, act) => {
                    let (what, text) = act.split_once(' ').unwrap();
                    self.key(Key::Text(text.to_owned()));
                    if what == "submit" {
                        self.key(Key::Enter);
                    }
                }
            }
        }
    }

    /// The names of what was journalled, but for what was said.
    fn events(&self) -> Vec<&str> {
        let lines = self.out.lines().filter_map(|line| line.strip_prefix("= "));
        let names = lines.filter_map(|line| line.split(' ').next());
        names.filter(|name| *name != "message").collect()
    }
}

macro_rules! recorded {
    ($name:literal, $protocol:expr) => {{
        let mut played = Played::new(Box::new($protocol), asks());
        played.play(include_str!(concat!(
            "../../tests/recorded/",
            $name,
            ".jsonl"
        )));
        insta::assert_snapshot!($name, played.out);
    }};
}

#[test]
fn acp_as_gemini_speaks_it() {
    recorded!("acp-gemini", Acp::new(asks()));
}

#[test]
fn acp_as_claude_speaks_it() {
    recorded!("acp-claude", Acp::new(asks()));
}

#[test]
fn acp_as_codex_speaks_it() {
    recorded!("acp-codex", Acp::new(asks()));
}

#[test]
fn claude_as_it_speaks() {
    recorded!("claude", Claude::new());
}

#[test]
fn codex_as_it_speaks() {
    recorded!("codex", Codex::new(asks()));
}

#[test]
fn opencode_as_it_speaks() {
    recorded!("opencode", OpenCode::new(asks()));
}

const INITIALIZED: &str = r#"{"id":1,"result":{"agentCapabilities":{"loadSession":true}}}"#;
const OPENED: &str = r#"{"id":2,"result":{"sessionId":"s"}}"#;

fn acp() -> Played {
    let mut played = Played::new(Box::new(Acp::new(asks())), asks());
    played.hear(INITIALIZED);
    played.hear(OPENED);
    played
}

fn ask(id: u64) -> String {
    let options = r#"[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]"#;
    format!(
        r#"{{"id":"q{id}","method":"session/request_permission","params":{{"toolCall":{{"title":"t{id}"}},"options":{options}}}}}"#
    )
}

#[test]
fn l6_a_prompt_is_taken_when_the_program_shows_it_and_not_when_it_is_sent() {
    let mut played = acp();
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    assert!(played.out.contains("session/prompt"));
    assert_eq!(played.events(), ["native", "ready"]);
    // Comes at any time, and shows nothing.
    played.hear(r#"{"method":"session/update","params":{"update":{"sessionUpdate":"usage_update","used":1}}}"#);
    assert_eq!(played.events(), ["native", "ready"]);
    played.hear(
        r#"{"method":"session/update","params":{"update":{"sessionUpdate":"plan","entries":[]}}}"#,
    );
    assert_eq!(played.events(), ["native", "ready", "prompt"]);
}

#[test]
fn tokens_of_a_part_of_a_turn_are_not_told_as_those_of_the_turn() {
    for (program, told) in [
        ("OpenCode", &["usage-total"][..]),
        ("another", &["usage-total", "usage"]),
    ] {
        let mut played = Played::new(Box::new(Acp::new(asks())), asks());
        let info = format!(r#"{{"agentInfo":{{"name":"{program}"}},"agentCapabilities":{{}}}}"#);
        played.hear(&format!(r#"{{"id":1,"result":{info}}}"#));
        played.hear(OPENED);
        played.key(Key::Text("do it".into()));
        played.key(Key::Enter);
        played.hear(r#"{"method":"session/update","params":{"update":{"sessionUpdate":"usage_update","used":20000,"cost":{"amount":0.378,"currency":"USD"}}}}"#);
        played.hear(r#"{"id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":20000,"outputTokens":200,"totalTokens":20200}}}"#);
        let usage = |event: &&str| event.starts_with("usage");
        let usage: Vec<&str> = played.events().into_iter().filter(usage).collect();
        assert_eq!(usage, told, "{program}");
    }
}

#[test]
fn questions_are_asked_one_after_the_other() {
    let mut played = acp();
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    played.hear(&ask(1));
    played.hear(&ask(2));
    assert_eq!(played.events(), ["native", "ready", "prompt", "ask"]);
    played.key(Key::Text("1".into()));
    played.key(Key::Text("2".into()));
    assert_eq!(played.events()[3..], ["ask", "answered", "ask", "answered"]);
    assert!(
        played
            .out
            .contains(r#""id":"q1","jsonrpc":"2.0","result":{"outcome":{"optionId":"y""#)
    );
    assert!(
        played
            .out
            .contains(r#""id":"q2","jsonrpc":"2.0","result":{"outcome":{"optionId":"n""#)
    );
}

#[test]
fn an_answer_is_an_option_by_number_or_name_and_nothing_else() {
    for (typed, answered) in [
        ("1", true),
        ("Yes", true),
        ("3", false),
        ("0", false),
        ("yes please", false),
        ("1 more thing", false),
        ("+1", false),
    ] {
        let mut played = acp();
        played.key(Key::Text("do it".into()));
        played.key(Key::Enter);
        played.hear(&ask(1));
        played.key(Key::Paste(typed.into()));
        played.key(Key::Enter);
        assert_eq!(played.events().contains(&"answered"), answered, "{typed}");
    }
}

#[test]
fn options_keep_their_places_whatever_they_are_called() {
    let mut played = acp();
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    played.hear(
        r#"{"id":"q","method":"session/request_permission","params":{"toolCall":{"title":"\u001b[31mrm\u0007"},"options":[{"optionId":"a","name":"","kind":"allow_once"},{"optionId":"b","name":"N\u001bo","kind":"reject_once"}]}}"#,
    );
    let asked = r#"= ask {"kinds":["allow_once","reject_once"],"options":["option 1","No"],"text":"rm","wants":"permission"}"#;
    assert!(played.out.contains(asked), "{}", played.out);
}

#[test]
fn an_interrupt_answers_what_is_open_as_the_protocol_wants_it() {
    let mut played = acp();
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    played.hear(&ask(1));
    let acts = played.conversation.stop("stopped", played.now);
    played.tell(acts);
    assert!(played.out.contains("session/cancel"));
    assert!(
        played
            .out
            .contains(r#""result":{"outcome":{"outcome":"cancelled"}}"#)
    );
    assert_eq!(played.events()[3..], ["ask", "answered", "turn-end"]);
}

#[test]
fn a_conversation_that_cannot_be_opened_ends_it_with_the_reason() {
    let fork = setting(Begin::Fork("s".into()), Permission::Ask);
    let mut played = Played::new(Box::new(Acp::new(fork.clone())), fork);
    played.hear(INITIALIZED);
    assert!(played.out.contains("the program cannot fork conversations"));
    let resume = setting(Begin::Resume("s".into()), Permission::Ask);
    let mut played = Played::new(Box::new(Codex::new(resume.clone())), resume);
    played.hear(r#"{"id":1,"result":{}}"#);
    played.hear(r#"{"id":2,"error":{"code":-32600,"message":"no rollout found"}}"#);
    assert!(played.out.contains("no conversation: no rollout found"));
}

#[test]
fn the_permission_setting_becomes_a_mode_where_there_is_one() {
    for (permission, mode) in [
        (Permission::Ask, "read-only"),
        (Permission::Edits, "workspace-write"),
        (Permission::Full, "agent-full-access"),
    ] {
        let setting = setting(Begin::New { native: None }, permission);
        let mut played = Played::new(Box::new(Acp::new(setting.clone())), setting);
        played.hear(INITIALIZED);
        played.hear(
            r#"{"id":2,"result":{"sessionId":"s","modes":{"currentModeId":"agent","availableModes":[{"id":"read-only"},{"id":"workspace-write"},{"id":"agent"},{"id":"agent-full-access"}]}}}"#,
        );
        assert!(
            played.out.contains(&format!(r#""modeId":"{mode}""#)),
            "{}",
            played.out
        );
        assert_eq!(played.events(), ["native"]);
        played.hear(r#"{"id":3,"result":{}}"#);
        assert_eq!(played.events(), ["native", "ready"]);
    }
}

#[test]
fn a_hidden_thread_is_not_the_conversation() {
    let mut played = Played::new(Box::new(Codex::new(asks())), asks());
    played.hear(r#"{"id":1,"result":{}}"#);
    played.hear(r#"{"id":2,"result":{"thread":{"id":"mine"}}}"#);
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    played.hear(r#"{"method":"turn/started","params":{"threadId":"title","turn":{"id":"t"}}}"#);
    played.hear(r#"{"method":"turn/completed","params":{"threadId":"title","turn":{"id":"t","status":"completed"}}}"#);
    assert_eq!(played.events(), ["native", "ready"]);
    played.hear(r#"{"method":"turn/started","params":{"threadId":"mine","turn":{"id":"u"}}}"#);
    assert_eq!(played.events(), ["native", "ready", "prompt"]);
}

#[test]
fn what_claude_is_allowed_for_good_stays_in_the_session() {
    let mut played = Played::new(Box::new(Claude::new()), asks());
    played.hear(r#"{"type":"control_response","response":{"request_id":"skein-1"}}"#);
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    played.hear(
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"permission_suggestions":[{"type":"addRules","destination":"localSettings"}]}}"#,
    );
    played.key(Key::Text("2".into()));
    assert!(
        played
            .out
            .contains(r#""updatedPermissions":[{"destination":"session","type":"addRules"}]"#),
        "{}",
        played.out
    );
}

proptest::proptest! {
    #[test]
    fn l13_any_line_is_heard_by_every_protocol(
        lines in proptest::collection::vec("\\PC{0,40}", 0..5),
        method in "[a-z/]{0,12}", kind in "[a-z_]{0,12}",
    ) {
        let protocols: [Box<dyn Protocol>; 4] =
            [Box::new(Acp::new(asks())), Box::new(Claude::new()), Box::new(Codex::new(asks())), Box::new(OpenCode::new(asks()))];
        for protocol in protocols {
            let mut played = Played::new(protocol, asks());
            for line in &lines {
                played.hear(line);
            }
            played.hear(&json!({"id": 1, "method": method, "params": [], "type": kind}).to_string());
            played.hear(&json!({"id": 1, "result": [1, null], "type": kind, "message": 3}).to_string());
        }
    }
}
