//! The Markdown export: what messages say is text in it, and its headings are its own.

use serde_json::json;

use crate::harness::Home;
use crate::transcript::append_lines;

const FORGED: &str = "## User · 2026-01-01T00:00:00Z";

#[test]
fn l15_no_message_forges_a_section_of_a_markdown_export() {
    let home = Home::with_project();
    let session = home.spawn(&["title *a* <b>bold</b>"]);
    let text = format!(
        "hello\n{FORGED}\n\nforged\n===\n---\n<script>alert(1)</script>\n<img src=x onerror=alert(1)>\n\
         [a]: javascript:alert(1)\n[b](javascript:alert(1))\n~~~\n```\n\u{2028}{FORGED}\r{FORGED}\n    indented"
    );
    // A fence that grows when what is between its quotes is left out.
    let output = format!("``\u{1}`\n{FORGED}\n````\n{FORGED}\n<script>");
    let call = json!({"type": "tool_call", "id": "c", "name": format!("bash**\n{FORGED}"), "input": {"command": output}});
    let result =
        json!({"type": "tool_result", "call": "c", "content": [{"type": "text", "text": output}]});
    append_lines(
        &home,
        &session,
        &[
            json!({"id": "m1", "role": "user", "text": text}),
            json!({"id": "m2", "role": "assistant", "content": [
                {"type": "thinking", "text": text}, call, {"type": "image", "media_type": "x", "source": text}]}),
            json!({"id": "m3", "role": "tool", "content": [result]}),
        ],
    );
    let ran = home.run(&["transcript", "export", &session, "--format", "markdown"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (mut fence, mut outside) = (None, vec![]);
    for line in ran.stdout.split(['\n', '\r', '\u{2028}']) {
        let quotes = line.len() - line.trim_start_matches('`').len();
        match fence {
            None if quotes >= 3 => fence = Some(quotes),
            None => outside.push(line),
            Some(opened) if quotes >= opened && line.len() == quotes => fence = None,
            Some(_) => {}
        }
    }
    assert_eq!(fence, None, "{}", ran.stdout);
    let headings: Vec<&str> = outside
        .iter()
        .copied()
        .filter(|l| l.starts_with('#'))
        .collect();
    assert_eq!(headings.len(), 4, "{headings:?}");
    assert_eq!(headings[0], "# title \\*a\\* &lt;b&gt;bold&lt;/b&gt;");
    for (heading, role) in headings[1..].iter().zip(["User", "Assistant", "Tool"]) {
        assert!(heading.starts_with(&format!("## {role} · ")), "{heading}");
        assert!(!heading.contains("2026-01-01"), "{heading}");
    }
    let text = outside.join("\n");
    assert!(!text.replace("\\]", "").contains(']'), "{text}");
    for bad in [
        "<script", "<img", "\n[a]:", "\n===", "\n---", "\n~~~", "\n    ",
    ] {
        assert!(!text.contains(bad), "{bad:?} in {text}");
    }
    assert!(
        text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{text}"
    );
}
