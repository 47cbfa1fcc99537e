//! The options of the tier.

use std::fmt;
use std::time::Duration;

use skein_transcript::{Error, Result};

/// How an acknowledged write survives power loss (L10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The server syncs before it answers: `appendonly yes` and `appendfsync always`, checked on connecting. Concurrent
    /// writers share a sync.
    #[default]
    Always,
    /// `appendonly yes`, and every write is followed by `WAITAOF 1 0` (Redis 7.2 and later, no cluster). For servers
    /// shared with users that need `appendfsync everysec`: writes of one handle then wait for each other, up to a
    /// second each. A write fails if the wait exceeds [`RedisOptions::timeout`].
    WaitAof,
    /// No guarantee: acknowledged writes may be lost. Must be requested explicitly.
    AllowVolatile,
}

/// How to reach Redis and what to ask of it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    pub(crate) url: String,
    pub(crate) durability: Durability,
    pub(crate) ttl: Option<Duration>,
    pub(crate) timeout: Duration,
    pub(crate) prefix: String,
}

impl RedisOptions {
    /// - `redis://[[user]:password@]host[:port][/db]`
    /// - `redis+unix:///path/to/socket[?db=N&user=U&pass=P]`
    /// - `redis-cluster://[[user]:password@]host[:port][,host[:port]…]`: some nodes; the client finds the others
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            durability: Durability::default(),
            ttl: None,
            timeout: Duration::from_secs(10),
            prefix: "skein:".into(),
        }
    }

    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Lets a whole transcript expire this long after its last write. Default: never.
    ///
    /// Use it only with a cold tier and a sweep that flushes idle transcripts well before: unflushed data is lost on
    /// expiry. The loss is not silent: the version remains stored, and continuing from an older copy is refused until
    /// someone accepts the loss by evicting the transcript. A fork reads shared entries from its source, so a source
    /// that expires unflushed is a loss for its forks too.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Timeout of connecting and of each answer. Default: 10 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The prefix of all keys. Default: `skein:`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Milliseconds for the scripts; `0` means none.
    pub(crate) fn ttl_millis(&self) -> u128 {
        self.ttl.map_or(0, |ttl| ttl.as_millis().max(1))
    }

    pub(crate) fn address(&self) -> Result<Address> {
        // Redis would take a brace in the prefix for the hash tag.
        if self.prefix.contains(['{', '}']) {
            return Err(Error::hot(
                "the prefix of keys in Redis must not contain braces",
            ));
        }
        if let Some(rest) = self.url.strip_prefix("redis-cluster://") {
            let (user, hosts) = rest
                .rsplit_once('@')
                .map_or(("", rest), |(user, h)| (user, h));
            let at = if user.is_empty() { "" } else { "@" };
            let hosts = hosts.trim_end_matches('/').split(',');
            let nodes: Vec<String> = hosts
                .map(|host| format!("redis://{user}{at}{host}"))
                .collect();
            if nodes.iter().any(|node| node.ends_with(['/', '@'])) {
                return Err(bad_url());
            }
            return Ok(Address::Cluster(nodes));
        }
        if self.url.starts_with("rediss://") {
            return Err(Error::hot(
                "TLS to Redis needs a proxy in front of it; use `redis://` to that proxy",
            ));
        }
        if !self.url.starts_with("redis://") && !self.url.starts_with("redis+unix://") {
            return Err(bad_url());
        }
        Ok(Address::One(self.url.clone()))
    }

    /// The secret parts of the URL.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let rest = self
            .url
            .split_once("://")
            .map_or(self.url.as_str(), |(_, rest)| rest);
        let of_user = rest
            .rsplit_once('@')
            .and_then(|(user, _)| Some(user.split_once(':')?.1));
        let of_query = rest
            .split_once("pass=")
            .map(|(_, p)| p.split('&').next().unwrap_or(p));
        of_user
            .into_iter()
            .chain(of_query)
            .filter(|secret| !secret.is_empty())
            .collect()
    }

    fn shown_url(&self) -> String {
        let hide = |url: String, secret: &str| url.replace(secret, "***");
        self.secrets().into_iter().fold(self.url.clone(), hide)
    }
}

/// Omits the URL, which may contain a password.
pub(crate) fn bad_url() -> Error {
    Error::hot(
        "the URL of Redis is invalid; expected `redis://[user:password@]host[:port][/db]`, \
         `redis+unix:///path` or `redis-cluster://[user:password@]host:port,host:port`",
    )
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Address {
    One(String),
    Cluster(Vec<String>),
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &self.shown_url())
            .field("durability", &self.durability)
            .field("ttl", &self.ttl)
            .field("timeout", &self.timeout)
            .field("prefix", &self.prefix)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l14_options_show_no_password() {
        for url in [
            "redis://:hunter2@localhost:1/0",
            "redis://me:hunter2@localhost",
            "redis-cluster://me:hunter2@a:1,b:2",
            "redis+unix:///x?user=me&pass=hunter2&db=1",
        ] {
            let shown = format!("{:?}", RedisOptions::new(url));
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn cluster_urls_name_each_node() {
        let nodes = |url: &str| match RedisOptions::new(url).address() {
            Ok(Address::Cluster(nodes)) => nodes,
            _ => vec![],
        };
        assert_eq!(
            nodes("redis-cluster://me:x@a:1,b:2/"),
            ["redis://me:x@a:1", "redis://me:x@b:2"]
        );
        assert_eq!(nodes("redis-cluster://a"), ["redis://a"]);
    }

    #[test]
    fn l13_bad_urls_are_refused_without_being_repeated() {
        for url in [
            "",
            "hunter2",
            "http://hunter2",
            "rediss://:hunter2@a",
            "redis-cluster://",
            "redis-cluster://a,,b",
        ] {
            let Err(error) = RedisOptions::new(url).address() else {
                panic!("{url} was taken");
            };
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        assert!(
            RedisOptions::new("redis://a")
                .prefix("{x}")
                .address()
                .is_err()
        );
    }
}
