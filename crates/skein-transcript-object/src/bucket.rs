//! Objects in a bucket, through `object_store`.
//!
//! `object_store` repeats failed reads and deletes. It must not repeat a conditional put: if the answer to the first
//! one is lost, the second finds the object of the first and is refused, although the write succeeded. So this module
//! repeats puts itself: each carries a random mark, which distinguishes its object from another writer's. If even the
//! mark does not decide, the answer is "unavailable", which promises nothing.

mod build;
mod failure;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, UpdateVersion,
};
use skein_transcript::cold::{Cold, Name, Object, PutCondition, PutResult, Tag};
use skein_transcript::{Error, Result, async_trait};

use crate::settings::BucketSettings;
use crate::{LARGEST, name};
use failure::{Failure, Means};

/// The metadata key of a put's mark. Azure accepts only letters.
const MARK: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("skeinput"));

/// A bucket, or a part of one.
pub struct Bucket {
    /// As the user wrote it.
    label: String,
    prefix: String,
    /// Retries failed requests.
    reads: Arc<dyn ObjectStore>,
    /// Does not retry.
    writes: Arc<dyn ObjectStore>,
    timeout: Duration,
    attempts: usize,
}

enum PutAttempt {
    Done,
    /// The condition does not hold; this attempt wrote nothing.
    Refused,
    /// Another writer is active; nothing was written.
    Contended(Error),
    /// The write may have succeeded.
    InDoubt(Error),
}

impl Bucket {
    /// Sends no request yet.
    pub fn open(settings: &BucketSettings) -> Result<Self> {
        build::bucket(settings)
    }

    fn path(&self, name: &str) -> Result<Path> {
        let path = match self.prefix.as_str() {
            "" => Path::parse(name),
            prefix => Path::parse(format!("{prefix}/{name}")),
        };
        path.map_err(|e| Error::Bug(format!("a name is not a path: {e}")))
    }

    fn tier_error(&self, failure: &object_store::Error) -> Error {
        Failure::of(failure).to_error(&self.label, self.timeout)
    }

    /// The object, with the mark of its put.
    async fn fetch(&self, path: &Path) -> Result<Option<(Object, Option<String>)>> {
        let found = match self.reads.get_opts(path, GetOptions::default()).await {
            Ok(found) => found,
            Err(e) if Failure::of(&e).means() == Means::NoObject => return Ok(None),
            Err(e) => return Err(self.tier_error(&e)),
        };
        let size = found.meta.size;
        if size > LARGEST {
            return Err(Error::corrupt(
                path,
                format!("it has {size} bytes, more than Skein ever writes"),
            ));
        }
        let tag = tag(found.meta.e_tag.as_deref(), found.meta.version.as_deref());
        let mark = found.attributes.get(&MARK).map(|mark| mark.to_string());
        let body = found.bytes().await.map_err(|e| self.tier_error(&e))?;
        if body.len() as u64 != size {
            return Err(Error::cold(format!(
                "`{}` sent an incomplete object",
                self.label
            )));
        }
        let body = body.into();
        Ok(Some((Object { body, tag }, mark)))
    }

    async fn try_put(
        &self,
        path: &Path,
        body: &PutPayload,
        mark: &str,
        when: &PutCondition,
    ) -> Result<PutAttempt> {
        let mode = match when {
            PutCondition::Absent => PutMode::Create,
            PutCondition::Unchanged(tag) => PutMode::Update(version(tag)),
        };
        let options = PutOptions {
            mode,
            attributes: Attributes::from_iter([(MARK, mark.to_owned())]),
            ..PutOptions::default()
        };
        let Err(error) = self.writes.put_opts(path, body.clone(), options).await else {
            return Ok(PutAttempt::Done);
        };
        let failure = Failure::of(&error);
        let error = || failure.to_error(&self.label, self.timeout);
        match failure.means() {
            Means::Refused => Ok(PutAttempt::Refused),
            // There is no object to replace.
            Means::NoObject => Ok(PutAttempt::Refused),
            Means::Contended | Means::NotSent => Ok(PutAttempt::Contended(error())),
            Means::Unknown => Ok(PutAttempt::InDoubt(error())),
            Means::Denied | Means::Misconfigured => Err(error()),
        }
    }

