//! `skein transcript append`

use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _};

use clap::Args;
use serde_json::Value;
use skein_wire::{Append, Appended, Block, NewMessage, Part};

use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Most bytes of one message; the daemon has the same limit.
const MOST: usize = skein_transcript::Message::MOST;
/// A line of JSON may be longer than its message.
const LINE: usize = 2 * MOST;
/// Lines are appended in batches of about this many bytes.
const TOGETHER: usize = 8 * 1024 * 1024;
/// Highest cost of one message that the daemon accepts.
const MOST_DOLLARS: f64 = 1e9;
/// Who may have written a message.
pub(super) const ROLES: [&str; 4] = ["user", "assistant", "tool", "system"];

/// Append a message, or one message per line of JSON on stdin
///
/// A line is `{"id": …, "role": …, "text": …}`, or has `content` blocks instead of `text`; the lines of `transcript
/// export` work too. Nothing is appended if a line cannot be read. A message that is already there is not added again,
/// so the command can be repeated.
#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The role of the message
    #[arg(long, value_parser = ROLES, requires = "text")]
    role: Option<String>,
    /// The id of the message; an id is stored once [default: derived from the key, or a new one]
    #[arg(long, value_name = "ID", requires = "text")]
    id: Option<String>,
    /// The text; without it, lines of JSON are read from stdin
    #[arg(long, value_name = "T", requires = "role")]
    text: Option<String>,
    /// With `--role tool`: the call that this is the result of
    #[arg(long, value_name = "CALL", requires = "text")]
    call: Option<String>,
    /// Refuse unless this is the session's current run
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: AppendArgs) -> Result<(), UserError> {
    let batches = match (args.role, args.text) {
        (Some(role), Some(text)) => {
            let id = args.id.unwrap_or_else(|| new_id(args.key.key.as_deref()));
            vec![vec![one(role, id, text, args.call)?]]
        }
        _ => {
            if io::stdin().is_terminal() {
                return Err(nothing("nothing to append"));
            }
            lines(BufReader::new(io::stdin().lock()))?
        }
    };
    let key = args.key.key.is_some().then(|| args.key.get());
    if key.is_some() && batches.len() > 1 {
        let error = UserError::misuse("the messages need several calls, and a key is for one call");
        return Err(error.hint(
            "leave out `--key`; the command can be repeated anyway, because message ids are unique",
        ));
    }
    let client = context.client().await?;
    let mut sum: Option<Appended> = None;
    for messages in batches {
        let body = Append {
            messages,
            run: args.run,
        };
        let done = client.append(&args.session, &body, key.as_ref()).await?;
        sum = Some(match sum {
            None => done,
            Some(before) => Appended {
                added: before.added + done.added,
                already: before.already + done.already,
                ..done
            },
        });
    }
    let Some(done) = sum else {
        return Err(nothing("nothing to append: stdin is empty"));
    };
    context.out.show(&done, |_| {
        let already = match done.already {
            0 => String::new(),
            n => format!(", {} already there", text::number(n)),
        };
        format!("{} appended{already}", text::number(done.added))
    })
}

fn nothing(what: &str) -> UserError {
    UserError::misuse(what).hint("use `--role user --text TEXT`, or lines of JSON on stdin")
}

/// Derived from the key, so that a repeated call has the same id.
fn new_id(key: Option<&str>) -> String {
    match key {
        Some(key) => format!("msg-{}", &blake3::hash(key.as_bytes()).to_hex()[..32]),
        None => format!("msg-{}", skein_client::IdempotencyKey::random().as_str()),
    }
}

fn one(
    role: String,
    id: String,
    text: String,
    call: Option<String>,
) -> Result<NewMessage, UserError> {
    if text.len() > MOST {
        return Err(too_large(text.len(), None));
    }
    let message = NewMessage {
        id,
        role,
        ..NewMessage::default()
    };
    match call {
        None => Ok(NewMessage {
            text: Some(text),
            ..message
        }),
        Some(call) if message.role == "tool" => Ok(NewMessage {
            content: vec![Block::ToolResult {
                call,
                content: vec![Part::Text { text }],
                failed: false,
            }],
            ..message
        }),
        Some(_) => Err(UserError::misuse("`--call` needs `--role tool`")),
    }
}

fn too_large(size: usize, line: Option<usize>) -> UserError {
    let (place, left) = match line {
        Some(n) => (format!(" in line {n}"), "; nothing was appended"),
        None => (String::new(), ""),
    };
    let limit = MOST / 1024 / 1024;
    let error = UserError::refused(format!(
        "the message{place} is too long: {} bytes or more",
        text::number(size as u64)
    ))
    .hint(format!(
        "the limit is {limit} MiB; put larger content into a file and refer to it{left}"
    ));
    match line {
        Some(n) => error.detail("line", n as u64),
        None => error,
    }
}

