//! One of each stored form, as it is on disk for ever.

use insta::assert_snapshot;
use serde_json::json;
use skein_domain::{Kind, Timestamp};

use super::*;
use crate::chain::{Chain, ForkOrigin, InheritedRange, StrandRef};
use crate::id::RunNumber;
use crate::message::{
    Block, CoveredRange, Image, MessageRole, Native, Part, ToolCall, ToolOutcome, ToolResult,
};
use crate::state::{StateSlice, Task, TaskStatus};
use crate::usage::TokenUsage;

fn image() -> Image {
    Image {
        media_type: "image/png".into(),
        source: "blake3:00".into(),
    }
}

fn message() -> Message {
    Message {
        id: "m1".parse().unwrap(),
        role: MessageRole::Assistant,
        blocks: vec![
            Block::Text("hello".into()),
            Block::Thinking {
                text: "hm".into(),
                signature: Some("sig".into()),
            },
            Block::ToolCall(ToolCall {
                id: "c1".into(),
                name: "Bash".into(),
                input: json!({ "command": "ls" }),
            }),
            Block::ToolResult(ToolResult {
                call: "c1".into(),
                content: vec![Part::Text("file".into()), Part::Image(image())],
                outcome: ToolOutcome::Failed,
            }),
            Block::Image(image()),
        ],
        native: Some(Native {
            provider: "anthropic".into(),
            payload: "{ \"b\":1,\"a\" :2.50}".into(),
        }),
        usage: TokenUsage {
            input: 1,
            output: 2,
            cache_read: 3,
            cache_write: 4,
            reasoning: 5,
            cost_micros: 6,
        },
        at: Timestamp::from_micros(7),
        run: RunNumber(8),
        covers: Some(CoveredRange { from: 9, end: 10 }),
    }
}

fn state() -> VersionedState {
    let mut state = StateSlice::default();
    for id in ["1", "2"] {
        let task = Task {
            subject: "s".into(),
            description: "d".into(),
            active_form: "a".into(),
            status: TaskStatus::InProgress,
            metadata: [("k".to_owned(), "v".to_owned())].into(),
        };
        state.tasks.put(id, task).unwrap();
    }
    state.tasks.block("1", "2").unwrap();
    state.custom.insert("key".into(), json!([1, null]));
    VersionedState { version: 3, state }
}

fn check(content: Content) -> String {
    let marks = Marks {
        messages: 4,
        state: Some(2),
    };
    let payload = payload(marks, &content).unwrap();
    let text = String::from_utf8(payload.clone()).unwrap();
    let stored = Entry {
        position: 5,
        chain: Chain::START,
        payload,
    };
    let decoded = DecodedEntry {
        marks: Some(marks),
        content,
        damage: None,
    };
    assert_eq!(entry(&stored), decoded);
    text
}

