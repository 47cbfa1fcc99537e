//! Transcripts on the wire, both ways.

use serde_json::{Value, json};
use skein_domain::{Invalid, MessageId, SessionId, Timestamp};
use skein_ledger::transcript::{Overview, TranscriptEdit, TranscriptUsage};
use skein_transcript::index::{Excerpt, Hit};
use skein_transcript::message::{Image, Native, Part, ToolCall, ToolOutcome, ToolResult};
use skein_transcript::service::{HotCopy, Hydrated};
use skein_transcript::state::{Task, TaskStatus};
use skein_transcript::{
    Block, Message, MessageRole, PositionedMessage, StateSlice, TokenUsage, VersionedState,
};
use skein_wire as wire;

use super::{dollars, time};
use crate::route::{Fraction, micros};

pub(crate) fn role(role: MessageRole) -> &'static str {
    match role {
        MessageRole::System => "system",
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
        MessageRole::Tool => "tool",
    }
}

pub(crate) fn parse_role(word: &str) -> Result<MessageRole, Invalid> {
    let all = [
        MessageRole::System,
        MessageRole::User,
        MessageRole::Assistant,
        MessageRole::Tool,
    ];
    let why = "expected `system`, `user`, `assistant` or `tool`";
    let found = all.into_iter().find(|r| role(*r) == word);
    found.ok_or_else(|| Invalid::new("role", word, why))
}

pub(crate) fn placed(placed: &PositionedMessage) -> wire::Message {
    wire::Message {
        position: Some(placed.position),
        damaged: placed.damage.as_ref().map(|damage| wire::DamagedEntry {
            reason: damage.reason.clone(),
            stored: None,
            stored_hex: None,
        }),
        ..message(&placed.message)
    }
}

/// The same for an export, with the stored form of what could not be read.
pub(crate) fn exported(placed: &PositionedMessage) -> wire::Message {
    let damaged = placed.damage.as_ref().map(|damage| {
        let text = std::str::from_utf8(&damage.stored).ok();
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
        wire::DamagedEntry {
            reason: damage.reason.clone(),
            stored: text.map(str::to_owned),
            stored_hex: text.is_none().then(|| hex(&damage.stored)),
        }
    });
    wire::Message {
        damaged,
        ..self::placed(placed)
    }
}

pub(crate) fn message(m: &Message) -> wire::Message {
    wire::Message {
        position: None,
        id: m.id.to_string(),
        role: role(m.role).into(),
        content: m.blocks.iter().map(block).collect(),
        native: m.native.as_ref().map(|n| wire::Native {
            provider: n.provider.clone(),
            payload: n.payload.clone(),
        }),
        usage: (m.usage != TokenUsage::default()).then(|| usage(m.usage)),
        at: time(m.at),
        run: m.run.0,
        covers: m.covers.map(|c| wire::Covers {
            from: c.from,
            end: c.end,
        }),
        damaged: None,
    }
}

fn block(block: &Block) -> wire::Block {
    match block.clone() {
        Block::Text(text) => wire::Block::Text { text },
        Block::Thinking { text, signature } => wire::Block::Thinking { text, signature },
        Block::ToolCall(ToolCall { id, name, input }) => wire::Block::ToolCall { id, name, input },
        Block::ToolResult(ToolResult {
            call,
            content,
            outcome,
        }) => wire::Block::ToolResult {
            call,
            content: content.into_iter().map(part).collect(),
            failed: outcome == ToolOutcome::Failed,
        },
        Block::Image(Image { media_type, source }) => wire::Block::Image { media_type, source },
    }
}

fn part(part: Part) -> wire::Part {
    match part {
        Part::Text(text) => wire::Part::Text { text },
        Part::Image(Image { media_type, source }) => wire::Part::Image { media_type, source },
    }
}

pub(crate) fn usage(u: TokenUsage) -> wire::MessageUsage {
    wire::MessageUsage {
        input_tokens: u.input,
        output_tokens: u.output,
        cache_read_tokens: u.cache_read,
        cache_write_tokens: u.cache_write,
        reasoning_tokens: u.reasoning,
        cost_usd: dollars(u.cost_micros),
    }
}

