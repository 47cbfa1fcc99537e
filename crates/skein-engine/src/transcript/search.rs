//! Finding text in all transcripts of a tenant.

use std::future::Future;
use std::pin::Pin;

use skein_domain::{Invalid, MessageId, Session, TenantId, Timestamp};
use skein_store::Query as StoreQuery;
use skein_store::backend::{Filter, Order};
use skein_transcript::message::Part;
use skein_transcript::service::{Direction, Query};
use skein_transcript::{Block, Message, Placed, Role, Transcript, TranscriptId};

use super::access::is_missing;
use crate::desk::Desk;
use crate::error::Error;
use crate::project;

/// What is looked for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Words; a message is found that holds all of them.
    pub words: Vec<String>,
    pub scope: Scope,
    pub role: Option<Role>,
    pub since: Option<Timestamp>,
    /// Hits to pass over.
    pub skip: usize,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    One(TranscriptId),
    /// Those whose ids begin so: a project's.
    Prefix(String),
}

impl Scope {
    pub fn holds(&self, id: &TranscriptId) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == id,
            Self::Prefix(prefix) => id.as_str().starts_with(prefix),
        }
    }
}

/// A message that was found. One that several forks share is found once, where it was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub transcript: TranscriptId,
    pub position: u64,
    pub message: MessageId,
    pub role: Role,
    pub at: Timestamp,
    pub excerpt: Excerpt,
    /// The more, the better; means something beside others of the same search only.
    pub score: f64,
}

/// A piece of a text, and where in it the words stand: from and to, counted in code points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    pub text: String,
    pub marks: Vec<(usize, usize)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hits {
    /// Best first.
    pub hits: Vec<Hit>,
    pub more: bool,
}

pub type Searching<'a> = Pin<Box<dyn Future<Output = skein_transcript::Result<Hits>> + Send + 'a>>;

/// An index over what was said. Implemented beside a hot tier that has one; called by the desk only.
/// Whatever was appended before a search began is found by it, hidden by summaries or not, until it is
/// rewound away.
pub trait Search: Send + Sync + std::fmt::Debug {
    fn search<'a>(&'a self, tenant: &'a TenantId, ask: &'a Ask) -> Searching<'a>;
}

/// What a caller asks.
#[derive(Clone, Debug, Default)]
pub struct SearchOrder {
    pub text: String,
    pub session: Option<String>,
    pub project: Option<String>,
    pub role: Option<Role>,
    pub since: Option<Timestamp>,
    pub skip: usize,
    pub limit: usize,
}

/// Most words of a search.
const MOST_WORDS: usize = 32;
/// Sessions looked up at a time, and messages read at a time, where there is no index.
const SESSIONS: usize = 200;
const MESSAGES: usize = 500;
/// Hits kept while looking without an index; the best of them are shown.
const KEPT: usize = 10_000;

impl Desk {
    pub async fn search_transcripts(&self, order: SearchOrder) -> Result<Hits, Error> {
        let words: Vec<String> = words(&order.text).map(str::to_lowercase).collect();
        if words.is_empty() || words.len() > MOST_WORDS {
            let why = format!("expected 1 to {MOST_WORDS} words");
            return Err(Invalid::new("search text", &order.text, why).into());
        }
        let ask = Ask {
            words,
            scope: self.scope(order.session, order.project).await?,
            role: order.role,
            since: order.since,
            skip: order.skip,
            limit: order.limit,
        };
        match &self.books()?.parts.search {
            Some(index) => Ok(index.search(self.tenant(), &ask).await?),
            None => self.scan(&ask).await,
        }
    }

    async fn scope(
        &self,
        session: Option<String>,
        project: Option<String>,
    ) -> Result<Scope, Error> {
        self.look(move |reader| {
            let prefix = match project {
                Some(reference) => Some(project::resolve(reader, &reference)?.prefix),
                None => None,
            };
            let prefix = prefix.map(|prefix| format!("{prefix}-"));
            let session: Option<Session> = match session {
                Some(reference) => Some(reader.resolve(&reference)?),
                None => None,
            };
            Ok(match (session, prefix) {
                (Some(session), Some(prefix)) if !session.id.as_str().starts_with(&prefix) => {
                    let why = "the session belongs to another project";
                    return Err(Invalid::new("project", &prefix, why).into());
                }
                (Some(session), _) => Scope::One(TranscriptId::from(&session.id)),
                (None, Some(prefix)) => Scope::Prefix(prefix),
                (None, None) => Scope::All,
            })
        })
        .await
    }

    /// Reads everything: correct on every tier, and as slow as there is much.
    async fn scan(&self, ask: &Ask) -> Result<Hits, Error> {
        let (mut found, mut after) = (Scan::default(), None);
        loop {
            let query = StoreQuery {
                filter: Filter::default(),
                order: Order::NewestFirst,
                after,
                limit: SESSIONS,
            };
            let page = self.look(move |r| r.list::<Session>(&query)).await?;
            for session in &page.items {
                let id = TranscriptId::from(&session.id);
                if ask.scope.holds(&id) {
                    self.scan_one(&id, ask, &mut found).await?;
                }
            }
            after = page.next;
            if after.is_none() || found.hits.len() >= KEPT {
                return Ok(found.best(ask));
            }
        }
    }

