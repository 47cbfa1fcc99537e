//! Objects in a bucket, through `object_store`.
//!
//! Reads and deletes may be repeated, and are, by `object_store`. A conditional put may not: if the answer
//! to the first one was lost, the second finds the first one's object and is refused, although what was to
//! be written was written. So puts are repeated here, where that is known: each carries a mark of its own,
//! by which a put in doubt is told from another writer's. If even that does not tell, the answer is
//! "unavailable", which promises nothing.

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
use skein_transcript::cold::{Cold, Name, Object, Pending, Put, Tag, When};
use skein_transcript::{Error, Result};

use crate::settings::Settings;
use crate::{LARGEST, name};
use failure::{Failure, Means};

/// Under which a put's mark is kept. Letters only, or Azure will not have it.
const MARK: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("skeinput"));

/// A bucket, or a part of one.
pub struct Bucket {
    /// As the user wrote it.
    label: String,
    prefix: String,
    /// Repeats what fails.
    reads: Arc<dyn ObjectStore>,
    /// Does not.
    writes: Arc<dyn ObjectStore>,
    timeout: Duration,
    attempts: usize,
}

/// What one attempt to put has shown.
enum Tried {
    Done,
    /// By its condition; nothing was written by this attempt.
    Refused,
    /// Somebody else is at it; nothing was written.
    Contended(Error),
    /// It may have been written.
    InDoubt(Error),
}

impl Bucket {
    /// Asks the store nothing yet.
    pub fn open(settings: &Settings) -> Result<Self> {
        build::bucket(settings)
    }

    fn path(&self, name: &str) -> Result<Path> {
        let path = match self.prefix.as_str() {
            "" => Path::parse(name),
            prefix => Path::parse(format!("{prefix}/{name}")),
        };
        path.map_err(|e| Error::Bug(format!("a name is no path: {e}")))
    }

    fn told(&self, failure: &object_store::Error) -> Error {
        Failure::of(failure).told(&self.label, self.timeout)
    }

    /// The object, and the mark of the put it came by.
    async fn fetch(&self, path: &Path) -> Result<Option<(Object, Option<String>)>> {
        let found = match self.reads.get_opts(path, GetOptions::default()).await {
            Ok(found) => found,
            Err(e) if Failure::of(&e).means() == Means::NoObject => return Ok(None),
            Err(e) => return Err(self.told(&e)),
        };
        let size = found.meta.size;
        if size > LARGEST {
            return Err(Error::corrupt(
                path,
                format!("it has {size} bytes, more than we ever put"),
            ));
        }
        let tag = tag(found.meta.e_tag.as_deref(), found.meta.version.as_deref());
        let mark = found.attributes.get(&MARK).map(|mark| mark.to_string());
        let body = found.bytes().await.map_err(|e| self.told(&e))?;
        if body.len() as u64 != size {
            return Err(Error::cold(format!(
                "`{}` sent only a part of an object",
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
        when: &When,
    ) -> Result<Tried> {
        let mode = match when {
            When::Absent => PutMode::Create,
            When::Unchanged(tag) => PutMode::Update(version(tag)),
        };
        let options = PutOptions {
            mode,
            attributes: Attributes::from_iter([(MARK, mark.to_owned())]),
            ..PutOptions::default()
        };
        let Err(error) = self.writes.put_opts(path, body.clone(), options).await else {
            return Ok(Tried::Done);
        };
        let failure = Failure::of(&error);
        let told = || failure.told(&self.label, self.timeout);
        match failure.means() {
            Means::Refused => Ok(Tried::Refused),
            // There is nothing to replace.
            Means::NoObject => Ok(Tried::Refused),
            Means::Contended | Means::NotSent => Ok(Tried::Contended(told())),
            Means::Unknown => Ok(Tried::InDoubt(told())),
            Means::Denied | Means::Misconfigured => Err(told()),
        }
    }

    async fn put_once(&self, name: &str, body: Vec<u8>, when: When) -> Result<Put> {
        let (path, body, mark) = (self.path(name)?, PutPayload::from(body), mark()?);
        let (mut doubt, mut pause) = (None, Duration::from_millis(50));
        for attempt in 1.. {
            match self.try_put(&path, &body, &mark, &when).await? {
                Tried::Done => return Ok(Put::Done),
                Tried::Refused => {
                    return match doubt {
                        None => Ok(Put::Refused),
                        Some(why) => self.whose(&path, &mark, why).await,
                    };
                }
                Tried::Contended(why) if attempt >= self.attempts => {
                    return Err(doubt.unwrap_or(why));
                }
                Tried::InDoubt(why) if attempt >= self.attempts => return Err(why),
                Tried::Contended(_) => {}
                Tried::InDoubt(why) => doubt = Some(why),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
        Err(Error::Bug("a put came to no end".into()))
    }

    /// Settles a put that was in doubt and then refused.
    async fn whose(&self, path: &Path, mark: &str, why: Error) -> Result<Put> {
        match self.fetch(path).await? {
            Some((_, Some(theirs))) if theirs == mark => Ok(Put::Done),
            // Ours may have been there for a moment, and been replaced or removed.
            _ => Err(why),
        }
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.label)
    }
}

impl Cold for Bucket {
    fn get<'a>(&'a self, name: &'a Name) -> Pending<'a, Option<Object>> {
        Box::pin(async move {
            let found = self.fetch(&self.path(name::object(name)?)?).await?;
            Ok(found.map(|(object, _)| object))
        })
    }

    fn put<'a>(&'a self, name: &'a Name, body: Vec<u8>, when: When) -> Pending<'a, Put> {
        Box::pin(async move { self.put_once(name::object(name)?, body, when).await })
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Pending<'a, ()> {
        Box::pin(async move {
            let path = self.path(name::object(name)?)?;
            match self.reads.delete(&path).await {
                Err(e) if Failure::of(&e).means() == Means::NoObject => Ok(()),
                other => other.map_err(|e| self.told(&e)),
            }
        })
    }

    fn list<'a>(
        &'a self,
        prefix: &'a Name,
        after: Option<&'a Name>,
        limit: usize,
    ) -> Pending<'a, Vec<Name>> {
        Box::pin(async move {
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
                let object = object.map_err(|e| self.told(&e))?;
                let name = object.location.as_ref().strip_prefix(&self.prefix);
                let name = name.map(|name| Name::from_stored(name.trim_start_matches('/')));
                // What others put beside ours is not ours.
                names.extend(name.filter(|name| name::object(name).is_ok()));
            }
            Ok(names)
        })
    }
}

fn mark() -> Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| Error::cold(format!("no random bytes: {e}")))?;
    Ok(format!("{:032x}", u128::from_le_bytes(random)))
}

/// S3 and Azure go by the ETag, Google by the generation.
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
