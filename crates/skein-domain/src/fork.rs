//! A session that continues from a point of another's transcript.

use crate::id::SessionId;
use crate::text::MessageId;

/// Where a forked session's transcript comes from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ForkedFrom {
    pub session: SessionId,
    /// The last shared message; none if the source had none yet.
    pub message: Option<MessageId>,
}