    async fn scan_one(&self, id: &TranscriptId, ask: &Ask, found: &mut Scan) -> Result<(), Error> {
        let transcript: Transcript = self.transcripts()?.open(id);
        let head = match transcript.head().await {
            Err(error) if is_missing(&error) => return Ok(()),
            other => other?,
        };
        // What a fork shares is found in its source.
        let inherited = head.origin.map_or(0, |origin| origin.end);
        let mut cursor = None;
        loop {
            let query = Query {
                direction: Direction::NewestFirst,
                cursor,
                limit: MESSAGES,
            };
            let page = transcript.page(query).await?;
            for placed in &page.messages {
                if placed.position < inherited || found.hits.len() >= KEPT {
                    return Ok(());
                }
                found.consider(id, placed, ask);
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }
}

/// A search without an index, as far as it is.
#[derive(Debug, Default)]
struct Scan {
    hits: Vec<Hit>,
}

impl Scan {
    fn consider(&mut self, id: &TranscriptId, placed: &Placed, ask: &Ask) {
        let message = &placed.message;
        let wanted = ask.role.is_none_or(|role| role == message.role)
            && ask.since.is_none_or(|since| message.at >= since);
        if !wanted {
            return;
        }
        let text = spoken(message);
        let lower: Vec<String> = words(&text).map(str::to_lowercase).collect();
        let count = |word: &String| lower.iter().filter(|w| w.starts_with(word.as_str())).count();
        let counts: Vec<usize> = ask.words.iter().map(count).collect();
        if counts.contains(&0) {
            return;
        }
        let all: usize = counts.iter().sum();
        self.hits.push(Hit {
            transcript: id.clone(),
            position: placed.position,
            message: message.id.clone(),
            role: message.role,
            at: message.at,
            excerpt: excerpt(&text, &ask.words),
            // Often in a short text is better than once in a long one.
            score: all as f64 / (1.0 + (lower.len() as f64).sqrt()),
        });
    }

    fn best(mut self, ask: &Ask) -> Hits {
        let newer = |a: &Hit, b: &Hit| b.at.cmp(&a.at);
        self.hits
            .sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| newer(a, b)));
        let more = self.hits.len() > ask.skip + ask.limit;
        let hits = self.hits.into_iter().skip(ask.skip).take(ask.limit);
        Hits {
            hits: hits.collect(),
            more,
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// Everything in a message that somebody may look for.
pub fn spoken(message: &Message) -> String {
    let mut out = String::new();
    let mut add = |text: &str| {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(text);
    };
    for block in &message.blocks {
        match block {
            Block::Text(text) | Block::Thinking { text, .. } => add(text),
            Block::ToolCall(call) => add(&format!("{} {}", call.name, call.input)),
            Block::ToolResult(result) => {
                for part in &result.content {
                    if let Part::Text(text) = part {
                        add(text);
                    }
                }
            }
            Block::Image(_) => {}
        }
    }
    out
}

/// Code points before the first word and in all.
const LEAD: usize = 40;
const LENGTH: usize = 200;

/// The text around the first of the words, in one line.
pub fn excerpt(text: &str, wanted: &[String]) -> Excerpt {
    let chars: Vec<char> = text
        .chars()
        .map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c })
        .collect();
    let mut found = vec![];
    let mut at = 0;
    while at < chars.len() {
        let length = chars[at..].iter().take_while(|c| c.is_alphanumeric()).count();
        if length > 0 {
            let word: String = chars[at..at + length].iter().collect();
            let word = word.to_lowercase();
            if wanted.iter().any(|wanted| word.starts_with(wanted.as_str())) {
                found.push((at, at + length));
            }
        }
        at += length.max(1);
    }
    let first = found.first().map_or(0, |(from, _)| *from);
    let from = first.saturating_sub(LEAD);
    let to = (from + LENGTH).min(chars.len());
    let lead = if from > 0 { "…" } else { "" };
    let tail = if to < chars.len() { "…" } else { "" };
    let shift = lead.chars().count();
    let marks = found.iter().filter(|(a, b)| *a >= from && *b <= to);
    Excerpt {
        text: format!("{lead}{}{tail}", chars[from..to].iter().collect::<String>()),
        marks: marks
            .map(|(a, b)| (a - from + shift, b - from + shift))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_one_line_around_the_first_word() {
        let text = format!("{}\nthe Login\tbug {}", "x ".repeat(60), "y ".repeat(200));
        let excerpt = excerpt(&text, &["login".into()]);
        assert!(excerpt.text.starts_with('…') && excerpt.text.ends_with('…'));
        let marked = |(a, b): &(usize, usize)| {
            excerpt.text.chars().skip(*a).take(b - a).collect::<String>()
        };
        let marked: Vec<String> = excerpt.marks.iter().map(marked).collect();
        assert_eq!(marked, ["Login"]);
        assert!(!excerpt.text.contains(['\n', '\t']));
    }

    #[test]
    fn excerpts_of_short_texts_are_whole() {
        let short = excerpt("größe", &["größe".into()]);
        assert_eq!((short.text.as_str(), short.marks), ("größe", vec![(0, 5)]));
        assert_eq!(excerpt("", &["x".into()]), Excerpt::default());
    }
}
