//! The tier.

use std::time::Duration;

use redis::{FromRedisValue, Value, cmd};
use skein_domain::{TenantId, Timestamp};
use skein_transcript::chain::Entry;
use skein_transcript::hot::{
    Commit, Eviction, HeadRow, Hot, IdLocation, KnownIds, NewEntry, Range, StrandRow,
    TranscriptBatch, TranscriptListing,
};
use skein_transcript::{Error, MessageId, Result, TranscriptId, async_trait};

use crate::check::check;
use crate::failure::unexpected;
use crate::keys::RedisKeys;
use crate::link::{Link, Work};
use crate::list::{head, list};
use crate::options::RedisOptions;
use crate::scripts::Scripts;

/// Transcripts in Redis. Make one per program: everything uses one connection (one per server of a cluster), which
/// lets writers share a sync.
#[derive(Debug)]
pub struct RedisHot {
    link: Link,
    scripts: Scripts,
}

/// How long unadopted stages remain.
const STAGED: Duration = Duration::from_hours(24);

impl RedisHot {
    /// Connects, and refuses a server that would not keep what it acknowledges (see [`crate::Durability`]). The
    /// caller's runtime must outlive the tier.
    pub async fn connect(options: RedisOptions) -> Result<Self> {
        let link = Link::open(options).await?;
        check(&link).await?;
        Ok(Self {
            link,
            scripts: Scripts::new(),
        })
    }

    fn keys(&self, tenant: &TenantId, id: &TranscriptId) -> RedisKeys {
        RedisKeys::new(&self.link.options.prefix, tenant, id)
    }

    async fn apply(
        &self,
        keys: &RedisKeys,
        id: &TranscriptId,
        change: TranscriptBatch,
    ) -> Result<Commit> {
        if let Some(what) = violation(&change) {
            return Err(bug(what));
        }
        let arguments = arguments(change, self.link.options.ttl_millis());
        let names = [keys.main.as_str(), &keys.stages, &keys.was];
        let answer = self
            .link
            .run(&self.scripts.commit, Work::Write, &names, &arguments)
            .await?;
        match tagged(answer)? {
            (tag, _) if tag == "done" => Ok(Commit::Done),
            (tag, _) if tag == "unstaged" => Ok(Commit::Unstaged),
            (tag, _) if tag == "known" => Ok(Commit::Known),
            (tag, actual) if tag == "stale" => Ok(Commit::Stale {
                actual: (!actual.is_empty()).then(|| number(&actual)).transpose()?,
            }),
            (tag, version) if tag == "lapsed" => Err(Error::corrupt(
                format!("transcript `{id}`"),
                format!(
                    "its hot copy expired at version {version} without being flushed, and its \
                            replacement is older; evict it to accept the loss"
                ),
            )),
            (_, what) => Err(bug(&what)),
        }
    }
}

#[async_trait]
impl Hot for RedisHot {
    async fn head(&self, tenant: &TenantId, id: &TranscriptId) -> Result<Option<HeadRow>> {
        head(&self.link, &self.keys(tenant, id).main).await
    }

    async fn strands(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        from: u32,
        limit: usize,
    ) -> Result<Option<Vec<StrandRow>>> {
        let keys = self.keys(tenant, id);
        let arguments = [text(from), text(limit)];
        let answer = self
            .link
            .run(&self.scripts.strands, Work::Read, &[&keys.main], &arguments)
            .await?;
        let rows: Option<Vec<(u32, String)>> = decoded(answer, "strands")?;
        let row = |(number, body)| StrandRow { number, body };
        Ok(rows.map(|rows| rows.into_iter().map(row).collect()))
    }

    async fn read(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        range: Range,
    ) -> Result<Option<Vec<Entry>>> {
        if range.from >= range.end {
            return Err(bug("an empty range is read"));
        }
        let keys = self.keys(tenant, id);
        let arguments = [
            text(range.strand),
            text(range.from),
            text(range.end),
            text(range.bytes),
        ];
        let answer = self
            .link
            .run(&self.scripts.read, Work::Read, &[&keys.main], &arguments)
            .await?;
        let Some(found) = decoded::<Option<Vec<Vec<u8>>>>(answer, "entries")? else {
            return Ok(None);
        };
        let mut found = found.into_iter();
        let first = found.next().and_then(|first| String::from_utf8(first).ok());
        let first = number(&first.ok_or_else(|| unexpected("entries"))?)?;
        let entry = |(position, bytes): (u64, Vec<u8>)| {
            let damaged =
                || Error::corrupt(format!("entry {position} of `{id}`"), "it is too short");
            Entry::from_bytes(position, &bytes).ok_or_else(damaged)
        };
        (first..)
            .zip(found)
            .map(entry)
            .collect::<Result<Vec<_>>>()
            .map(Some)
    }

    async fn find(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        ids: &[MessageId],
    ) -> Result<Option<Vec<Vec<IdLocation>>>> {
        let mut command = cmd("HMGET");
        command.arg(self.keys(tenant, id).main).arg("v");
        for id in ids {
            command.arg(format!("i:{id}"));
        }
        let found: Vec<Option<String>> = self.link.ask("find", &command).await?;
        match found.split_first() {
            Some((Some(_), found)) => {
                let spots = found.iter().map(|text| spots(id, text.as_deref()));
                spots.collect::<Result<_>>().map(Some)
            }
            _ => Ok(None),
        }
    }

