//! Lists the transcripts of a tenant by SCAN over the servers, one after the other.
//!
//! There is no index that could be wrong: a transcript is one key, and the keys are the list. The price is that a full
//! scan costs as much as the server has keys, in small steps. Redis returns a key that exists throughout at least
//! once, and twice only if it shrinks its table meanwhile; a scan of a cluster that moves slots may miss some. Sweeps
//! tolerate both.

use redis::cmd;
use skein_domain::TenantId;
use skein_transcript::Result;
use skein_transcript::hot::{HeadRow, TranscriptListing};

use crate::keys::{RedisKeys, pattern, transcript};
use crate::link::{Link, Node};
use crate::tier::head_of;

/// The position of a scan: a server, and its cursor.
#[derive(Debug, PartialEq, Eq)]
struct Cursor {
    node: Option<Node>,
    at: u64,
}

/// Keys per step; most of them may belong to others.
const STEP: usize = 1_000;

pub(crate) async fn list(
    link: &Link,
    tenant: &TenantId,
    cursor: Option<String>,
    limit: usize,
) -> Result<TranscriptListing> {
    let nodes = link.nodes().await?;
    let start = || Cursor {
        node: nodes.first().cloned().flatten(),
        at: 0,
    };
    let mut cursor = cursor
        .as_deref()
        .and_then(Cursor::parse)
        .unwrap_or_else(start);
    // Skips a server that no longer exists.
    if !nodes.contains(&cursor.node) {
        match nodes.iter().find(|node| **node > cursor.node) {
            Some(node) => {
                cursor = Cursor {
                    node: node.clone(),
                    at: 0,
                }
            }
            None => {
                return Ok(TranscriptListing {
                    transcripts: vec![],
                    next: None,
                });
            }
        }
    }
    let prefix = &link.options.prefix;
    let mut transcripts = vec![];
    loop {
        let mut scan = cmd("SCAN");
        // SCAN may return more than requested, so small pages use small steps.
        let step = if limit < 100 { limit.max(1) } else { STEP };
        scan.arg(cursor.at)
            .arg("MATCH")
            .arg(pattern(prefix, tenant))
            .arg("COUNT")
            .arg(step);
        let (at, keys): (u64, Vec<String>) =
            link.ask_at(cursor.node.as_ref(), "list", scan).await?;
        for id in keys
            .iter()
            .filter_map(|key| transcript(prefix, tenant, key))
        {
            let main = RedisKeys::new(prefix, tenant, &id).main;
            if let Some(head) = head(link, &main).await? {
                transcripts.push((id, head));
            }
        }
        cursor.at = at;
        if at == 0 {
            match nodes.iter().find(|node| **node > cursor.node) {
                Some(node) => cursor.node = node.clone(),
                None => {
                    return Ok(TranscriptListing {
                        transcripts,
                        next: None,
                    });
                }
            }
        }
        if transcripts.len() >= limit {
            return Ok(TranscriptListing {
                transcripts,
                next: Some(cursor.to_text()),
            });
        }
    }
}

pub(crate) async fn head(link: &Link, main: &str) -> Result<Option<HeadRow>> {
    let mut command = cmd("HMGET");
    command.arg(main).arg(&["v", "t", "b"]);
    let fields: (Option<u64>, Option<i64>, Option<String>) = link.ask("look", &command).await?;
    Ok(head_of(fields))
}

impl Cursor {
    fn to_text(&self) -> String {
        match &self.node {
            None => self.at.to_string(),
            Some(node) => format!("{} {} {}", self.at, node.port, node.host),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let at = parts.next()?.parse().ok()?;
        let node = match (parts.next(), parts.next()) {
            (None, _) => None,
            (Some(port), Some(host)) => Some(Node {
                host: host.to_owned(),
                port: port.parse().ok()?,
            }),
            (Some(_), None) => return None,
        };
        Some(Self { node, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip() {
        let node = Some(Node {
            host: "::1".into(),
            port: 7,
        });
        for cursor in [Cursor { node: None, at: 9 }, Cursor { node, at: u64::MAX }] {
            assert_eq!(Cursor::parse(&cursor.to_text()), Some(cursor));
        }
        assert_eq!(Cursor::parse("x"), None);
        assert_eq!(Cursor::parse("1 2"), None);
    }
}