fn parse_usage(u: &wire::MessageUsage) -> Result<TokenUsage, Invalid> {
    use crate::route::tokens;
    Ok(TokenUsage {
        input: tokens(u.input_tokens)?,
        output: tokens(u.output_tokens)?,
        cache_read: tokens(u.cache_read_tokens)?,
        cache_write: tokens(u.cache_write_tokens)?,
        reasoning: tokens(u.reasoning_tokens)?,
        cost_micros: micros(u.cost_usd, Fraction::Up)?,
    })
}

/// A message to append; without a time of its own it gets the time of the append.
pub(crate) fn parse_message(m: wire::NewMessage) -> Result<Message, Invalid> {
    let mut blocks: Vec<Block> = vec![];
    blocks.extend(m.text.map(Block::Text));
    blocks.extend(m.content.into_iter().map(parse_block));
    if blocks.is_empty() && m.native.is_none() {
        let why = "it says nothing: give it `text` or `content`";
        return Err(Invalid::new("message", &m.id, why));
    }
    let at = match &m.at {
        Some(at) => parse_time("time", at)?,
        None => Timestamp::from_micros(i64::MAX),
    };
    Ok(Message {
        native: m.native.map(|n| Native {
            provider: n.provider,
            payload: n.payload,
        }),
        usage: m
            .usage
            .as_ref()
            .map_or(Ok(TokenUsage::default()), parse_usage)?,
        ..Message::new(m.id.parse()?, parse_role(&m.role)?, blocks, at)
    })
}

fn parse_block(block: wire::Block) -> Block {
    match block {
        wire::Block::Text { text } => Block::Text(text),
        wire::Block::Thinking { text, signature } => Block::Thinking { text, signature },
        wire::Block::ToolCall { id, name, input } => Block::ToolCall(ToolCall { id, name, input }),
        wire::Block::ToolResult {
            call,
            content,
            failed,
        } => Block::ToolResult(ToolResult {
            call,
            content: content.into_iter().map(parse_part).collect(),
            outcome: if failed {
                ToolOutcome::Failed
            } else {
                ToolOutcome::Done
            },
        }),
        wire::Block::Image { media_type, source } => Block::Image(Image { media_type, source }),
    }
}

fn parse_part(part: wire::Part) -> Part {
    match part {
        wire::Part::Text { text } => Part::Text(text),
        wire::Part::Image { media_type, source } => Part::Image(Image { media_type, source }),
    }
}

pub(crate) fn parse_time(what: &'static str, text: &str) -> Result<Timestamp, Invalid> {
    let parsed: Result<jiff::Timestamp, _> = text.parse();
    let why = "expected a time as in 2026-11-17T03:04:05Z";
    let at = parsed.map_err(|_| Invalid::new(what, text, why))?;
    Ok(Timestamp::from_micros(at.as_microsecond()))
}

/// The summary of `from` to `through`; its id follows from both, so that a repeated call has no effect.
pub(crate) fn summary(body: &wire::Compact) -> Result<Message, Invalid> {
    if body.text.trim().is_empty() {
        return Err(Invalid::new("summary", &body.text, "it is empty"));
    }
    let id: MessageId = match &body.id {
        Some(id) => id.parse()?,
        None => {
            let hash = blake3::hash(format!("{}\n{}", body.from, body.through).as_bytes());
            format!("summary-{}", &hash.to_hex()[..16]).parse()?
        }
    };
    let blocks = vec![Block::Text(body.text.clone())];
    Ok(Message::new(
        id,
        MessageRole::User,
        blocks,
        Timestamp::from_micros(0),
    ))
}

pub(crate) fn state(session: &SessionId, versioned: &VersionedState) -> wire::State {
    let tasks = &versioned.state.tasks;
    let task = |(id, t): (&str, &Task)| {
        let task = wire::Task {
            subject: t.subject.clone(),
            description: t.description.clone(),
            active_form: t.active_form.clone(),
            status: status(t.status).into(),
            metadata: t.metadata.clone(),
            blocked_by: tasks.blocked_by(id).map(str::to_owned).collect(),
        };
        (id.to_owned(), task)
    };
    wire::State {
        session: session.to_string(),
        version: versioned.version,
        tasks: tasks.iter().map(task).collect(),
        custom: versioned.state.custom.clone(),
    }
}

