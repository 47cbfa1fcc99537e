//! All four protocols, spoken to a running server by a small client.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod client;
mod dialect;

use std::time::Duration;

use serde_json::{Value, json};
use skein_model_server::{Outcome, Script, Server, Settings};

use client::{ask, get, send};
use dialect::{DIALECTS, Said};

const SOON: Duration = Duration::from_secs(20);

async fn server() -> Server {
    Server::start(Settings::default()).await.unwrap()
}

#[tokio::test]
async fn each_result_brings_the_next_step() {
    let server = server().await;
    for dialect in DIALECTS {
        let prompt = "do it: [[bash touch a ;; tokens 7 9 ;; say all is done]]";
        let first = dialect.said(&server, prompt, 0).await;
        let [(name, arguments)] = first.calls.as_slice() else {
            panic!("{dialect:?}: {first:?}");
        };
        assert_eq!((name.as_str(), first.text.as_str()), (dialect.shell, ""));
        let command = arguments.get("command").or_else(|| arguments.get("cmd"));
        assert_eq!(command, Some(&json!("touch a")));
        let second = dialect.said(&server, prompt, 1).await;
        let expected = Said {
            text: "all is done".into(),
            calls: vec![],
            usage: (7, 9),
        };
        assert_eq!(second, expected, "{dialect:?}");
        // Asked again, it is answered again: nothing but the conversation counts.
        assert_eq!(dialect.said(&server, prompt, 1).await, expected);
    }
    let exchanges = server.exchanges();
    let steps: Vec<_> = exchanges.iter().map(|e| (e.protocol, e.step)).collect();
    let each = DIALECTS.map(|d| [0, 1, 1].map(|step| (d.protocol, Some(step))));
    assert_eq!(steps, each.concat());
}

#[tokio::test]
async fn calls_in_one_answer_count_as_one_step() {
    let server = server().await;
    for dialect in DIALECTS {
        let prompt = "[[both bash a // bash b ;; say c]]";
        let first = dialect.said(&server, prompt, 0).await;
        assert_eq!(first.calls.len(), 2, "{dialect:?}");
        assert_eq!(dialect.said(&server, prompt, 2).await.text, "c");
    }
}

#[tokio::test]
async fn a_failure_is_given_once_and_its_retry_goes_on() {
    let server = server().await;
    for dialect in DIALECTS {
        let prompt = "[[error 503 busy ;; rate-limit 30 ;; say half ;; drop ;; say done]]";
        let failed = dialect.ask(&server, prompt, 0).await;
        assert_eq!(failed.status, 503, "{dialect:?}");
        assert_eq!(failed.json()["error"]["message"], "busy");
        let limited = dialect.ask(&server, prompt, 0).await;
        assert_eq!(limited.status, 429, "{dialect:?}");
        assert_eq!(limited.header("retry-after"), Some("30"));
        let cut = dialect.ask(&server, prompt, 0).await;
        assert!(!cut.whole, "{dialect:?}");
        assert!(cut.body.contains("half"), "{dialect:?}: {}", cut.body);
        assert_eq!(dialect.said(&server, prompt, 0).await.text, "done");
    }
    let outcomes: Vec<_> = server
        .exchanges()
        .iter()
        .map(|e| e.outcome.unwrap())
        .collect();
    let each = [
        Outcome::Complete,
        Outcome::Complete,
        Outcome::Dropped,
        Outcome::Complete,
    ];
    assert_eq!(outcomes, each.repeat(4));
}

#[tokio::test]
async fn a_conversation_that_begins_alike_fails_alike() {
    let server = server().await;
    let prompt = "[[error 500 ;; bash a ;; say done]]";
    for dialect in DIALECTS {
        for _ in 0..2 {
            assert_eq!(dialect.ask(&server, prompt, 0).await.status, 500);
            assert_eq!(dialect.said(&server, prompt, 0).await.calls.len(), 1);
            assert_eq!(dialect.said(&server, prompt, 1).await.text, "done");
        }
    }
}

#[tokio::test]
async fn a_named_session_remembers_its_failures() {
    let server = server().await;
    let messages = json!([{ "role": "user", "content": "[[error 500 ;; say done]]" }]);
    let body = json!({ "model": "m", "messages": messages });
    for (session, status) in [("a", 500), ("a", 200), ("b", 500), ("a", 200), ("b", 200)] {
        let headers = [("x-session-id", session)];
        let answer = send(&server, "POST", "/v1/chat/completions", &headers, &body).await;
        assert_eq!(answer.status, status, "{session}");
    }
}