    async fn put_once(&self, name: &str, body: Vec<u8>, when: PutCondition) -> Result<PutResult> {
        let (path, body, mark) = (self.path(name)?, PutPayload::from(body), mark()?);
        let (mut doubt, mut pause) = (None, Duration::from_millis(50));
        for attempt in 1.. {
            match self.try_put(&path, &body, &mark, &when).await? {
                PutAttempt::Done => return Ok(PutResult::Done),
                PutAttempt::Refused => {
                    return match doubt {
                        None => Ok(PutResult::Refused),
                        Some(why) => self.check_mark(&path, &mark, why).await,
                    };
                }
                PutAttempt::Contended(why) if attempt >= self.attempts => {
                    return Err(doubt.unwrap_or(why));
                }
                PutAttempt::InDoubt(why) if attempt >= self.attempts => return Err(why),
                PutAttempt::Contended(_) => {}
                PutAttempt::InDoubt(why) => doubt = Some(why),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
        Err(Error::Bug("a put did not end".into()))
    }

    /// Decides about a put that was in doubt and then refused.
    async fn check_mark(&self, path: &Path, mark: &str, why: Error) -> Result<PutResult> {
        match self.fetch(path).await? {
            Some((_, Some(theirs))) if theirs == mark => Ok(PutResult::Done),
            // Our object may have existed briefly before another writer replaced or removed it.
            _ => Err(why),
        }
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.label)
    }
}

#[async_trait]
impl Cold for Bucket {
    async fn get(&self, name: &Name) -> Result<Option<Object>> {
        let found = self.fetch(&self.path(name::object(name)?)?).await?;
        Ok(found.map(|(object, _)| object))
    }

    async fn put(&self, name: &Name, body: Vec<u8>, when: PutCondition) -> Result<PutResult> {
        self.put_once(name::object(name)?, body, when).await
    }

    async fn delete(&self, name: &Name) -> Result<()> {
        let path = self.path(name::object(name)?)?;
        match self.reads.delete(&path).await {
            Err(e) if Failure::of(&e).means() == Means::NoObject => Ok(()),
            other => other.map_err(|e| self.tier_error(&e)),
        }
    }

    async fn list(&self, prefix: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>> {
        let prefix = self.path(name::prefix(prefix)?)?;
        let mut found = match after {
            Some(after) => {
                let after = self.path(name::object(after)?)?;
                self.reads.list_with_offset(Some(&prefix), &after)
            }
            None => self.reads.list(Some(&prefix)),
        };
        let mut names = vec![];
        while names.len() < limit
            && let Some(object) = found.next().await
        {
            let object = object.map_err(|e| self.tier_error(&e))?;
            let name = object.location.as_ref().strip_prefix(&self.prefix);
            let name = name.map(|name| Name::from_stored(name.trim_start_matches('/')));
            // Ignores objects that other programs put there.
            names.extend(name.filter(|name| name::object(name).is_ok()));
        }
        Ok(names)
    }
}

fn mark() -> Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| Error::cold(format!("no random bytes: {e}")))?;
    Ok(format!("{:032x}", u128::from_le_bytes(random)))
}

/// S3 and Azure use the ETag, Google the generation.
fn tag(e_tag: Option<&str>, version: Option<&str>) -> Tag {
    Tag(format!(
        "{}\n{}",
        e_tag.unwrap_or(""),
        version.unwrap_or("")
    ))
}

fn version(tag: &Tag) -> UpdateVersion {
    let (e_tag, version) = tag.0.split_once('\n').unwrap_or((&tag.0, "0"));
    let some = |part: &str| Some(part.to_owned()).filter(|part| !part.is_empty());
    UpdateVersion {
        e_tag: some(e_tag),
        version: some(version),
    }
}