fn status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Pending => "pending",
        TaskStatus::InProgress => "in_progress",
        TaskStatus::Completed => "completed",
    }
}

pub(crate) fn parse_state(body: wire::SetState) -> Result<StateSlice, skein_fleet::Error> {
    let mut state = StateSlice {
        custom: body.custom,
        ..StateSlice::default()
    };
    for (id, task) in &body.tasks {
        let word = task.status.as_str();
        let all = [
            TaskStatus::Pending,
            TaskStatus::InProgress,
            TaskStatus::Completed,
        ];
        let found = all.into_iter().find(|s| status(*s) == word);
        let why = "expected `pending`, `in_progress` or `completed`";
        let task = Task {
            subject: task.subject.clone(),
            description: task.description.clone(),
            active_form: task.active_form.clone(),
            status: found.ok_or_else(|| Invalid::new("task status", word, why))?,
            metadata: task.metadata.clone(),
        };
        state.tasks.put(id, task)?;
    }
    for (id, task) in &body.tasks {
        for first in &task.blocked_by {
            state.tasks.block(first, id)?;
        }
    }
    Ok(state)
}

pub(crate) fn overview(o: &Overview) -> wire::TranscriptOverview {
    wire::TranscriptOverview {
        messages: o.messages,
        position: o.end,
        version: o.version,
        tier: o.tier.map(|tier| tier.as_str().into()),
        usage: usage(o.usage),
        updated_at: o.touched_at.map(time),
    }
}

pub(crate) fn totals(session: &SessionId, u: TranscriptUsage) -> wire::TranscriptUsage {
    wire::TranscriptUsage {
        session: session.to_string(),
        own: usage(u.own),
        total: usage(u.total),
        sessions: u.sessions,
    }
}

pub(crate) fn hit(hit: &Hit) -> wire::Hit {
    wire::Hit {
        session: hit.transcript.to_string(),
        message: hit.message.to_string(),
        position: hit.position,
        role: role(hit.role).into(),
        at: time(hit.at),
        excerpt: hit.excerpt.text.clone(),
        marks: marks(&hit.excerpt),
        score: hit.score,
    }
}

/// In code points, which every reader of JSON counts alike.
fn marks(excerpt: &Excerpt) -> Vec<[u64; 2]> {
    let count = |end: usize| {
        let before = excerpt.text.get(..end).unwrap_or(&excerpt.text);
        before.chars().count() as u64
    };
    let matches = excerpt.matches.iter();
    matches.map(|m| [count(m.start), count(m.end)]).collect()
}

/// The answer to a change of a transcript.
pub(crate) fn done(session: &SessionId, done: &TranscriptEdit) -> Value {
    let session = session.to_string();
    let value = match done {
        TranscriptEdit::Appended(a) => serde_json::to_value(wire::Appended {
            session,
            added: a.added as u64,
            already: a.already as u64,
            version: a.version,
        }),
        TranscriptEdit::Rewound { to, dropped } => serde_json::to_value(wire::Rewound {
            session,
            to: to.to_string(),
            dropped: *dropped,
        }),
        TranscriptEdit::ReplyBegun { id, dropped } => serde_json::to_value(wire::ReplyBegun {
            session,
            id: id.to_string(),
            dropped: *dropped,
        }),
        TranscriptEdit::Repaired { closed } => serde_json::to_value(wire::Repaired {
            session,
            closed: *closed,
        }),
        TranscriptEdit::StateSet { version } => serde_json::to_value(wire::StateSet {
            session,
            version: *version,
        }),
        TranscriptEdit::Flushed { flushed, keep } => serde_json::to_value(wire::Flushed {
            session,
            entries: flushed.entries,
            segments: flushed.segments,
            kept_hot: *keep == HotCopy::Hot,
        }),
        TranscriptEdit::Hydrated(hydrated) => serde_json::to_value(wire::Hydrated {
            session,
            hydrated: *hydrated == Hydrated::Done,
        }),
        TranscriptEdit::Imported { added, already } => serde_json::to_value(wire::Imported {
            session,
            added: *added,
            already: *already,
        }),
    };
    // The wire types hold only strings and numbers.
    value.unwrap_or_else(|e| json!({"unrenderable": e.to_string()}))
}