    async fn commit(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        change: TranscriptBatch,
    ) -> Result<Commit> {
        self.apply(&self.keys(tenant, id), id, change).await
    }

    async fn stage(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        token: &str,
        (strand, entries): (u32, Vec<NewEntry>),
    ) -> Result<()> {
        let keys = self.keys(tenant, id);
        let head = [
            text(token),
            text(STAGED.as_millis()),
            text(strand),
            text(entries.len()),
        ];
        let parts = entries.into_iter().flat_map(|new| {
            [
                text(new.entry.position),
                new.entry.to_bytes(),
                optional(new.id),
            ]
        });
        let arguments: Vec<Vec<u8>> = head.into_iter().chain(parts).collect();
        let names = [keys.main.as_str(), &keys.stages];
        self.link
            .run(&self.scripts.stage, Work::Write, &names, &arguments)
            .await?;
        Ok(())
    }

    async fn evict(&self, tenant: &TenantId, id: &TranscriptId, expected: u64) -> Result<Eviction> {
        let keys = self.keys(tenant, id);
        let names = [keys.main.as_str(), &keys.stages, &keys.was];
        let answer = self
            .link
            .run(&self.scripts.evict, Work::Write, &names, &[text(expected)])
            .await?;
        match tagged(answer)? {
            (tag, _) if tag == "done" => Ok(Eviction::Done),
            (_, actual) => Ok(Eviction::Stale {
                actual: number(&actual)?,
            }),
        }
    }

    async fn list(
        &self,
        tenant: &TenantId,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<TranscriptListing> {
        list(&self.link, tenant, cursor, limit).await
    }
}

pub(crate) fn head_of(
    (version, touched_at, body): (Option<u64>, Option<i64>, Option<String>),
) -> Option<HeadRow> {
    Some(HeadRow {
        version: version?,
        touched_at: Timestamp::from_micros(touched_at?),
        body: body?,
    })
}

/// Checks the part of the contract that the script does not check.
fn violation(change: &TranscriptBatch) -> Option<&'static str> {
    let entries = &change.entries.1;
    let first = entries.first().map_or(0, |new| new.entry.position);
    if change
        .expected
        .as_ref()
        .is_some_and(|expected| change.head.version <= expected.version)
    {
        Some("a version does not grow")
    } else if !(first..)
        .zip(entries)
        .all(|(at, new)| new.entry.position == at)
    {
        Some("entries are not consecutive")
    } else {
        None
    }
}

/// The arguments of `lua/commit.lua`.
fn arguments(change: TranscriptBatch, ttl: u128) -> Vec<Vec<u8>> {
    let TranscriptBatch {
        expected,
        head,
        strands,
        entries: (strand, entries),
        ids,
        adopt,
    } = change;
    let first = entries.first().map_or(0, |new| new.entry.position);
    let (version, body) = expected.map(|row| (row.version, row.body)).unzip();
    let mut all = vec![
        optional(version),
        optional(body),
        text(head.version),
        text(head.touched_at.as_micros()),
        head.body.into_bytes(),
        text(ttl),
        optional((ids == KnownIds::Unseen).then_some(1)),
    ];
    match adopt {
        None => all.extend([vec![], text(-1)]),
        Some(stage) => {
            all.extend([stage.token.into_bytes(), text(stage.strands.len())]);
            all.extend(
                stage
                    .strands
                    .iter()
                    .flat_map(|(number, count)| [text(number), text(count)]),
            );
        }
    }
    all.push(text(strands.len()));
    all.extend(
        strands
            .into_iter()
            .flat_map(|row| [text(row.number), row.body.into_bytes()]),
    );
    all.extend([text(strand), text(first), text(entries.len())]);
    all.extend(
        entries
            .into_iter()
            .flat_map(|new| [new.entry.to_bytes(), optional(new.id)]),
    );
    all
}

fn text(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn optional(value: Option<impl ToString>) -> Vec<u8> {
    value.map(text).unwrap_or_default()
}

fn decoded<T: FromRedisValue>(value: Value, what: &str) -> Result<T> {
    T::from_redis_value(value).map_err(|_| unexpected(what))
}

/// The positions of an id, in the form of `lua/commit.lua`.
fn spots(id: &TranscriptId, text: Option<&str>) -> Result<Vec<IdLocation>> {
    // Not `Unavailable`, because a retry does not help.
    let damaged = || {
        let why = "this build cannot read its index of ids";
        Error::corrupt(format!("transcript `{id}` in Redis"), why)
    };
    let numbers = text.unwrap_or_default().split_ascii_whitespace();
    let numbers: Option<Vec<u64>> = numbers.map(|n| n.parse().ok()).collect();
    let spot = |pair: &[u64]| {
        let [strand, position] = *pair else {
            return Err(damaged());
        };
        let strand = u32::try_from(strand).map_err(|_| damaged())?;
        Ok(IdLocation { strand, position })
    };
    let spots = numbers.ok_or_else(damaged)?;
    let mut spots = spots.chunks(2).map(spot).collect::<Result<Vec<_>>>()?;
    spots.sort_unstable();
    Ok(spots)
}

/// A script's answer: a tag and a detail.
fn tagged(answer: Value) -> Result<(String, String)> {
    decoded(answer, "a script's result")
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| unexpected("a number"))
}

fn bug(what: &str) -> Error {
    Error::Bug(format!("the hot tier's contract is broken: {what}"))
}
