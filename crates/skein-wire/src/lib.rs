//! The types of the HTTP API, shared by both ends. Plain data: strings where the domain has parsed types, RFC 3339
//! where it has timestamps. Requests refuse unknown fields; answers may gain fields.
//!
//! Not here: what the values mean (`skein-domain`) and how they are sent (`skein-server`, `skein-client`).

/// The bodies of requests. They refuse unknown fields; `name?: T` is an `Option<T>`
/// that is left out when it is `None`.
macro_rules! request {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident {
            $($(#[$meta:meta])* pub $field:ident $(?: $some:ty)? $(: $type:ty)?),* $(,)?
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[$meta])*
                $(#[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<$some>,)?
                $(pub $field: $type,)?
            )*
        }
    )+};
}

mod daemon;
mod error;
mod event;
mod fleet;
mod project;
mod receipt;
mod session;
mod summary;
mod thread;
mod token;
mod transcript;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use daemon::{DaemonStatus, Health, RetentionReport};
pub use error::{ErrorBody, ErrorKind, ErrorObject};
pub use event::{Event, SealEvents, SealReport, VerifyReport};
pub use fleet::{
    Abilities, Agent, Cursor, Diff, Gc, GcItem, GcReport, Hook, HookTaken, Interrupt, RuleMiss,
    RuleTrial, Screen, ScreenExplanation, TerminalAddress, Why, WhyFact,
};
pub use project::{AddProject, Limits, Project, Retention, SetProject};
pub use receipt::{Receipt, ReceiptStep, Send};
pub use session::{
    Answer, Ask, Backup, BeginTurn, Broadcast, BudgetAsked, BudgetState, CostAccount, EndSession,
    EndTurn, Handoff, Kill, Merge, MergeDone, Question, Restore, Runtime, Saga, Session, Spawn,
    TokenAccount, Tree, TreeNode, Usage, Window, Workspace,
};
pub use summary::{Deliverable, SetSummary, Summary};
pub use thread::{NewThread, Thread};
pub use token::{NewToken, Token, TokenSecret};
pub use transcript::{
    Append, Appended, BeginReply, Block, Compact, Covers, DamagedEntry, Delta, DeltaPassed, Flush,
    Flushed, Fork, ForkedFrom, Hit, Hydrate, Hydrated, Imported, Message, MessageUsage, Native,
    NewMessage, Part, Repair, Repaired, ReplyBegun, Rewind, Rewound, SetState, State, StateSet,
    Task, TranscriptOverview, TranscriptUsage,
};

/// The version of the interface between client and daemon.
pub const API: &str = "v1";
/// Request header naming the tenant; on TCP the token decides.
pub const TENANT_HEADER: &str = "skein-tenant";
/// Trailer after a body that broke off, for callers that accept trailers: an `ErrorBody`.
pub const ERROR_TRAILER: &str = "skein-error";
/// Request header naming who acts; on the Unix socket only.
pub const ACTOR_HEADER: &str = "skein-actor";
/// The arguments of tools that describe a call best, in order, for views that have one line for it.
pub const TELLING: [&str; 8] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "query",
    "pattern",
    "url",
];
/// Answer header with the daemon's version.
pub const VERSION_HEADER: &str = "skein-version";
/// Answer header that marks the replay of an earlier answer.
pub const REPLAYED_HEADER: &str = "skein-replayed";

/// A page of a list. `next` is the `cursor` of the following page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    pub data: Vec<T>,
    pub next: Option<String>,
}
