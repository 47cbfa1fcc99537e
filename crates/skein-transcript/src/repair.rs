//! What every provider requires of a conversation: exactly one result follows each tool call, results are in the
//! order of the calls, and nothing stands between.
//!
//! A transcript records things as they happen: a crash leaves calls open, results come in any order, users write in
//! between. The record stays unchanged; this module decides how a model sees it.

use crate::id::MessageId;
use crate::message::{Block, Message, MessageRole, Part, ToolCall, ToolOutcome, ToolResult};

/// The result of a call that never got one.
pub const INTERRUPTED: &str = "the tool call was interrupted before it gave a result";

/// Brings a conversation into the form that providers accept.
/// - A batch is an assistant's message with calls and everything before the next assistant's message. Its results
///   follow directly, in the order of the calls. An open call gets an error as its result.
/// - Of several results of a call the first counts, because the model has seen that one.
/// - Other messages of a batch follow its results.
/// - Results without a call are dropped.
///
/// A valid conversation stays unchanged, so the function is idempotent.
pub fn repair(messages: Vec<Message>) -> Vec<Message> {
    let mut out = vec![];
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        if message.role != MessageRole::Assistant {
            out.extend(without_results(message));
            continue;
        }
        let mut batch = vec![];
        while let Some(next) = messages.next_if(|m| m.role != MessageRole::Assistant) {
            batch.push(next);
        }
        push_batch(message, batch, &mut out);
    }
    out
}

/// Results for open calls of the last batch, to append when a session continues. Their ids derive from the calls, so
/// appending them twice has one effect.
pub fn closing(messages: &[Message]) -> Vec<Message> {
    let last = messages
        .iter()
        .rposition(|m| m.role == MessageRole::Assistant);
    let Some((caller, batch)) = last.and_then(|at| messages[at..].split_first()) else {
        return vec![];
    };
    let (matched, _) = match_results(caller, batch);
    let open = matched
        .iter()
        .enumerate()
        .filter(|(_, (_, result))| result.is_none());
    open.map(|(n, (call, _))| interrupted(caller, n, call))
        .collect()
}

type CallsWithResults<'a> = Vec<(&'a ToolCall, Option<(&'a Message, &'a ToolResult)>)>;

/// Each call with its result, and the other messages.
fn match_results<'a>(
    caller: &'a Message,
    batch: &'a [Message],
) -> (CallsWithResults<'a>, Vec<Message>) {
    let mut matched: CallsWithResults<'a> = caller.calls().map(|call| (call, None)).collect();
    let mut others = vec![];
    for message in batch {
        for result in message.results() {
            let open = |(call, found): &&mut (&ToolCall, Option<_>)| {
                found.is_none() && call.id == result.call
            };
            if let Some((_, found)) = matched.iter_mut().find(open) {
                *found = Some((message, result));
            }
        }
        others.extend(without_results(message.clone()));
    }
    (matched, others)
}

/// The message without its results, if anything remains.
fn without_results(message: Message) -> Option<Message> {
    if message.results().next().is_none() {
        return Some(message);
    }
    let rest = |b: &&Block| !matches!(b, Block::ToolResult(_));
    let rest: Vec<Block> = message.blocks.iter().filter(rest).cloned().collect();
    (!rest.is_empty()).then(|| part_of(&message, rest))
}

/// Appends one batch: the assistant's message, the results, then the other messages.
fn push_batch(caller: Message, batch: Vec<Message>, out: &mut Vec<Message>) {
    if in_order(&caller, &batch) {
        out.push(caller);
        return out.extend(batch);
    }
    let (matched, others) = match_results(&caller, &batch);
    let results = matched
        .iter()
        .enumerate()
        .map(|(n, (call, result))| match result {
            Some((message, _)) if message.blocks.len() == 1 => (*message).clone(),
            Some((message, result)) => {
                let blocks = vec![Block::ToolResult((*result).clone())];
                Message {
                    role: MessageRole::Tool,
                    ..part_of(message, blocks)
                }
            }
            None => interrupted(&caller, n, call),
        });
    let results: Vec<Message> = results.collect();
    out.push(caller);
    out.extend(results);
    out.extend(others);
}

/// Whether all results follow the calls directly and in their order.
fn in_order(caller: &Message, batch: &[Message]) -> bool {
    let mut open = caller.calls().map(|call| call.id.as_str());
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
    // A message without blocks also counts as one between the results.
    let interleaved = batch
        .iter()
        .rposition(|m| m.results().next().is_some())
        .is_some_and(|last| batch[..last].iter().any(|m| m.results().next().is_none()));
    open.next().is_none() && !interleaved
}

/// A message with some of its blocks. The native payload no longer matches and is dropped; the cost stays with the
/// whole message.
fn part_of(message: &Message, blocks: Vec<Block>) -> Message {
    Message {
        blocks,
        native: None,
        usage: crate::usage::TokenUsage::default(),
        ..message.clone()
    }
}

fn interrupted(caller: &Message, n: usize, call: &ToolCall) -> Message {
    let result = ToolResult {
        call: call.id.clone(),
        content: vec![Part::Text(INTERRUPTED.into())],
        outcome: ToolOutcome::Failed,
    };
    let blocks = vec![Block::ToolResult(result)];
    let mut message = Message::new(
        closing_id(&caller.id, n),
        MessageRole::Tool,
        blocks,
        caller.at,
    );
    message.run = caller.run;
    message
}

fn closing_id(caller: &MessageId, n: usize) -> MessageId {
    let id = format!("closed:{caller}:{n}");
    let short = || {
        let hash = blake3::hash(id.as_bytes()).to_hex();
        format!("closed:{hash}").parse()
    };
    id.parse()
        .or_else(|_| short())
        .unwrap_or_else(|_| caller.clone())
}

/// For tests: the first violation of what providers require.
pub fn breach(messages: &[Message]) -> Option<String> {
    let mut open: Vec<&str> = vec![];
    for message in messages {
        for block in &message.blocks {
            if let Block::ToolResult(result) = block {
                if open.first() != Some(&result.call.as_str()) {
                    return Some(format!("`{}` has a result out of order", message.id));
                }
                open.remove(0);
            } else if !open.is_empty() {
                return Some(format!("`{}` comes before the results", message.id));
            }
        }
        if message.blocks.is_empty() && !open.is_empty() {
            return Some(format!("`{}` comes before the results", message.id));
        }
        if message.role == MessageRole::Assistant {
            open.extend(message.calls().map(|call| call.id.as_str()));
        }
    }
    open.first()
        .map(|call| format!("call `{call}` has no result"))
}

#[cfg(test)]
mod tests;
