//! What every provider asks of a conversation: each tool call is followed by exactly one result, results
//! stand in the order of the calls, and nothing comes between.
//!
//! Transcripts are written as things happen: a crash leaves calls open, results come in any order, people
//! speak in the middle. That stays on record as it was; this says how it is shown.

use crate::id::MessageId;
use crate::message::{Block, Message, Outcome, Part, Role, ToolCall, ToolResult};

/// What a call is told that never got a result.
pub const INTERRUPTED: &str = "the tool call was interrupted before it gave a result";

/// Puts a conversation into the form providers take.
/// - A batch is an assistant's message with calls and what comes before the next assistant's message. Its
///   results follow at once, in call order. An open call is closed with an error.
/// - Of several results of a call the first counts: that is what the model has seen.
/// - What else was said during a batch waits for its end.
/// - Results without a call are left out.
///
/// What is in order is left as it is; doing it twice changes nothing.
pub fn repair(messages: Vec<Message>) -> Vec<Message> {
    let mut out = vec![];
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        if message.role != Role::Assistant {
            out.extend(without_results(message));
            continue;
        }
        let mut batch = vec![];
        while let Some(next) = messages.next_if(|m| m.role != Role::Assistant) {
            batch.push(next);
        }
        settle(message, batch, &mut out);
    }
    out
}

/// Results for the calls of the last batch that have none, to be appended when a session goes on. Their ids
/// follow from the calls, so closing twice is closing once.
pub fn closing(messages: &[Message]) -> Vec<Message> {
    let last = messages.iter().rposition(|m| m.role == Role::Assistant);
    let Some((asked, batch)) = last.and_then(|at| messages[at..].split_first()) else {
        return vec![];
    };
    let (matched, _) = match_up(asked, batch);
    let open = matched
        .iter()
        .enumerate()
        .filter(|(_, (_, result))| result.is_none());
    open.map(|(n, (call, _))| closed(asked, n, call)).collect()
}

type Matched<'a> = Vec<(&'a ToolCall, Option<(&'a Message, &'a ToolResult)>)>;

/// Each call with its result, and what else was said.
fn match_up<'a>(asked: &'a Message, batch: &'a [Message]) -> (Matched<'a>, Vec<Message>) {
    let mut matched: Matched<'a> = asked.calls().map(|call| (call, None)).collect();
    let mut said = vec![];
    for message in batch {
        for result in message.results() {
            let open = |(call, found): &&mut (&ToolCall, Option<_>)| {
                found.is_none() && call.id == result.call
            };
            if let Some((_, found)) = matched.iter_mut().find(open) {
                *found = Some((message, result));
            }
        }
        said.extend(without_results(message.clone()));
    }
    (matched, said)
}

/// What a message says besides results.
fn without_results(message: Message) -> Option<Message> {
    if message.results().next().is_none() {
        return Some(message);
    }
    let rest = |b: &&Block| !matches!(b, Block::ToolResult(_));
    let rest: Vec<Block> = message.blocks.iter().filter(rest).cloned().collect();
    (!rest.is_empty()).then(|| part_of(&message, rest))
}

/// Shows one batch: the assistant's message, the results, then the rest.
fn settle(asked: Message, batch: Vec<Message>, out: &mut Vec<Message>) {
    if in_order(&asked, &batch) {
        out.push(asked);
        return out.extend(batch);
    }
    let (matched, said) = match_up(&asked, &batch);
    let results = matched
        .iter()
        .enumerate()
        .map(|(n, (call, result))| match result {
            Some((message, _)) if message.blocks.len() == 1 => (*message).clone(),
            Some((message, result)) => {
                let blocks = vec![Block::ToolResult((*result).clone())];
                Message {
                    role: Role::Tool,
                    ..part_of(message, blocks)
                }
            }
            None => closed(&asked, n, call),
        });
    let results: Vec<Message> = results.collect();
    out.push(asked);
    out.extend(results);
    out.extend(said);
}

/// Whether the results stand right after the calls, all of them, in their order, with nothing between.
fn in_order(asked: &Message, batch: &[Message]) -> bool {
    let mut open = asked.calls().map(|call| call.id.as_str());
    let blocks = batch.iter().flat_map(|m| &m.blocks);
    let mut results_over = false;
    for block in blocks {
        match block {
            Block::ToolResult(_) if results_over => return false,
            Block::ToolResult(result) => {
                if open.next() != Some(result.call.as_str()) {
                    return false;
                }
            }
            _ => results_over = true,
        }
    }
    // A message without blocks is something said as well.
    let said_early = batch
        .iter()
        .rposition(|m| m.results().next().is_some())
        .is_some_and(|last| batch[..last].iter().any(|m| m.results().next().is_none()));
    open.next().is_none() && !said_early
}

/// A message with some of its blocks. The provider's own form no longer fits and is left out, and what it
/// cost stays with the whole.
fn part_of(message: &Message, blocks: Vec<Block>) -> Message {
    Message {
        blocks,
        native: None,
        usage: crate::usage::Usage::default(),
        ..message.clone()
    }
}

fn closed(asked: &Message, n: usize, call: &ToolCall) -> Message {
    let result = ToolResult {
        call: call.id.clone(),
        content: vec![Part::Text(INTERRUPTED.into())],
        outcome: Outcome::Failed,
    };
    let blocks = vec![Block::ToolResult(result)];
    let mut message = Message::new(closing_id(&asked.id, n), Role::Tool, blocks, asked.at);
    message.run = asked.run;
    message
}

fn closing_id(asked: &MessageId, n: usize) -> MessageId {
    let id = format!("closed:{asked}:{n}");
    let short = || {
        let hash = blake3::hash(id.as_bytes()).to_hex();
        format!("closed:{hash}").parse()
    };
    id.parse()
        .or_else(|_| short())
        .unwrap_or_else(|_| asked.clone())
}

/// For tests of what is shown: the first breach of what providers ask.
pub fn breach(messages: &[Message]) -> Option<String> {
    let mut open: Vec<&str> = vec![];
    for message in messages {
        for block in &message.blocks {
            if let Block::ToolResult(result) = block {
                if open.first() != Some(&result.call.as_str()) {
                    return Some(format!("`{}` holds a result out of order", message.id));
                }
                open.remove(0);
            } else if !open.is_empty() {
                return Some(format!("`{}` comes before the results", message.id));
            }
        }
        if message.blocks.is_empty() && !open.is_empty() {
            return Some(format!("`{}` comes before the results", message.id));
        }
        if message.role == Role::Assistant {
            open.extend(message.calls().map(|call| call.id.as_str()));
        }
    }
    open.first()
        .map(|call| format!("call `{call}` has no result"))
}

#[cfg(test)]
mod tests;
