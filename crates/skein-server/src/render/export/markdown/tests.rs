//! A reader of Markdown that is simpler and stricter than any other: it takes every character for markup that one
//! could, unless it is escaped.

use proptest::prelude::*;
use serde_json::json;
use skein_domain::Timestamp;
use skein_transcript::MessageRole;
use skein_transcript::message::{Image, ToolCall, ToolResult};

use super::*;

/// What a page has outside of text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    headings: Vec<String>,
    /// Fenced blocks, verbatim.
    fenced: Vec<String>,
    /// The text of all other lines, unescaped.
    text: Vec<String>,
}

fn read(page: &str) -> Result<Page, String> {
    let mut out = Page::default();
    let mut fence: Option<(usize, Vec<&str>)> = None;
    for line in page.split('\n') {
        let quotes = line.bytes().take_while(|b| *b == b'`').count();
        match &mut fence {
            Some((opened, held)) => {
                if quotes >= *opened && line.trim_end().len() == quotes {
                    out.fenced.push(held.join("\n"));
                    fence = None;
                } else {
                    held.push(line);
                }
                continue;
            }
            None if quotes >= 3 => {
                fence = Some((quotes, vec![]));
                continue;
            }
            None => {}
        }
        let inner = line.strip_prefix("> ").unwrap_or(line);
        match inner {
            "" | ">" | "> *thinking*" | "*thinking*" => {}
            heading if heading.starts_with('#') => out.headings.push(heading.to_owned()),
            ours if ours.starts_with("**→ ") || ours.starts_with("**← ") => {
                let name = ours
                    .strip_suffix("**")
                    .ok_or("emphasis that does not end")?;
                out.text.push(unescape(&name["**→ ".len()..])?);
            }
            ours if ours.starts_with("*image:* ") => out.text.push(unescape(&ours[9..])?),
            text => out.text.push(unescape(text)?),
        }
    }
    match fence {
        None => Ok(out),
        Some(_) => Err("a fence is not closed".into()),
    }
}

/// The text of a line; an error if anything in it is not text.
fn unescape(line: &str) -> Result<String, String> {
    let wrong = |what: &str| Err(format!("{what} in {line:?}"));
    if line.starts_with(['#', '+', '-', '=', ':', '%', ' ', '\t']) {
        return wrong("markup at the beginning");
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && line[digits..].starts_with(['.', ')']) {
        return wrong("a numbered list");
    }
    let (mut text, mut rest) = (String::new(), line);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => match rest.chars().next() {
                // A line break.
                None => {}
                Some(c) if c.is_ascii_punctuation() => {
                    text.push(c);
                    rest = &rest[1..];
                }
                Some(_) => return wrong("a stray backslash"),
            },
            '&' => {
                let known = [
                    ("amp;", '&'),
                    ("lt;", '<'),
                    ("gt;", '>'),
                    ("nbsp;", ' '),
                    ("emsp;", ' '),
                ];
                let found = known.iter().find(|(name, _)| rest.starts_with(name));
                let Some((name, c)) = found else {
                    return wrong("an unknown entity");
                };
                text.push(*c);
                rest = &rest[name.len()..];
            }
            '`' | '*' | '_' | '[' | ']' | '<' | '>' | '~' | '|' | '$' | '{' | '}' | '!' | '^'
            | '#' => {
                return wrong("markup");
            }
            c => text.push(c),
        }
    }
    Ok(text)
}

/// With spaces of one kind, each tab as one, and none at the end.
fn plain(line: &str) -> String {
    let words = line.trim_end().chars();
    words
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .collect()
}

/// The lines that a text has for a reader, without those that are blank.
fn lines(text: &str) -> Vec<String> {
    let text = clean(text);
    let kept = text.lines().filter(|l| !l.trim().is_empty());
    kept.map(plain).collect()
}

fn check(text: &str) {
    let call = ToolCall {
        id: text.into(),
        name: text.into(),
        input: json!({ text: text }),
    };
    let result = ToolResult {
        call: text.into(),
        content: vec![Part::Text(text.into())],
        outcome: ToolOutcome::Done,
    };
    let picture = Image {
        media_type: text.into(),
        source: text.into(),
    };
    let blocks = vec![
        Block::Text(text.into()),
        Block::Thinking {
            text: text.into(),
            signature: None,
        },
        Block::ToolCall(call),
        Block::ToolResult(result),
        Block::Image(picture),
    ];
    let at = Timestamp::from_micros(1_790_000_000_000_000);
    let user = Message::new("m".parse().unwrap(), MessageRole::User, blocks, at);
    let page = message(&user, false) + &message(&user, true);
    let read = read(&page).unwrap_or_else(|e| panic!("{e}: {text:?} gave\n{page}"));
    let heading = format!("## User · {}", time(at));
    let hidden = format!("{heading} · *hidden from the model by a summary*");
    assert_eq!(read.headings, [heading, hidden], "{text:?} gave\n{page}");
    assert_eq!(read.fenced.len(), 4, "{text:?} gave\n{page}");
    assert_eq!(
        read.fenced[1],
        clean(text).trim_end(),
        "what tools say is verbatim"
    );
    let expected = lines(text);
    let shown: Vec<String> = read.text.iter().map(|l| plain(l)).collect();
    assert!(shown.starts_with(&expected), "{text:?} gave\n{page}");
}

const EVIL: &[&str] = &[
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!-- ",
    " -->",
    "\n",
    "\n\n",
    "\r",
    "\u{2028}",
    "\u{85}",
    "\t",
    "    ",
    " ",
    "# heading",
    "## User · 2026-01-01T00:00:00Z",
    "---",
    "===",
    "***",
    "- item",
    "+ item",
    "12. item",
    "3) item",
    "> quote",
    "```",
    "``",
    "`",
    "~~~",
    "\u{1}",
    "\u{0}",
    "[x]: javascript:alert(1)",
    "[x](javascript:alert(1))",
    "![x](http://x/y.png)",
    "<javascript:alert(1)>",
    "[^1]: note",
    "|a|b|",
    "|---|---|",
    "**bold**",
    "__bold__",
    "&lt;script&gt;",
    "&#60;script&#62;",
    "\\",
    "\\\n",
    "$$x$$",
    ":::",
    "{{x}}",
    "word",
    "**→ bash**",
    "é",
    "\u{202e}",
];

#[test]
fn l15_no_markup_of_a_message_reaches_a_document() {
    EVIL.iter().for_each(|text| check(text));
    check("text\n## User · 2026-01-01T00:00:00Z\nforged\n===\n---");
    check("``\u{1}`\n## Assistant · forged\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn l15_all_text_of_messages_is_escaped(parts in prop::collection::vec(prop::sample::select(EVIL), 0..12)) {
        check(&parts.concat());
    }

    #[test]
    fn l15_any_characters_are_text(text in any::<String>()) {
        check(&text);
    }
}
