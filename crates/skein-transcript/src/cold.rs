//! The contract of a cold tier. Sibling crates implement it (over `object_store`, and in memory beside the suites);
//! only the service in this crate calls it.
//!
//! There are two kinds of objects. **Segments** are named after their content and never change. A **manifest**, one
//! per transcript, names its segments; only a caller that has read the present one may replace it.
//! `cold_conformance!` checks this contract:
//! - **Whole objects.** A reader gets an object as it was put, or none; never a part.
//! - **Conditions hold.** Of several puts with the same [`PutCondition`] at most one succeeds, from any number of machines.
//!   [`PutResult::Refused`] means that nothing was written.
//! - **Durable** after `Ok`, and visible to every later call. After [`crate::Error::Unavailable`] the outcome is
//!   unknown.
//! - A tier does not check the content of objects. The service does, and trusts no tier.

use std::fmt;

use async_trait::async_trait;
use skein_domain::TenantId;

use crate::error::Result;
use crate::id::TranscriptId;

/// An object's name: parts of a-z, 0-9, `-`, `_` and `.` with `/` between them, none of them `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    pub(crate) fn manifest(tenant: &TenantId, id: &TranscriptId) -> Self {
        Self(format!("{tenant}/manifests/{id}"))
    }

    pub(crate) fn segment(tenant: &TenantId, id: &TranscriptId, hash: &str) -> Self {
        Self(format!("{tenant}/segments/{id}/{hash}"))
    }

    /// The prefix of the names of a tenant's manifests.
    pub(crate) fn manifests(tenant: &TenantId) -> Self {
        Self(format!("{tenant}/manifests/"))
    }

    /// The prefix of the names of a transcript's segments.
    pub(crate) fn segments(tenant: &TenantId, id: &TranscriptId) -> Self {
        Self(format!("{tenant}/segments/{id}/"))
    }

    /// For tiers, which read names from their store, and for the suite.
    pub fn from_stored(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The store's identifier of one state of an object (an ETag, a generation, a hash); every state has another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub body: Vec<u8>,
    pub tag: Tag,
}

/// The condition of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutCondition {
    Absent,
    Unchanged(Tag),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutResult {
    Done,
    Refused,
}

#[async_trait]
pub trait Cold: Send + Sync + fmt::Debug {
    async fn get(&self, name: &Name) -> Result<Option<Object>>;

    async fn put(&self, name: &Name, body: Vec<u8>, when: PutCondition) -> Result<PutResult>;

    /// Removes the object, if it exists.
    async fn delete(&self, name: &Name) -> Result<()>;

    /// Up to `limit` names with `prefix` (which ends in `/`) after `after`, in order.
    async fn list(&self, prefix: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>>;
}
