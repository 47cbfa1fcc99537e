//! Whether a store keeps its word.

use skein_transcript::cold::{Cold, Name, Put, Tag, When};
use skein_transcript::{Error, Result};

use crate::io::TIER;

/// Puts, reads, lists and removes an object of its own, and sees whether conditions hold. Some stores take
/// conditional puts and ignore the condition: with one of those, two flushers would overwrite each other.
pub async fn probe(cold: &dyn Cold) -> Result<()> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|e| Error::cold(format!("no random bytes: {e}")))?;
    // No tenant's name begins like this.
    let name = Name::from_stored(format!("-probe/{:016x}", u64::from_le_bytes(random)));
    let outcome = keeps_its_word(cold, &name).await;
    cold.delete(&name).await.and(outcome)
}

async fn keeps_its_word(cold: &dyn Cold, name: &Name) -> Result<()> {
    let no_tag = || When::Unchanged(Tag("none".into()));
    if cold.put(name, b"0".to_vec(), no_tag()).await? == Put::Done {
        return Err(ignores("replaces what is not there"));
    }
    if cold.put(name, b"1".to_vec(), When::Absent).await? == Put::Refused {
        return Err(ignores("refuses a new object"));
    }
    if cold.put(name, b"2".to_vec(), When::Absent).await? == Put::Done {
        return Err(ignores("overwrites an object that was to be new"));
    }
    let first = cold
        .get(name)
        .await?
        .ok_or_else(|| ignores("forgets what was put"))?;
    if cold
        .put(name, b"3".to_vec(), When::Unchanged(first.tag.clone()))
        .await?
        == Put::Refused
    {
        return Err(ignores("refuses to replace an object"));
    }
    if cold
        .put(name, b"4".to_vec(), When::Unchanged(first.tag))
        .await?
        == Put::Done
    {
        return Err(ignores("replaces an object that had changed"));
    }
    let last = cold
        .get(name)
        .await?
        .ok_or_else(|| ignores("forgets what was put"))?;
    let listed = cold
        .list(&Name::from_stored("-probe/"), None, 1_000)
        .await?;
    if last.body != b"3" || !listed.contains(name) {
        return Err(ignores("does not show what was put last"));
    }
    Ok(())
}

fn ignores(what: &str) -> Error {
    Error::Misconfigured {
        tier: TIER,
        reason: format!("the store {what}"),
        hint: "use a store that honours If-Match and If-None-Match on puts".into(),
    }
}
