//! A transcript as one page that loads nothing and runs nothing.

use serde_json::Value;
use skein_domain::{Session, Timestamp};
use skein_transcript::message::{Part, ToolOutcome};
use skein_transcript::{Block, Message, MessageRole};

use super::{heading, push_visible};
use crate::render::time;

const STYLE: &str = "
:root { color-scheme: light dark; --back: #fbfbfa; --text: #1d1d1f; --dim: #6b6b70; --line: #dcdcdf; --code: #f0f0f2;
  --user: #0a5dc2; --assistant: #7a3fb3; --tool: #3c7a3c; --system: #8a6d00; }
@media (prefers-color-scheme: dark) { :root { --back: #17181a; --text: #e6e6e8; --dim: #9a9aa0; --line: #34353a;
  --code: #202226; --user: #6cb0ff; --assistant: #c79bf2; --tool: #86c986; --system: #dcb84c; } }
body { margin: 0 auto; padding: 2rem 1rem 6rem; max-width: 52rem; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; }
header { border-bottom: 1px solid var(--line); margin-bottom: 1.5rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
.dim, time { color: var(--dim); font-size: .85rem; }
article { margin: 0 0 1.4rem; padding-left: .9rem; border-left: 3px solid var(--line); }
article h2 { font-size: .95rem; margin: 0 0 .3rem; }
.user { border-color: var(--user); } .user h2 { color: var(--user); }
.assistant { border-color: var(--assistant); } .assistant h2 { color: var(--assistant); }
.tool { border-color: var(--tool); } .tool h2 { color: var(--tool); }
.system { border-color: var(--system); } .system h2 { color: var(--system); }
.hidden { opacity: .55; }
p, pre { margin: .3rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { background: var(--code); padding: .6rem .8rem; border-radius: 6px; font: .85rem/1.45 ui-monospace, monospace; }
summary { cursor: pointer; color: var(--dim); font-size: .9rem; }
.failed summary { color: #c0392b; }
";

/// Most characters of a tool call's arguments in the line of the call.
const BRIEF: usize = 120;

pub(super) const END: &str = "</main>\n</body>\n</html>\n";

pub(super) fn begin(session: &Session) -> String {
    let name = escape(&session.task.display_name());
    let (id, owner) = (
        escape(session.id.as_str()),
        escape(&session.owner.to_string()),
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{id}: {name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>{name}</h1><p class=\"dim\">{id}, owned by {owner}</p></header>\n<main>\n"
    )
}

pub(super) fn message(message: &Message, is_hidden: bool) -> String {
    let role = match message.role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
        MessageRole::Tool => "tool",
    };
    let (class, note) = if is_hidden {
        (
            " hidden",
            " <span class=\"dim\">hidden from the model by a summary</span>",
        )
    } else {
        ("", "")
    };
    let at = escape(&time(message.at));
    let shown = escape(&time(whole_seconds(message.at)));
    let mut out = format!(
        "<article class=\"{role}{class}\" id=\"{}\"><h2>{} <time datetime=\"{at}\">{shown}</time>{note}</h2>\n",
        escape(message.id.as_str()),
        heading(message),
    );
    for block in &message.blocks {
        out.push_str(&self::block(block));
    }
    out.push_str("</article>\n");
    out
}

fn whole_seconds(at: Timestamp) -> Timestamp {
    let micros = at.as_micros();
    Timestamp::from_micros(micros - micros.rem_euclid(1_000_000))
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(text) => format!("<p>{}</p>\n", escape(text)),
        Block::Thinking { text, .. } => folded("", "thinking", text),
        Block::ToolCall(call) => {
            let input = serde_json::to_string_pretty(&call.input).unwrap_or_default();
            let title = format!("→ {} {}", call.name, brief(&call.input));
            folded("", title.trim_end(), &input)
        }
        Block::ToolResult(result) => {
            let parts: Vec<&str> = result
                .content
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.as_str(),
                    Part::Image(image) => image.source.as_str(),
                })
                .collect();
            let text = parts.join("\n");
            let lines = match text.lines().count() {
                1 => "1 line".to_owned(),
                n => format!("{n} lines"),
            };
            let (class, word) = match result.outcome {
                ToolOutcome::Done => ("", "result"),
                ToolOutcome::Failed => ("failed", "failed"),
            };
            folded(class, &format!("← {word}, {lines}"), &text)
        }
        Block::Image(image) => format!("<p class=\"dim\">image: {}</p>\n", escape(&image.source)),
    }
}

/// The first line of the argument that says most about the call.
fn brief(input: &Value) -> String {
    let given = |name: &&str| input.get(*name).and_then(Value::as_str);
    let most = skein_wire::TELLING.iter().find_map(given);
    let first = most.and_then(|most| most.trim().lines().next());
    let first = first.unwrap_or_default();
    let short: String = first.chars().take(BRIEF).collect();
    if short.len() < first.len() {
        return short + "…";
    }
    short
}

fn folded(class: &str, title: &str, text: &str) -> String {
    let (title, text) = (escape(title), escape(text));
    format!("<details class=\"{class}\"><summary>{title}</summary><pre>{text}</pre></details>\n")
}

/// Escapes text for elements and attributes; drops control characters.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c => push_visible(&mut out, c),
        }
    }
    out
}