/// All lines, in batches. Reads to the end before anything is sent, so that a bad line changes nothing.
fn lines(mut input: impl io::BufRead) -> Result<Vec<Vec<NewMessage>>, UserError> {
    let (mut batches, mut batch, mut bytes) = (vec![], vec![], 0);
    for number in 1.. {
        let mut line = vec![];
        let read = input
            .by_ref()
            .take(LINE as u64 + 1)
            .read_until(b'\n', &mut line);
        let size =
            read.map_err(|error| UserError::misuse("cannot read stdin").caused_by(&error))?;
        if size == 0 {
            break;
        }
        if size > LINE {
            return Err(too_large(size, Some(number)));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let message = message(&line).map_err(|why| {
            UserError::misuse(format!(
                "line {number} is not a message: {}",
                text::line(&why)
            ))
            .hint("a line is `{\"id\": …, \"role\": \"user\", \"text\": …}`; nothing was appended")
            .detail("line", Some(number as u64))
        })?;
        if text_size(&message) > MOST {
            return Err(too_large(text_size(&message), Some(number)));
        }
        if !batch.is_empty() && bytes + size > TOGETHER {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(message);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    Ok(batches)
}

/// Parses one line. Ignores the fields that an export adds.
fn message(line: &[u8]) -> Result<NewMessage, String> {
    let line = line.trim_ascii();
    let mut value: Value = serde_json::from_slice(line).map_err(|e| in_column(&e))?;
    if let Some(object) = value.as_object_mut() {
        for added in ["position", "run", "covers", "damaged"] {
            object.remove(added);
        }
    }
    let message: NewMessage = serde_json::from_value(value).map_err(|e| e.to_string())?;
    let id: Result<skein_domain::MessageId, _> = message.id.parse();
    id.map_err(|e| e.to_string())?;
    if !ROLES.contains(&message.role.as_str()) {
        return Err(format!(
            "role `{}` is not `system`, `user`, `assistant` or `tool`",
            message.role
        ));
    }
    if message.text.is_none() && message.content.is_empty() && message.native.is_none() {
        return Err("it has neither `text` nor `content`".to_owned());
    }
    if let Some(at) = &message.at {
        let time: Result<jiff::Timestamp, _> = at.parse();
        time.map_err(|_| format!("`at` is `{at}`, not a time such as 2026-11-17T03:04:05Z"))?;
    }
    let cost = message.usage.as_ref().map_or(0.0, |usage| usage.cost_usd);
    if !(0.0..=MOST_DOLLARS).contains(&cost) {
        return Err(format!(
            "cost_usd {cost} is not between 0 and {MOST_DOLLARS}"
        ));
    }
    Ok(message)
}

/// The bytes of its texts. Its stored form is longer; the daemon measures that.
fn text_size(message: &NewMessage) -> usize {
    let part = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::Image { source, .. } => source.len(),
    };
    let block = |block: &Block| match block {
        Block::Text { text } | Block::Thinking { text, .. } => text.len(),
        Block::ToolCall { .. } => 0,
        Block::ToolResult { content, .. } => content.iter().map(part).sum(),
        Block::Image { source, .. } => source.len(),
    };
    message.text.as_ref().map_or(0, String::len)
        + message.content.iter().map(block).sum::<usize>()
        + message.native.as_ref().map_or(0, |n| n.payload.len())
}

/// What is wrong, and in which column; the caller knows the line.
fn in_column(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => format!("{what} in column {}", error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bad_line_is_named() {
        for (input, line) in [
            (
                "{\"id\":\"a\",\"role\":\"user\",\"text\":\"x\"}\n\nnonsense\n",
                3,
            ),
            ("{\"id\":\"a b\",\"role\":\"user\",\"text\":\"x\"}", 1),
            ("{\"id\":\"a\",\"role\":\"boss\",\"text\":\"x\"}", 1),
            ("{\"id\":\"a\",\"role\":\"user\"}", 1),
            ("{\"id\":\"a\",\"role\":\"user\",\"txt\":\"x\"}", 1),
            (
                "\n{\"id\":\"a\",\"role\":\"user\",\"text\":\"x\",\"at\":\"noon\"}",
                2,
            ),
            (
                "\n{\"id\":\"a\",\"role\":\"user\",\"text\":\"x\",\"usage\":{\"cost_usd\":-1}}",
                2,
            ),
        ] {
            let error = lines(input.as_bytes()).unwrap_err();
            let expected = format!("line {line} is not a message");
            assert!(
                error.message().starts_with(&expected),
                "{}",
                error.message()
            );
            assert!(error.hints()[0].ends_with("; nothing was appended"));
        }
    }

    #[test]
    fn a_line_that_says_too_much_is_named() {
        let good = "{\"id\":\"a\",\"role\":\"user\",\"text\":\"x\"}";
        for size in [MOST + 1, LINE] {
            let long = good.replace("\"x\"", &format!("\"{}\"", "x".repeat(size)));
            let error = lines(format!("{good}\n{long}\n").as_bytes()).unwrap_err();
            let told = error.message();
            assert!(
                told.starts_with("the message in line 2 is too long: "),
                "{told}"
            );
            assert!(error.hints()[0].ends_with("; nothing was appended"));
        }
    }

    #[test]
    fn a_bad_line_has_one_number_and_a_column() {
        let error = lines("\n{\"id\": \n".as_bytes()).unwrap_err();
        assert_eq!(
            error.message(),
            "line 2 is not a message: EOF while parsing a value in column 6"
        );
    }

    #[test]
    fn exported_lines_are_taken() {
        let line = br#"{"position":3,"id":"a","role":"user","content":[{"type":"text","text":"x"}],"at":"2026-11-17T03:04:05Z","run":1}"#;
        assert_eq!(message(line).unwrap().content.len(), 1);
    }
}
