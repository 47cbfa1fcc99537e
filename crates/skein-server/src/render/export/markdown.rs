//! A transcript as Markdown. What people and models say is Markdown already and stands as it is; what tools
//! say is fenced.

use skein_domain::Session;
use skein_transcript::message::{Outcome, Part};
use skein_transcript::{Block, Message};

use super::heading;
use crate::render::time;

pub(super) fn begin(session: &Session) -> String {
    let name = line(&session.task.display_name());
    format!(
        "# {name}\n\nSession `{}`, owned by {}\n",
        session.id, session.owner
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
        Block::Text(text) => format!("{}\n", clean(text).trim_end()),
        Block::Thinking { text, .. } => {
            let text = clean(text);
            let quoted = text.lines().map(|l| format!("> {l}\n"));
            format!("> *thinking*\n>\n{}", quoted.collect::<String>())
        }
        Block::ToolCall(call) => {
            let input = serde_json::to_string_pretty(&call.input).unwrap_or_default();
            format!("**→ {}**\n\n{}", line(&call.name), fenced(&input, "json"))
        }
        Block::ToolResult(result) => {
            let word = match result.outcome {
                Outcome::Done => "result",
                Outcome::Failed => "failed",
            };
            let parts: Vec<String> = result.content.iter().map(part).collect();
            format!("**← {word}**\n\n{}", fenced(&parts.join("\n"), ""))
        }
        Block::Image(image) => format!("*image: {}*\n", line(&image.source)),
    }
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Image(image) => format!("(image: {})", image.source),
    }
}

/// Fenced by more back quotes than stand anywhere in the text.
fn fenced(text: &str, language: &str) -> String {
    let (mut longest, mut run) = (2, 0);
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}{language}\n{}\n{fence}\n", clean(text).trim_end())
}

/// Without what a terminal would act on.
fn clean(text: &str) -> String {
    let stays = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(stays).collect()
}

fn line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}
