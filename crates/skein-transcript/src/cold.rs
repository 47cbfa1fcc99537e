//! What a cold tier must do for us. Implemented by [`crate::memory`] and by a sibling crate over
//! `object_store`; called only by the service in this crate.
//!
//! Objects are of two kinds. **Segments** are named after what they hold and never change. A **manifest**,
//! one for each transcript, names its segments; it is replaced only by who has seen the present one.
//! The contract, checked by `cold_conformance!`:
//! - **Whole objects.** A reader gets an object as it was put, or none; never a part.
//! - **Conditions hold.** Of several puts with the same [`When`] at most one is done, from any number of
//!   machines. An answer of [`Put::Refused`] means that nothing was written.
//! - **Durable** once answered with `Ok`, and seen by every later call. After [`crate::Error::Unavailable`] the
//!   outcome is unknown.
//! - Nothing is checked of what objects hold: the service does that, and trusts no tier in it.

use std::fmt;

use skein_domain::TenantId;

pub use crate::hot::Pending;
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

    /// What the names of all manifests of a tenant begin with.
    pub(crate) fn manifests(tenant: &TenantId) -> Self {
        Self(format!("{tenant}/manifests/"))
    }

    /// What the names of all segments of a transcript begin with.
    pub(crate) fn segments(tenant: &TenantId, id: &TranscriptId) -> Self {
        Self(format!("{tenant}/segments/{id}/"))
    }

    /// For tiers, which get names back from their store, and for the suite.
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

/// The store's own mark of one state of an object (an ETag, a generation, a hash). Another state has another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub body: Vec<u8>,
    pub tag: Tag,
}

/// When a put is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    Absent,
    Unchanged(Tag),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Done,
    Refused,
}

pub trait Cold: Send + Sync + fmt::Debug {
    fn get<'a>(&'a self, name: &'a Name) -> Pending<'a, Option<Object>>;

    fn put<'a>(&'a self, name: &'a Name, body: Vec<u8>, when: When) -> Pending<'a, Put>;

    /// Removes the object; fine when there is none.
    fn delete<'a>(&'a self, name: &'a Name) -> Pending<'a, ()>;

    /// Up to `limit` names that begin with `prefix` (which ends in `/`) and come after `after`, in order.
    fn list<'a>(
        &'a self,
        prefix: &'a Name,
        after: Option<&'a Name>,
        limit: usize,
    ) -> Pending<'a, Vec<Name>>;
}
