//! A transcript as Markdown. All headings and emphasis are ours: the words of people, models and tools are escaped, so
//! that no message can imitate another or bring markup of its own.

use skein_domain::Session;
use skein_transcript::message::{Part, ToolOutcome};
use skein_transcript::{Block, Message};

use super::{heading, push_visible};
use crate::render::time;

pub(super) fn begin(session: &Session) -> String {
    format!(
        "# {}\n\nSession {}, owned by {}\n",
        line(&session.task.display_name()),
        line(session.id.as_str()),
        line(&session.owner.to_string())
    )
}

pub(super) fn message(message: &Message, is_hidden: bool) -> String {
    let hidden = if is_hidden {
        " · *hidden from the model by a summary*"
    } else {
        ""
    };
    let mut out = format!("\n## {} · {}{hidden}\n", heading(message), time(message.at));
    for block in &message.blocks {
        out.push('\n');
        out.push_str(&self::block(block));
    }
    out
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(text) => paragraphs(text),
        Block::Thinking { text, .. } => {
            let text = paragraphs(text);
            let quoted = text
                .lines()
                .map(|l| format!("> {l}").trim_end().to_owned() + "\n");
            format!("> *thinking*\n>\n{}", quoted.collect::<String>())
        }
        Block::ToolCall(call) => {
            let input = serde_json::to_string_pretty(&call.input).unwrap_or_default();
            format!("**→ {}**\n\n{}", line(&call.name), fenced(&input, "json"))
        }
        Block::ToolResult(result) => {
            let word = match result.outcome {
                ToolOutcome::Done => "result",
                ToolOutcome::Failed => "failed",
            };
            let parts: Vec<String> = result.content.iter().map(part).collect();
            format!("**← {word}**\n\n{}", fenced(&parts.join("\n"), ""))
        }
        Block::Image(image) => format!("*image:* {}\n", line(&image.source)),
    }
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Image(image) => format!("(image: {})", image.source),
    }
}

/// A fenced block, with more back quotes than stand anywhere in the text.
fn fenced(text: &str, language: &str) -> String {
    let text = clean(text);
    let (mut longest, mut run) = (2, 0);
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

/// Text in several lines: each stays a line, blank ones divide paragraphs.
fn paragraphs(text: &str) -> String {
    let text = clean(text);
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut lines = text.trim_end().lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            out.push('\n');
            continue;
        }
        escape(line, &mut out);
        // A backslash before the end of a line is a line break.
        if lines.peek().is_some_and(|next| !next.trim().is_empty()) {
            out.push('\\');
        }
        out.push('\n');
    }
    out
}

/// Text in one line.
fn line(text: &str) -> String {
    let mut out = String::new();
    escape(&clean(text).replace(['\n', '\t'], " "), &mut out);
    out
}

/// One line as text: no character of it has a meaning in Markdown or HTML.
fn escape(line: &str, out: &mut String) {
    let text = line.trim_start();
    // Four leading spaces would begin a block of code, and fewer are dropped.
    for c in line[..line.len() - text.len()].chars() {
        out.push_str(if c == '\t' { "&emsp;" } else { "&nbsp;" });
    }
    // The sign behind the number in a numbered list.
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    for (at, c) in text.trim_end().char_indices() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '{' | '}' | '~' | '|' | '$' | '!' | '^' | '#' => {
                out.extend(['\\', c]);
            }
            '+' | '-' | '=' | ':' | '%' if at == 0 => out.extend(['\\', c]),
            '.' | ')' if at == digits && digits > 0 => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
}

/// The text with line ends of one kind and without control characters. Bidirectional control characters are shown as
/// escapes.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            c => push_visible(&mut out, c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
