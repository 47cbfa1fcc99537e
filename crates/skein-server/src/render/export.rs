//! Whole transcripts as files: one piece at the beginning, one for every message, one at the end, so that
//! no export has to fit in memory.

mod html;
mod markdown;

use skein_domain::{Invalid, Session};
use skein_transcript::message::CoveredRange;
use skein_transcript::{Message, PositionedMessage};

use super::transcript;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A message in each line, in the form of the API.
    JsonLines,
    Markdown,
    /// One page that needs nothing else.
    Html,
    /// A snapshot of zeitlich, packed.
    Zeitlich,
}

impl Format {
    pub(crate) fn parse(word: &str) -> Result<Self, Invalid> {
        Ok(match word {
            "jsonl" => Self::JsonLines,
            "markdown" => Self::Markdown,
            "html" => Self::Html,
            "zeitlich" => Self::Zeitlich,
            _ => {
                let why = "expected `jsonl`, `markdown`, `html` or `zeitlich`";
                return Err(Invalid::new("format", word, why));
            }
        })
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::JsonLines => "application/x-ndjson",
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Zeitlich => "application/gzip",
        }
    }
}

pub(crate) fn begin(format: Format, session: &Session) -> String {
    match format {
        Format::JsonLines | Format::Zeitlich => String::new(),
        Format::Markdown => markdown::begin(session),
        Format::Html => html::begin(session),
    }
}

/// One message; `hidden` are the parts that summaries stand for.
pub(crate) fn message(
    format: Format,
    placed: &PositionedMessage,
    hidden: &[CoveredRange],
) -> String {
    let is_hidden = hidden
        .iter()
        .any(|c| (c.from..c.end).contains(&placed.position));
    match format {
        Format::Zeitlich => String::new(),
        Format::JsonLines => {
            let line = serde_json::to_string(&transcript::exported(placed));
            line.unwrap_or_default() + "\n"
        }
        Format::Markdown => markdown::message(&placed.message, is_hidden),
        Format::Html => html::message(&placed.message, is_hidden),
    }
}

pub(crate) fn end(format: Format) -> &'static str {
    match format {
        Format::Html => html::END,
        Format::JsonLines | Format::Markdown | Format::Zeitlich => "",
    }
}

fn heading(message: &Message) -> &'static str {
    match (message.covers.is_some(), message.role) {
        (true, _) => "Summary",
        (false, skein_transcript::MessageRole::System) => "System",
        (false, skein_transcript::MessageRole::User) => "User",
        (false, skein_transcript::MessageRole::Assistant) => "Assistant",
        (false, skein_transcript::MessageRole::Tool) => "Tool",
    }
}

/// Adds a character, without control characters and with bidirectional ones as escapes.
fn push_visible(out: &mut String, c: char) {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            out.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
        }
        c if c.is_control() => {}
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skein_domain::session::NewSession;
    use skein_domain::{AgentName, Allowance, Timestamp};
    use skein_transcript::message::{Part, ToolCall, ToolOutcome, ToolResult};
    use skein_transcript::{Block, MessageRole};

    use super::*;

    const EVIL: &str = "<script>alert('\"&')</script>\u{0}\u{1b}[31m```";

    fn session() -> Session {
        Session::ready(NewSession {
            id: "api-1".parse().unwrap(),
            project: "prj_0123456789abcdef".parse().unwrap(),
            thread: "thr_0123456789abcdef".parse().unwrap(),
            parent: None,
            depth: 0,
            owner: "user:ann".parse().unwrap(),
            agent: AgentName::none(),
            task: "fix <b>it</b>".parse().unwrap(),
            allowance: Allowance::UNLIMITED,
            broadcast: None,
            at: Timestamp::from_micros(0),
        })
    }

    fn evil() -> PositionedMessage {
        let call = ToolCall {
            id: EVIL.into(),
            name: EVIL.into(),
            input: json!({ EVIL: EVIL }),
        };
        let result = ToolResult {
            call: EVIL.into(),
            content: vec![Part::Text(EVIL.into())],
            outcome: ToolOutcome::Failed,
        };
        let blocks = vec![
            Block::Text(EVIL.into()),
            Block::Thinking {
                text: EVIL.into(),
                signature: None,
            },
            Block::ToolCall(call),
            Block::ToolResult(result),
            Block::Image(skein_transcript::message::Image {
                media_type: EVIL.into(),
                source: format!("javascript:{EVIL}"),
            }),
        ];
        let id = "<i>&\"".parse().unwrap();
        let at = Timestamp::from_micros(1_790_000_000_000_000);
        PositionedMessage {
            position: 3,
            message: Message::new(id, MessageRole::Assistant, blocks, at),
            damage: None,
        }
    }

    #[test]
    fn l15_no_markup_of_a_message_reaches_a_page() {
        let page = begin(Format::Html, &session())
            + &message(Format::Html, &evil(), &[CoveredRange { from: 0, end: 9 }])
            + end(Format::Html);
        for bad in ["<script", "<b>it", "<i>", "\u{0}", "\u{1b}", "href", "src="] {
            assert!(!page.contains(bad), "{bad:?} in {page}");
        }
        assert!(page.contains("&lt;script&gt;alert(&#39;&quot;&amp;&#39;)"));
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("default-src 'none'"));
    }

    #[test]
    fn a_call_and_its_time_are_told_in_short() {
        let call = ToolCall {
            id: "c".into(),
            name: "Bash".into(),
            input: json!({"description": "say it", "command": "echo <hi>\necho ho"}),
        };
        let at = Timestamp::from_micros(1_790_000_000_123_456);
        let id = "m".parse().unwrap();
        let message = Message::new(id, MessageRole::Assistant, vec![Block::ToolCall(call)], at);
        let page = super::message(
            Format::Html,
            &PositionedMessage {
                position: 0,
                message,
                damage: None,
            },
            &[],
        );
        assert!(
            page.contains("<summary>→ Bash echo &lt;hi&gt;</summary>"),
            "{page}"
        );
        assert!(page.contains(":20Z</time>"), "{page}");
    }

    #[test]
    fn fences_are_longer_than_what_they_hold() {
        let text = message(Format::Markdown, &evil(), &[]);
        assert!(text.contains("````"), "{text}");
    }

    #[test]
    fn lines_are_json_each() {
        let text = message(Format::JsonLines, &evil(), &[]);
        assert_eq!(text.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["position"], &value["role"]),
            (&json!(3), &json!("assistant"))
        );
    }
}
