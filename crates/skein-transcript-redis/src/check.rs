//! Checks on connecting that a server keeps what it acknowledges.

use std::collections::HashMap;

use redis::cmd;
use skein_transcript::{Error, Result};

use crate::link::{Link, Node};
use crate::options::Durability;

/// Refuses servers that cannot keep the requested promise.
pub(crate) async fn check(link: &Link) -> Result<()> {
    if link.is_cluster() && link.options.durability == Durability::WaitAof {
        return Err(Error::hot(
            "WAITAOF does not work with a cluster of Redis servers; use `appendfsync always`",
        ));
    }
    for node in link.nodes().await? {
        check_one(link, node.as_ref()).await?;
    }
    Ok(())
}

async fn check_one(link: &Link, node: Option<&Node>) -> Result<()> {
    let mut info = cmd("INFO");
    info.arg("server");
    let info: String = link.ask_at(node, "report its version", info).await?;
    let version = version(&info);
    if version < (7, 0) {
        let (major, minor) = version;
        return Err(Error::hot(format!(
            "Redis 7 is required; this is {major}.{minor}"
        )));
    }
    if link.options.durability == Durability::AllowVolatile {
        return Ok(());
    }
    let mut config = cmd("CONFIG");
    config.arg("GET").arg("append*").arg("maxmemory*");
    let set: HashMap<String, String> = link.ask_at(node, "report its settings", config).await?;
    match objection(link.options.durability, version, &set) {
        None => Ok(()),
        Some(why) => Err(Error::Unusable {
            tier: "hot",
            reason: format!("this Redis would lose acknowledged messages: {why}"),
            hints: vec![
                "change the setting on the server".into(),
                "or accept the loss: `redis_durability = \"volatile\"` in `[transcripts]`".into(),
            ],
        }),
    }
}

/// (major, minor), or zeros.
fn version(info: &str) -> (u32, u32) {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"));
    let mut parts = line
        .unwrap_or_default()
        .trim()
        .split('.')
        .map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// What is wrong with these settings.
fn objection(
    durability: Durability,
    version: (u32, u32),
    set: &HashMap<String, String>,
) -> Option<&'static str> {
    let is = |name: &str, value: &str| set.get(name).is_some_and(|v| v == value);
    if !is("appendonly", "yes") {
        return Some("`appendonly yes` is not set");
    }
    if durability == Durability::Always && !is("appendfsync", "always") {
        return Some("`appendfsync always` is not set");
    }
    if durability == Durability::WaitAof && version < (7, 2) {
        return Some("it does not support WAITAOF, which requires Redis 7.2");
    }
    if !is("maxmemory", "0") && !is("maxmemory-policy", "noeviction") {
        return Some(
            "`maxmemory-policy noeviction` is not set, so it removes data when memory is full",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(durability: Durability, version: (u32, u32), set: &str, expected: &str) {
        let pairs = set
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        let set = pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let why = objection(durability, version, &set);
        assert!(why.unwrap_or("fine").contains(expected), "{set:?}: {why:?}");
    }

    #[test]
    fn l10_servers_that_may_forget_are_objected_to() {
        use Durability::{Always, WaitAof};
        let always = "appendonly=yes appendfsync=always maxmemory=0";
        let second = "appendonly=yes appendfsync=everysec maxmemory=0";
        check(Always, (7, 0), always, "fine");
        check(Always, (7, 0), second, "appendfsync always");
        check(
            Always,
            (7, 0),
            "appendonly=no appendfsync=always maxmemory=0",
            "appendonly yes",
        );
        check(Always, (7, 0), "", "appendonly yes");
        check(WaitAof, (7, 0), second, "7.2");
        check(WaitAof, (7, 2), second, "fine");
        let room = "appendonly=yes appendfsync=always maxmemory=1 maxmemory-policy=";
        check(Always, (7, 0), &format!("{room}noeviction"), "fine");
        check(Always, (7, 0), &format!("{room}allkeys-lru"), "noeviction");
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(version("# Server\r\nredis_version:7.2.4\r\nx:y"), (7, 2));
        assert_eq!(version(""), (0, 0));
    }
}
