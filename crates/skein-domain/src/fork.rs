//! A session that goes on from a point of another's transcript.

use crate::id::SessionId;
use crate::text::MessageId;
use crate::time::Timestamp;

/// Where a forked session's transcript comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkedFrom {
    pub session: SessionId,
    /// The last message that is shared; none if the source had none yet.
    pub message: Option<MessageId>,
}

/// A fork under way: what the journal holds from the moment its id is taken until its session is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The session it is to become. Nobody else ever gets this id.
    pub session: SessionId,
    pub source: SessionId,
    pub at: Timestamp,
}