#[tokio::test]
async fn without_a_directive_the_script_decides() {
    let script = "[[reply]]\nwhen = \"tests\"\nsteps = [\"bash true\", \"say ran\"]\n\
                  [defaults]\nsay = \"hm\"\ninput_tokens = 3\noutput_tokens = 4\n";
    let server = Server::start(Settings {
        script: Script::parse(script).unwrap(),
        ..Settings::default()
    })
    .await
    .unwrap();
    for dialect in DIALECTS {
        assert_eq!(dialect.said(&server, "run tests", 0).await.calls.len(), 1);
        assert_eq!(dialect.said(&server, "run tests", 1).await.text, "ran");
        assert_eq!(dialect.said(&server, "[[say b]] tests", 0).await.text, "b");
        let said = dialect.said(&server, "hello", 0).await;
        assert_eq!((said.text.as_str(), said.usage), ("hm", (3, 4)));
    }
}

#[tokio::test]
async fn an_unknown_step_is_explained_in_the_answer() {
    let server = server().await;
    for dialect in DIALECTS {
        let said = dialect.said(&server, "[[dance]]", 0).await;
        assert!(said.text.starts_with("unknown step `dance`"), "{said:?}");
    }
}

#[tokio::test]
async fn what_is_not_streamed_says_the_same() {
    let server = server().await;
    let messages = json!([{ "role": "user", "content": "[[say hello you]]" }]);
    let body = json!({ "model": "m", "messages": messages });
    let answer = ask(&server, "/v1/chat/completions", &body).await;
    assert_eq!(
        answer.json()["choices"][0]["message"]["content"],
        "hello you"
    );
    let answer = ask(&server, "/v1/messages", &body).await;
    assert_eq!(answer.json()["content"][0]["text"], "hello you");
    let body = json!({ "model": "m", "input": "[[say hello you]]" });
    let answer = ask(&server, "/v1/responses", &body).await;
    assert_eq!(
        answer.json()["output"][0]["content"][0]["text"],
        "hello you"
    );
    let body = json!({ "contents": [{ "parts": [{ "text": "[[say hello you]]" }] }] });
    let answer = ask(&server, "/v1beta/models/m:generateContent", &body).await;
    let content = &answer.json()["candidates"][0]["content"];
    assert_eq!(content["parts"][0]["text"], "hello you");
    let answer = ask(&server, "/v1beta/models/m:countTokens", &body).await;
    assert!(answer.json()["totalTokens"].as_u64().unwrap() > 0);
    let answer = ask(&server, "/v1/messages/count_tokens", &body).await;
    assert!(answer.json()["input_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_title_is_hidden_and_does_not_use_up_the_directive() {
    let server = server().await;
    let prompt = "[[error 500 ;; say done]]";
    let title = json!({
        "model": "m",
        "messages": [
            { "role": "system", "content": "You make titles." },
            { "role": "user", "content": prompt },
        ],
    });
    assert_eq!(
        ask(&server, "/v1/chat/completions", &title).await.status,
        200
    );
    assert!(server.exchanges()[0].hidden);
    let chat = DIALECTS[2];
    assert_eq!(chat.ask(&server, prompt, 0).await.status, 500);
    assert_eq!(chat.said(&server, prompt, 0).await.text, "done");
    assert!(!server.exchanges()[1].hidden);
}

#[tokio::test]
async fn a_router_gets_json_by_its_schema() {
    let server = server().await;
    let body = json!({
        "contents": [{ "role": "user", "parts": [{ "text": "[[say a]]" }] }],
        "generationConfig": { "responseJsonSchema": {
            "type": "object",
            "properties": { "model_choice": { "type": "string", "enum": ["flash", "pro"] } },
        } },
    });
    let answer = ask(&server, "/v1beta/models/m:generateContent", &body).await;
    let part = &answer.json()["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(part, r#"{"model_choice":"flash"}"#);
}

#[tokio::test]
async fn codex_s_judge_is_hidden_and_gets_a_verdict() {
    let server = server().await;
    let body = json!({
        "model": "m",
        "input": "Judge this: [[escalate ls]]",
        "tools": [{ "type": "function", "name": "exec_command" }],
        "text": { "format": { "type": "json_schema", "schema": {
            "type": "object",
            "properties": { "outcome": { "type": "string", "enum": ["allow", "deny"] } },
        } } },
    });
    let headers = [
        ("session-id", "s"),
        ("thread-id", "t"),
        ("x-openai-subagent", "guardian"),
    ];
    let answer = send(&server, "POST", "/v1/responses", &headers, &body).await;
    let text = &answer.json()["output"][0]["content"][0]["text"];
    assert_eq!(text, r#"{"outcome":"allow"}"#);
    let exchange = server.exchanges().remove(0);
    assert!(exchange.hidden);
    let named = (exchange.session.as_deref(), exchange.thread.as_deref());
    assert_eq!(named, (Some("s"), Some("t")));
}

#[tokio::test]
async fn an_agent_without_tools_gets_files_as_text() {
    let server = server().await;
    let body = json!({
        "model": "m",
        "messages": [
            { "role": "system", "content": "Act as an expert software developer. Use a *file listing*." },
            { "role": "user", "content": "[[write a.txt one\\ntwo ;; say done]]" },
        ],
    });
    let answer = ask(&server, "/v1/chat/completions", &body).await;
    assert_eq!(
        answer.json()["choices"][0]["message"]["content"],
        "a.txt\n```\none\ntwo\n```\n\ndone"
    );
}

#[tokio::test]
async fn the_record_tells_the_past_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    let server = Server::start(Settings {
        log: Some(log.clone()),
        ..Settings::default()
    })
    .await
    .unwrap();
    let user = |text: &str| json!({ "role": "user", "content": text });
    let body = json!({
        "model": "claude-x",
        "messages": [user("first"), { "role": "assistant", "content": "a" }, user("[[say b]]")],
        "tools": [{ "name": "Bash" }],
        "stream": true,
    });
    let headers = [
        ("authorization", "Bearer SECRET"),
        ("x-api-key", "SECRET"),
        ("x-claude-code-session-id", "s-1"),
    ];
    send(&server, "POST", "/v1/messages?key=SECRET", &headers, &body).await;
    let exchanges = server
        .wait_for(SOON, |all| all.iter().any(|e| e.ended_ms.is_some()))
        .await
        .unwrap();
    let [exchange] = exchanges.as_slice() else {
        panic!("{exchanges:?}");
    };
    assert_eq!(exchange.session.as_deref(), Some("s-1"));
    assert_eq!(exchange.model.as_deref(), Some("claude-x"));
    assert_eq!(exchange.history.users, ["first", "[[say b]]"]);
    assert_eq!(exchange.history.messages, 3);
    assert_eq!(exchange.last_user.as_deref(), Some("[[say b]]"));
    assert_eq!(exchange.tools, ["Bash"]);
    assert_eq!((exchange.n, exchange.status), (1, Some(200)));
    assert!(exchange.is_turn());
    let lines = std::fs::read_to_string(log).unwrap();
    let events: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["event"], "begin");
    assert_eq!(events[1]["event"], "end");
    assert_eq!(events[1]["outcome"], "complete");
    assert_eq!(events.len(), 2);
    assert!(!lines.contains("SECRET"));
}

#[tokio::test]
async fn an_agent_that_leaves_is_seen() {
    let server = server().await;
    for dialect in DIALECTS {
        let body = (dialect.request)(json!([(dialect.user)("[[think 600 ;; say a]]")]), &["x"]);
        let asking = ask(&server, dialect.path, &body);
        let begun = |all: &[skein_model_server::Exchange]| {
            all.iter().any(|e| e.protocol == dialect.protocol)
        };
        tokio::select! {
            _ = asking => panic!("answered at once"),
            begun = server.wait_for(SOON, begun) => drop(begun.unwrap()),
        }
        let gone = |all: &[skein_model_server::Exchange]| {
            all.iter()
                .any(|e| e.protocol == dialect.protocol && e.outcome == Some(Outcome::Gone))
        };
        server.wait_for(SOON, gone).await.unwrap();
    }
}

#[tokio::test]
async fn what_does_not_come_is_late() {
    let server = server().await;
    let late = server.wait_for(Duration::ZERO, |_| false).await;
    assert!(late.unwrap_err().to_string().contains("0 exchanges"));
}

#[tokio::test]
async fn looks_at_the_server_are_answered() {
    let server = server().await;
    assert_eq!(get(&server, "/healthz").await.json()["ok"], true);
    assert_eq!(
        get(&server, "/v1/models").await.json()["data"][0]["id"],
        "fake-1"
    );
    let hello = send(&server, "HEAD", "/api/hello", &[], &Value::Null).await;
    assert_eq!((hello.status, hello.body.as_str()), (200, ""));
    let socket = [("upgrade", "websocket"), ("connection", "upgrade")];
    let socket = send(&server, "GET", "/v1/responses", &socket, &Value::Null).await;
    assert_eq!(socket.status, 404);
    let unknown = ask(&server, "/v1/embeddings", &json!({})).await;
    assert_eq!(unknown.status, 404);
    let broken = ask(&server, "/v1/messages", &Value::Null).await;
    assert_eq!(broken.status, 200);
}

#[tokio::test]
async fn nobody_else_gets_in() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = Server::start(Settings {
            listen: address.parse().unwrap(),
            ..Settings::default()
        })
        .await
        .unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let server = server().await;
    let address = server.address();
    get(&server, "/healthz").await;
    drop(server);
    // The listener goes when the runtime next runs the task that held it.
    tokio::task::yield_now().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
