//! Windows that show runs. A window never holds a run: it may close at any time, without effect on the run or its
//! session.

use std::fmt;

use skein_domain::{SessionId, TenantId};

use crate::runtime::{BoxFuture, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For a newly launched run: an existing window shows an earlier run and is replaced.
    Replace,
    /// For a running run: an existing window stays.
    IfMissing,
}

/// The sagas and the starting daemon call it; [`crate::tmux`] implements it.
///
/// Windows close by themselves when their run is over, so there is no method to close one.
pub trait Windows: Send + Sync + fmt::Debug {
    /// Fails if this machine cannot open windows. Blocks briefly.
    fn check(&self) -> Result<()>;

    /// The command that shows the session's window, for users to type.
    fn command(&self, tenant: &TenantId, session: &SessionId) -> String;

    /// Opens the window of the session's current run within a bounded time. Repeatable.
    fn open<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        mode: OpenMode,
    ) -> BoxFuture<'a, ()>;
}
