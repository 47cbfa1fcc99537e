//! Types and pure decisions of Skein.
//!
//! Everything here is a value or a function of values: no IO, no async, no clock, no environment and
//! no serialization. Callers bring the time and the facts; this crate says what follows from them.
//! The disk forms of these types live in `skein-store`, the wire forms in `skein-wire`.
//!
//! First places to read: [`phase`] (the life of a session), [`error`] (what can go wrong), [`fact`]
//! (what is told afterwards).

pub mod actor;
pub mod budget;
pub mod capacity;
pub mod error;
pub mod fact;
pub mod fork;
pub mod gate;
pub mod gear;
pub mod handoff;
pub mod id;
pub mod observed;
pub mod phase;
pub mod project;
pub mod receipt;
mod redact;
pub mod run;
pub mod saga;
pub mod session;
pub mod status;
pub mod summary;
pub mod text;
pub mod thread;
pub mod time;
pub mod token;
pub mod workspace;

pub use actor::Actor;
pub use budget::{Allowance, Budget, Usage};
pub use error::{Conflict, Detail, Error, Invalid, Kind, NotFound, Refused};
pub use fact::Fact;
pub use fork::{Fork, ForkedFrom};
pub use gear::{Gear, Limit, ReadFile, Spent};
pub use handoff::{BroadcastReport, Handoff, Mode};
pub use id::{
    HandoffId, Prefix, ProjectId, ReceiptId, SagaId, SessionId, SummaryId, TenantId, ThreadId,
    TokenId,
};
pub use observed::{Activity, Exit, Observed, Patience, RuntimeState};
pub use phase::{OptionKind, Outcome, Phase, PhaseName, Question, Step};
pub use project::{Limits, Project, Retention};
pub use receipt::{Delivery, Purpose, Receipt, Written};
pub use redact::Redaction;
pub use run::{
    CommandLine, EnvVar, LaunchSettings, ModelName, NativeId, Permission, PromptVia, RunHandle,
    RuntimeKind, Via,
};
pub use saga::{Saga, SagaKind, SagaState};
pub use session::{Merge, Session};
pub use status::{Derived, Status};
pub use summary::{Deliverable, Summary, SummaryOutcome};
pub use text::{AgentName, Key, Message, MessageId, Name, Reason, Task, Title};
pub use thread::{Thread, ThreadState};
pub use time::Timestamp;
pub use token::{Right, Rights, Role, RunScope, Token};
pub use workspace::{
    AbsPath, Backup, BranchName, CommitId, Origin, Revision, Workspace, WorkspaceKind,
    WorkspaceState,
};
