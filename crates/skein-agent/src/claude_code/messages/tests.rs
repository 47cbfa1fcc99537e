//! Lines as they stand in a tree.

use super::*;

fn line(kind: &str, uuid: &str, parent: &str, content: &str) -> String {
    format!(
        r#"{{"parentUuid":{parent},"type":"{kind}","uuid":"{uuid}","timestamp":"2026-11-17T11:01:01.627Z","message":{{"role":"{kind}","content":{content}}}}}"#
    )
}

fn prompt(uuid: &str, parent: &str) -> String {
    line("user", uuid, &format!("\"{parent}\""), "\"go on\"")
}

/// What a reader tells, in short.
fn read(lines: &[String]) -> Vec<String> {
    let mut messages = TranscriptMessages::default();
    let readings = lines
        .iter()
        .flat_map(|l| messages.line(l, TokenUsage::default()));
    readings
        .map(|reading| match reading {
            Reading::Message(message) => format!("{:?} {}", message.role, message.id),
            Reading::Rewound { to } => format!("back to {to}"),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_prompt_that_leaves_another_behind_goes_back() {
    let reply = |uuid: &str, parent: &str| {
        let content = r#"[{"type":"text","text":"yes"}]"#;
        line("assistant", uuid, &format!("\"{parent}\""), content)
    };
    let lines = [
        line("user", "u1", "null", "\"begin\""),
        reply("a1", "u1"),
        line("attachment", "x1", "\"a1\"", "null"),
        prompt("u2", "x1"),
        reply("a2", "u2"),
        prompt("u3", "x1"),
        reply("a3", "u3"),
        prompt("u4", "unknown"),
    ];
    assert_eq!(
        read(&lines),
        [
            "User u1",
            "Assistant a1",
            "User u2",
            "Assistant a2",
            "back to a1",
            "User u3",
            "Assistant a3",
            "User u4",
        ]
    );
}

#[test]
fn calls_made_side_by_side_leave_nothing() {
    let call = |uuid: &str, parent: &str| {
        let content =
            format!(r#"[{{"type":"tool_use","id":"{uuid}","name":"Bash","input":{{}}}}]"#);
        line("assistant", uuid, &format!("\"{parent}\""), &content)
    };
    let result = |uuid: &str, parent: &str| {
        let content =
            format!(r#"[{{"type":"tool_result","tool_use_id":"{parent}","content":"ok"}}]"#);
        line("user", uuid, &format!("\"{parent}\""), &content)
    };
    let lines = [
        line("user", "u1", "null", "\"begin\""),
        call("c1", "u1"),
        call("c2", "c1"),
        result("r1", "c1"),
        result("r2", "c2"),
        prompt("u2", "r2"),
        // It was interrupted: the first of the results is what it goes on from.
        prompt("u3", "r1"),
    ];
    let readings = read(&lines);
    assert_eq!(readings[5..], ["User u2", "back to r1", "User u3"]);
}

#[test]
fn what_is_not_said_by_anybody_is_left_out() {
    let with =
        |more: &str| line("user", "u", "null", "\"words\"").replacen('{', &format!("{{{more},"), 1);
    let lines = [
        with(r#""isSidechain":true"#),
        with(r#""isMeta":true"#),
        with(r#""isCompactSummary":true"#),
        line(
            "user",
            "u",
            "null",
            "\"<command-name>/cost</command-name>\"",
        ),
        line(
            "user",
            "u",
            "null",
            "\"<system-reminder>be brief</system-reminder>\"",
        ),
        line("user", "u", "null", "\"  \""),
        line("system", "u", "null", "\"words\""),
        line(
            "assistant",
            "u",
            "null",
            r#"[{"type":"text","text":"API Error"}],"model":"<synthetic>""#,
        ),
    ];
    assert_eq!(read(&lines), [""; 0]);
}

#[test]
fn pictures_are_kept_by_reference() {
    let content = r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGVsbG8="}},{"type":"text","text":"look"}]"#;
    let mut messages = TranscriptMessages::default();
    let readings = messages.line(&line("user", "u1", "null", content), TokenUsage::default());
    let [Reading::Message(message)] = &readings[..] else {
        panic!("{readings:?}")
    };
    let Block::Image(image) = &message.blocks[0] else {
        panic!("{message:?}")
    };
    assert_eq!(image.media_type, "image/png");
    assert!(image.source.starts_with("blake3:"), "{image:?}");
    assert_eq!(message.native, None);
}
