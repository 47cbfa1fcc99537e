//! Types and pure decisions of Skein.
//!
//! Everything here is a value or a function of values: no IO, async, clock or environment. The caller passes
//! the time and the facts; this crate decides what follows from them.
//! Records, sagas and the data of events are stored as their types here serialise; `skein-store` numbers the forms and
//! compares them with golden files. `skein-wire` has the wire forms.
//!
//! Start with [`phase`] (the life of a session), [`error`] (what can go wrong) and [`fact`] (what an event
//! records).

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
mod word;
pub mod workspace;

pub use actor::Actor;
pub use budget::{Allowance, Budget, Usage};
pub use error::{Conflict, Detail, Error, Invalid, Kind, NotFound, Refused};
pub use fact::Fact;
pub use fork::ForkedFrom;
pub use gear::{Gear, Limit, ReadFile, Spent};
pub use handoff::BroadcastReport;
pub use id::{
    Prefix, ProjectId, ReceiptId, SagaId, SessionId, SummaryId, TenantId, ThreadId, TokenId,
};
pub use observed::{Activity, Exit, Observations, RuntimeState, StatusThresholds};
pub use phase::{OptionKind, Outcome, Phase, PhaseName, Question, Step};
pub use project::{Limits, Project, Retention};
pub use receipt::{Delivery, DeliveryDoubt, Purpose, Receipt, WrittenInput};
pub use redact::Redaction;
pub use run::{
    CommandLine, EnvVar, LaunchSettings, ModelName, NativeId, Permission, PromptVia, RunHandle,
    RuntimeKind, Via,
};
pub use saga::{Saga, SagaKind, SagaRequest, SagaState, SagaStep};
pub use session::{Merge, Session};
pub use status::{Derived, Status};
pub use summary::{Deliverable, Summary, SummaryOutcome};
pub use text::{AgentName, Key, Message, MessageId, Name, QuestionId, Reason, Task, Title};
pub use thread::{Thread, ThreadState};
pub use time::Timestamp;
pub use token::{Right, Rights, Role, RunScope, Token};
pub use workspace::{
    AbsPath, Backup, BranchName, CommitId, Revision, Workspace, WorkspaceKind, WorkspaceOrigin,
    WorkspaceState,
};
