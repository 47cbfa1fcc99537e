//! Conversations as the real programs had them, played again: `<` is what the program sent, `!` what people did.

use std::fmt::Write as _;
use std::path::PathBuf;

use skein_agent::turns::{TurnAnswer, TurnCall, TurnRequest};
use skein_terminal::Key;

use super::*;
use crate::args::{ConversationStart, Permission};
use crate::protocol::acp::Acp;
use crate::protocol::claude::Claude;
use crate::protocol::codex::Codex;
use crate::protocol::opencode::OpenCode;

fn setting(start: ConversationStart, permission: Permission) -> Setting {
    Setting {
        cwd: PathBuf::from("/repo"),
        start,
        permission,
        model: None,
    }
}

fn asks() -> Setting {
    setting(ConversationStart::New { native: None }, Permission::Ask)
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
        let commands = played.conversation.begin(played.now);
        played.record(commands);
        played
    }

    fn record(&mut self, commands: Vec<DriverCommand>) {
        for command in commands {
            let _ = match command {
                DriverCommand::Send(message) => writeln!(self.out, "> {message}"),
                DriverCommand::Connect(address) => writeln!(self.out, "connect {address}"),
                DriverCommand::Request(request) => match request.body {
                    Some(body) => writeln!(self.out, "> POST {} {body}", request.path),
                    None => writeln!(self.out, "> GET {}", request.path),
                },
                DriverCommand::Journal(event) => {
                    writeln!(self.out, "= {} {}", event.name, event.payload)
                }
                DriverCommand::End(why) => writeln!(self.out, "end {why:?}"),
            };
        }
        for line in self.conversation.lines() {
            let _ = writeln!(self.out, "| {}{}", line.mark, line.text);
        }
    }

    fn on_message(&mut self, line: &str) {
        let commands = self.conversation.on_message(line, self.now);
        self.record(commands);
    }

    fn key(&mut self, key: Key) {
        let commands = self.conversation.key(key, self.now);
        self.record(commands);
    }

    fn call(&mut self, id: &str, request: TurnRequest) {
        let id = id.parse().unwrap();
        let commands = self.conversation.call(TurnCall { id, request }, self.now);
        self.record(commands);
    }

    fn prompt(&mut self, id: &str, text: &str) {
        let text = text.to_owned();
        self.call(id, TurnRequest::Prompt { text });
    }

    fn choose(&mut self, id: &str, question: &str, option: usize) {
        let request = TurnRequest::Answer {
            question: question.parse().unwrap(),
            answer: TurnAnswer::Choice(option),
        };
        self.call(id, request);
    }

    /// What was journalled of calls.
    fn of_calls(&self) -> Vec<&str> {
        let lines = self.out.lines().filter_map(|line| line.strip_prefix("= "));
        lines.filter(|line| line.contains(r#""call":"#)).collect()
    }

    fn play(&mut self, recording: &str) {
        for line in recording.lines() {
            match line.split_at(2) {
                ("< ", message) => self.on_message(message),
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
    played.on_message(INITIALIZED);
    played.on_message(OPENED);
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
    played.on_message(r#"{"method":"session/update","params":{"update":{"sessionUpdate":"usage_update","used":1}}}"#);
    assert_eq!(played.events(), ["native", "ready"]);
    played.on_message(
        r#"{"method":"session/update","params":{"update":{"sessionUpdate":"plan","entries":[]}}}"#,
    );
    assert_eq!(played.events(), ["native", "ready", "prompt"]);
}

const TURN_OVER: &str = r#"{"id":3,"result":{"stopReason":"end_turn"}}"#;

#[test]
fn l6_a_call_is_accepted_before_it_is_acted_on_and_acted_on_once() {
    let mut played = acp();
    played.prompt("a", "do it");
    let accepted = played.out.find(r#"= accepted {"call":"a"}"#).unwrap();
    assert!(accepted < played.out.find("session/prompt").unwrap());
    played.prompt("a", "do it");
    played.on_message(TURN_OVER);
    played.prompt("a", "do it");
    assert_eq!(played.out.matches("session/prompt").count(), 1);
    assert_eq!(
        played.of_calls(),
        [
            r#"accepted {"call":"a"}"#,
            r#"prompt {"call":"a","text":"do it"}"#,
            r#"turn-end {"call":"a"}"#,
        ]
    );
    let mut again = acp();
    again.conversation.remember_calls(["a".to_owned()]);
    again.prompt("a", "do it");
    assert_eq!(again.of_calls(), [""; 0]);
}

#[test]
fn l6_a_prompt_that_waits_for_its_turn_is_not_accepted_yet() {
    let mut played = Played::new(Box::new(Acp::new(asks())), asks());
    played.prompt("a", "do it");
    played.prompt("b", "and that");
    assert_eq!(played.of_calls(), [""; 0], "the program is not ready");
    played.on_message(INITIALIZED);
    played.on_message(OPENED);
    assert_eq!(played.of_calls(), [r#"accepted {"call":"a"}"#]);
    let commands = played.conversation.stop("stopped", played.now);
    played.record(commands);
    // The program never showed that it had the first, and the second was not given to it.
    assert_eq!(played.of_calls(), [r#"accepted {"call":"a"}"#]);
}

#[test]
fn l6_an_answer_goes_to_the_question_it_names_and_to_no_other() {
    let mut played = acp();
    played.prompt("a", "do it");
    played.on_message(&ask(1));
    played.on_message(&ask(2));
    played.choose("b", "2.q2", 0);
    played.choose("c", "1.q1", 1);
    played.choose("d", "1.q1", 0);
    played.choose("e", "2.q2", 7);
    played.choose("f", "2.q2", 0);
    let of_answers: Vec<&str> = played
        .of_calls()
        .into_iter()
        .filter(|line| !line.contains(r#""call":"a""#))
        .collect();
    assert_eq!(
        of_answers,
        [
            r#"refused {"call":"b","reason":"the agent asks no question 2.q2"}"#,
            r#"accepted {"call":"c"}"#,
            r#"answered {"call":"c","kind":"reject_once","option":1,"question":"1.q1"}"#,
            r#"refused {"call":"d","reason":"question already answered (1.q1)"}"#,
            r#"refused {"call":"e","reason":"question 2.q2 does not take this answer: it is none of its options"}"#,
            r#"accepted {"call":"f"}"#,
            r#"answered {"call":"f","kind":"allow_once","option":0,"question":"2.q2"}"#,
        ]
    );
}

#[test]
fn l6_a_question_that_was_answered_at_the_terminal_takes_no_call() {
    let mut played = acp();
    played.prompt("a", "do it");
    played.on_message(&ask(1));
    played.key(Key::Text("1".into()));
    played.choose("b", "1.q1", 1);
    played.on_message(&ask(2));
    played.on_message(TURN_OVER);
    played.choose("c", "2.q2", 0);
    let refused: Vec<&str> = played
        .of_calls()
        .into_iter()
        .filter(|line| line.starts_with("refused"))
        .collect();
    assert_eq!(
        refused,
        [
            r#"refused {"call":"b","reason":"question already answered (1.q1)"}"#,
            r#"refused {"call":"c","reason":"question no longer asked (2.q2)"}"#,
        ]
    );
    let rejected = r#""id":"q1","jsonrpc":"2.0","result":{"outcome":{"optionId":"n""#;
    assert!(!played.out.contains(rejected), "{}", played.out);
}

#[test]
fn an_interrupt_stops_the_turn_and_nothing_when_none_runs() {
    let mut played = acp();
    played.call("a", TurnRequest::Interrupt);
    assert!(!played.out.contains("session/cancel"));
    played.prompt("b", "do it");
    played.call("c", TurnRequest::Interrupt);
    assert!(played.out.contains("session/cancel"));
    assert_eq!(
        played.of_calls(),
        [
            r#"accepted {"call":"a"}"#,
            r#"accepted {"call":"b"}"#,
            r#"accepted {"call":"c"}"#,
        ]
    );
}

#[test]
fn tokens_of_a_part_of_a_turn_are_not_told_as_those_of_the_turn() {
    for (program, expected) in [
        ("OpenCode", &["usage-total"][..]),
        ("another", &["usage-total", "usage"]),
    ] {
        let mut played = Played::new(Box::new(Acp::new(asks())), asks());
        let info = format!(r#"{{"agentInfo":{{"name":"{program}"}},"agentCapabilities":{{}}}}"#);
        played.on_message(&format!(r#"{{"id":1,"result":{info}}}"#));
        played.on_message(OPENED);
        played.key(Key::Text("do it".into()));
        played.key(Key::Enter);
        played.on_message(r#"{"method":"session/update","params":{"update":{"sessionUpdate":"usage_update","used":20000,"cost":{"amount":0.378,"currency":"USD"}}}}"#);
        played.on_message(r#"{"id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":20000,"outputTokens":200,"totalTokens":20200}}}"#);
        let usage = |event: &&str| event.starts_with("usage");
        let usage: Vec<&str> = played.events().into_iter().filter(usage).collect();
        assert_eq!(usage, expected, "{program}");
    }
}

#[test]
fn questions_are_asked_one_after_the_other() {
    let mut played = acp();
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    played.on_message(&ask(1));
    played.on_message(&ask(2));
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
        played.on_message(&ask(1));
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
    played.on_message(
        r#"{"id":"q","method":"session/request_permission","params":{"toolCall":{"title":"\u001b[31mrm\u0007"},"options":[{"optionId":"a","name":"","kind":"allow_once"},{"optionId":"b","name":"N\u001bo","kind":"reject_once"}]}}"#,
    );
    let asked = r#"= ask {"id":"1.q","kinds":["allow_once","reject_once"],"options":["option 1","No"],"text":"rm","wants":"permission"}"#;
    assert!(played.out.contains(asked), "{}", played.out);
}

#[test]
fn an_interrupt_answers_what_is_open_as_the_protocol_wants_it() {
    let mut played = acp();
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    played.on_message(&ask(1));
    let commands = played.conversation.stop("stopped", played.now);
    played.record(commands);
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
    let resume = setting(ConversationStart::Resume("s".into()), Permission::Ask);
    let mut played = Played::new(Box::new(Acp::new(resume.clone())), resume.clone());
    played.on_message(r#"{"id":1,"result":{"agentCapabilities":{}}}"#);
    assert!(
        played
            .out
            .contains("the program cannot resume conversations")
    );
    let mut played = Played::new(Box::new(Codex::new(resume.clone())), resume);
    played.on_message(r#"{"id":1,"result":{}}"#);
    played.on_message(r#"{"id":2,"error":{"code":-32600,"message":"no rollout found"}}"#);
    assert!(played.out.contains("no conversation: no rollout found"));
}

#[test]
fn the_permission_setting_becomes_a_mode_where_there_is_one() {
    for (permission, mode) in [
        (Permission::Ask, "read-only"),
        (Permission::Edits, "workspace-write"),
        (Permission::Full, "agent-full-access"),
    ] {
        let setting = setting(ConversationStart::New { native: None }, permission);
        let mut played = Played::new(Box::new(Acp::new(setting.clone())), setting);
        played.on_message(INITIALIZED);
        played.on_message(
            r#"{"id":2,"result":{"sessionId":"s","modes":{"currentModeId":"agent","availableModes":[{"id":"read-only"},{"id":"workspace-write"},{"id":"agent"},{"id":"agent-full-access"}]}}}"#,
        );
        assert!(
            played.out.contains(&format!(r#""modeId":"{mode}""#)),
            "{}",
            played.out
        );
        assert_eq!(played.events(), ["native"]);
        played.on_message(r#"{"id":3,"result":{}}"#);
        assert_eq!(played.events(), ["native", "ready"]);
    }
}

#[test]
fn a_hidden_thread_is_not_the_conversation() {
    let mut played = Played::new(Box::new(Codex::new(asks())), asks());
    played.on_message(r#"{"id":1,"result":{}}"#);
    played.on_message(r#"{"id":2,"result":{"thread":{"id":"mine"}}}"#);
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    played
        .on_message(r#"{"method":"turn/started","params":{"threadId":"title","turn":{"id":"t"}}}"#);
    played.on_message(r#"{"method":"turn/completed","params":{"threadId":"title","turn":{"id":"t","status":"completed"}}}"#);
    assert_eq!(played.events(), ["native", "ready"]);
    played
        .on_message(r#"{"method":"turn/started","params":{"threadId":"mine","turn":{"id":"u"}}}"#);
    assert_eq!(played.events(), ["native", "ready", "prompt"]);
}

#[test]
fn what_claude_is_allowed_for_good_stays_in_the_session() {
    let mut played = Played::new(Box::new(Claude::new()), asks());
    played.on_message(r#"{"type":"control_response","response":{"request_id":"skein-1"}}"#);
    played.key(Key::Text("do it".into()));
    played.key(Key::Enter);
    played.on_message(
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
                played.on_message(line);
            }
            played.on_message(&json!({"id": 1, "method": method, "params": [], "type": kind}).to_string());
            played.on_message(&json!({"id": 1, "result": [1, null], "type": kind, "message": 3}).to_string());
        }
    }
}