#[test]
fn stored_messages_keep_their_form() {
    assert_snapshot!(check(Content::Message(Box::new(message()))), @r##"{"v":1,"n":4,"s":2,"message":{"id":"m1","role":"assistant","blocks":[{"kind":"text","text":"hello"},{"kind":"thinking","text":"hm","signature":"sig"},{"kind":"tool_call","id":"c1","name":"Bash","input":{"command":"ls"}},{"kind":"tool_result","call":"c1","content":[{"kind":"text","text":"file"},{"kind":"image","media_type":"image/png","source":"blake3:00"}],"failed":true},{"kind":"image","media_type":"image/png","source":"blake3:00"}],"native":{"provider":"anthropic","payload":"{ \"b\":1,\"a\" :2.50}"},"usage":{"input":1,"output":2,"cache_read":3,"cache_write":4,"reasoning":5,"cost_micros":6},"at":7,"run":8,"covers":[9,10]}}"##);
    let plain = Message::new(
        "m".parse().unwrap(),
        MessageRole::User,
        vec![],
        Timestamp::from_micros(1),
    );
    assert_snapshot!(check(Content::Message(Box::new(plain))), @r##"{"v":1,"n":4,"s":2,"message":{"id":"m","role":"user","blocks":[],"at":1,"run":0}}"##);
}

#[test]
fn stored_states_keep_their_form() {
    assert_snapshot!(check(Content::State(Box::new(state()))), @r##"{"v":1,"n":4,"s":2,"state":{"version":3,"tasks":{"1":{"subject":"s","description":"d","active_form":"a","status":"in_progress","metadata":{"k":"v"}},"2":{"subject":"s","description":"d","active_form":"a","status":"in_progress","metadata":{"k":"v"}}},"edges":[["1","2"]],"custom":{"key":[1,null]}}}"##);
}

#[test]
fn stored_strands_and_heads_keep_their_form() {
    let place = StrandRef {
        transcript: "api-1".parse().unwrap(),
        strand: 2,
    };
    let link = InheritedRange {
        place,
        start: 0,
        end: 5,
        chain: Chain([1; 32]),
    };
    let one = Strand {
        start: 5,
        lineage: vec![link],
    };
    let body = strand_body(&one).unwrap();
    assert_eq!(strand(&body).unwrap(), one);
    assert_snapshot!(body, @r##"{"v":1,"start":5,"lineage":[{"transcript":"api-1","strand":2,"start":0,"end":5,"chain":"0101010101010101010101010101010101010101010101010101010101010101"}]}"##);
    let now = TranscriptHead {
        version: 1,
        run: RunNumber(2),
        strand: 3,
        strands: 4,
        end: 5,
        chain: Chain([6; 32]),
        marks: Marks {
            messages: 7,
            state: None,
        },
        spent: TokenUsage::default(),
        origin: Some(ForkOrigin {
            transcript: "api-1".parse().unwrap(),
            end: 5,
            chain: Chain([1; 32]),
        }),
        created_at: Timestamp::from_micros(8),
        touched_at: Timestamp::from_micros(9),
        said_at: Timestamp::from_micros(i64::MIN),
    };
    let body = head_body(&now).unwrap();
    assert_eq!(head(&body).unwrap(), now);
    assert!(body.len() < 1024);
    assert_snapshot!(body, @r##"{"v":1,"version":1,"run":2,"strand":3,"strands":4,"end":5,"chain":"0606060606060606060606060606060606060606060606060606060606060606","messages":7,"state":null,"spent":{"input":0,"output":0,"cache_read":0,"cache_write":0,"reasoning":0,"cost_micros":0},"origin":{"transcript":"api-1","end":5,"chain":"0101010101010101010101010101010101010101010101010101010101010101"},"created_at":8,"touched_at":9,"said_at":-9223372036854775808}"##);
}

#[test]
fn l13_what_cannot_be_read_is_told_and_never_guessed() {
    for bad in [
        "",
        "{}",
        "[]",
        "{\"v\":2}",
        "{\"v\":1,\"start\":3,\"lineage\":[]}",
    ] {
        assert_eq!(strand(bad).unwrap_err().kind(), Kind::Unavailable, "{bad}");
        assert_eq!(head(bad).unwrap_err().kind(), Kind::Unavailable, "{bad}");
    }
    let newer = strand("{\"v\":2}").unwrap_err();
    assert!(
        newer.to_string().contains("does not know form 2"),
        "{newer}"
    );
}

/// The message that is shown for a stored payload, and whether its marks were read.
fn shown(payload: &str) -> (Message, bool) {
    let stored = Entry {
        position: 5,
        chain: Chain::START,
        payload: payload.into(),
    };
    let decoded = entry(&stored);
    assert_eq!(decoded.damage.unwrap().stored, payload.as_bytes());
    match decoded.content {
        Content::Message(message) => (*message, decoded.marks.is_some()),
        Content::State(state) => panic!("{state:?}"),
    }
}

#[test]
fn l13_as_much_is_read_of_a_damaged_entry_as_can_be() {
    let deep = format!("{}{}", "[".repeat(3_000), "]".repeat(3_000));
    let whole = check(Content::Message(Box::new(message())));
    let (read, marks) = shown(&whole.replace(r#"{"command":"ls"}"#, &deep));
    assert!(marks);
    let mut expected = message();
    for block in &mut expected.blocks {
        if let Block::ToolCall(call) = block {
            call.input = serde_json::from_str::<json::TruncatedValue>(&deep)
                .unwrap()
                .0;
        }
    }
    assert_eq!(read, expected);
    let (read, marks) = shown(&whole.replace(r#""kind":"thinking""#, r#""kind":"dreaming""#));
    assert!(marks && read.blocks.len() == message().blocks.len());
    assert_eq!(
        read.blocks[1],
        Block::Text("[a block of kind `dreaming` cannot be read]".into())
    );
    let (read, marks) = shown(&whole.replace(r#""role":"assistant""#, r#""role":"king""#));
    assert_eq!((read.id.as_str(), marks), ("m1", true));
    for garbage in ["", "{", "\u{0}", &whole[..whole.len() - 1]] {
        let (read, marks) = shown(garbage);
        assert_eq!((read.id.as_str(), marks), ("damaged:5", false), "{garbage}");
    }
}

#[test]
fn l13_a_state_is_read_but_for_what_is_too_deep_in_it() {
    let deep = format!("{}{}", "[".repeat(3_000), "]".repeat(3_000));
    let whole = check(Content::State(Box::new(state())));
    let stored = Entry {
        position: 5,
        chain: Chain::START,
        payload: whole.replace("[1,null]", &deep).into(),
    };
    let Content::State(read) = entry(&stored).content else {
        panic!("a state");
    };
    assert_eq!(read.state.tasks, state().state.tasks);
    assert!(read.state.custom["key"].to_string().contains(json::OMITTED));
}
