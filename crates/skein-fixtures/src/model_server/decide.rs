//! Chooses the answer.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use crate::model_server::Protocol;
use crate::model_server::conversation::{Conversation, Edits, Entry};
use crate::model_server::directive::{self, Ending, Reply};
use crate::model_server::reply::{Answer, Finish, Part, Usage, What, words};
use crate::model_server::schema;
use crate::model_server::script::Script;
use crate::model_server::step::Step;
use crate::model_server::tools;

/// The failures already sent. A failed request leaves no trace in the conversation, so a retry would look the same.
#[derive(Debug, Default)]
pub(crate) struct Failures(HashSet<u64>);

/// What is known of a request besides the conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) protocol: Protocol,
    pub(crate) session: Option<&'a str>,
    /// Length of the request.
    pub(crate) bytes: usize,
}

pub(crate) fn answer(
    conversation: &Conversation,
    asked: Asked<'_>,
    script: &Script,
    failures: &mut Failures,
) -> Answer {
    let say = |text: &str| Chosen {
        reply: Reply {
            acts: vec![Step::Say(text.to_owned())],
            ..Reply::default()
        },
        step: None,
    };
    let chosen = if conversation.is_hidden() {
        say(&own_answer(conversation))
    } else {
        let text = conversation.last_user().unwrap_or_default();
        let steps = directive::find(&text).or_else(|| script.steps_for(&text));
        match (steps, &conversation.schema) {
            (Some(steps), _) => chosen(conversation, asked, directive::replies(steps), failures),
            (None, Some(_)) => say(&own_answer(conversation)),
            (None, None) => say(&script.default_text(&text)),
        }
    };
    chosen.into_answer(conversation, asked, script)
}

/// The answer to a request for the agent program's own purposes.
fn own_answer(conversation: &Conversation) -> String {
    match &conversation.schema {
        Some(schema) => schema::value(schema).to_string(),
        None => "Scripted task".to_owned(),
    }
}

struct Chosen {
    reply: Reply,
    step: Option<usize>,
}

/// The first answer not given yet, according to the received results and the failures sent.
fn chosen(
    conversation: &Conversation,
    asked: Asked<'_>,
    replies: Vec<Reply>,
    failures: &mut Failures,
) -> Chosen {
    let mut results = conversation.results();
    let begin = fingerprint(conversation, asked);
    let mut step = 0;
    while let Some(reply) = replies.get(step) {
        let given = if reply.fails() {
            !failures.0.insert(numbered(begin, step))
        } else if reply.calls() > 0 && results >= reply.calls() {
            results -= reply.calls();
            true
        } else {
            false
        };
        if !given {
            break;
        }
        step += 1;
    }
    let ends = replies
        .get(step)
        .is_none_or(|reply| !reply.fails() && reply.calls() == 0);
    if ends && asked.session.is_none() {
        // Another conversation with the same beginning would look the same.
        (0..step).for_each(|step| _ = failures.0.remove(&numbered(begin, step)));
    }
    let reply = match conversation.edits() {
        Edits::Tools => replies.get(step).cloned().unwrap_or_default(),
        // An agent without tools sends no results, so it gets everything at once.
        Edits::WholeFiles | Edits::SearchReplace | Edits::None => together(&replies, step),
    };
    Chosen {
        reply,
        step: Some(step),
    }
}

fn together(replies: &[Reply], from: usize) -> Reply {
    let mut rest = replies.iter().skip(from);
    let mut all = rest.next().cloned().unwrap_or_default();
    if !all.fails() {
        for reply in rest.take_while(|reply| !reply.fails()) {
            all.think += reply.think;
            all.tokens = reply.tokens.or(all.tokens);
            all.acts.extend(reply.acts.iter().cloned());
        }
    }
    all
}

/// Identifies a point of a conversation. Without a session id, its whole history does.
fn fingerprint(conversation: &Conversation, asked: Asked<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (asked.protocol, asked.session).hash(&mut hasher);
    conversation.users().count().hash(&mut hasher);
    conversation.last_user().hash(&mut hasher);
    if asked.session.is_none() {
        for entry in &conversation.entries {
            match entry {
                Entry::User(text) | Entry::Note(text) => text.hash(&mut hasher),
                Entry::Assistant | Entry::Result => {}
            }
        }
    }
    hasher.finish()
}

fn numbered(begin: u64, step: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (begin, step).hash(&mut hasher);
    hasher.finish()
}

impl Chosen {
    fn into_answer(self, conversation: &Conversation, asked: Asked<'_>, script: &Script) -> Answer {
        let Self { reply, step } = self;
        let mut parts: Vec<Part> = reply
            .acts
            .iter()
            .map(|act| part(conversation, act, script))
            .collect();
        if parts.is_empty() {
            parts.push(Part::text("ok"));
        }
        let usage = match reply.tokens {
            Some((input, output)) => Usage { input, output },
            None => script.usage(asked.bytes, &parts),
        };
        let what = match reply.ending {
            Ending::Whole => What::Parts {
                parts,
                finish: Finish::Properly,
            },
            Ending::Cut => What::Parts {
                parts,
                finish: Finish::Cut,
            },
            Ending::Error { status, message } => What::Error { status, message },
            Ending::RateLimit { seconds } => What::RateLimit { seconds },
        };
        Answer {
            what,
            think: reply.think,
            usage,
            step,
        }
    }
}

fn part(conversation: &Conversation, act: &Step, script: &Script) -> Part {
    match act {
        Step::Slow { over, text } => Part::Text {
            text: text.clone(),
            pace: *over / words(text),
        },
        act => match tools::part(conversation, act) {
            Part::Text { text, pace } if pace == Duration::ZERO => Part::Text {
                text,
                pace: script.pace(),
            },
            other => other,
        },
    }
}
