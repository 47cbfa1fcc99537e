//! Checks that a store honours conditions.

use skein_transcript::cold::{Cold, Name, PutCondition, PutResult, Tag};
use skein_transcript::{Error, Result};

use crate::io::TIER;

/// Puts, reads, lists and removes a test object, and checks that conditions hold. Some stores accept conditional puts
/// and ignore the condition; on such a store, two flushes would overwrite each other.
pub async fn probe(cold: &dyn Cold) -> Result<()> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|e| Error::cold(format!("no random bytes: {e}")))?;
    // No tenant's name begins like this.
    let name = Name::from_stored(format!("-probe/{:016x}", u64::from_le_bytes(random)));
    let outcome = check_conditions(cold, &name).await;
    cold.delete(&name).await.and(outcome)
}

async fn check_conditions(cold: &dyn Cold, name: &Name) -> Result<()> {
    let no_tag = || PutCondition::Unchanged(Tag("none".into()));
    if cold.put(name, b"0".to_vec(), no_tag()).await? == PutResult::Done {
        return Err(ignores("replaces an object that does not exist"));
    }
    if cold.put(name, b"1".to_vec(), PutCondition::Absent).await? == PutResult::Refused {
        return Err(ignores("refuses a new object"));
    }
    if cold.put(name, b"2".to_vec(), PutCondition::Absent).await? == PutResult::Done {
        return Err(ignores("overwrites an object although it must not exist"));
    }
    let first = cold
        .get(name)
        .await?
        .ok_or_else(|| ignores("loses an object"))?;
    if cold
        .put(
            name,
            b"3".to_vec(),
            PutCondition::Unchanged(first.tag.clone()),
        )
        .await?
        == PutResult::Refused
    {
        return Err(ignores("refuses to replace an object"));
    }
    if cold
        .put(name, b"4".to_vec(), PutCondition::Unchanged(first.tag))
        .await?
        == PutResult::Done
    {
        return Err(ignores("replaces an object although it has changed"));
    }
    let last = cold
        .get(name)
        .await?
        .ok_or_else(|| ignores("loses an object"))?;
    let listed = cold
        .list(&Name::from_stored("-probe/"), None, 1_000)
        .await?;
    if last.body != b"3" || !listed.contains(name) {
        return Err(ignores("does not return the latest object"));
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
