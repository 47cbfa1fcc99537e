//! Sessions, and requests on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::transcript::{ForkedFrom, TranscriptOverview};

/// One agent or person at work on a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    pub id: String,
    pub tenant: String,
    pub project: String,
    pub thread: String,
    pub parent: Option<String>,
    pub depth: u32,
    pub owner: String,
    /// Grows by one with every handoff or broadcast.
    pub owner_version: u64,
    pub previous_owners: Vec<String>,
    /// Grows with every change of the record.
    pub version: u64,
    pub phase: String,
    /// Derived from the facts, never stored.
    pub status: String,
    pub status_reason: String,
    /// How it ended: `done`, `killed`, `failed` or `lost`.
    pub outcome: Option<String>,
    /// Its question, while it awaits input.
    pub question: Option<Question>,
    pub agent: String,
    pub runtime: Runtime,
    pub workspace: Workspace,
    pub run: u64,
    /// Turns begun, over all runs.
    pub turns: u64,
    /// The agent program's id of its conversation, if known.
    #[serde(default)]
    pub native: Option<String>,
    /// The saga that works on it: a spawn, a restore, a kill, a gc.
    #[serde(default)]
    pub saga: Option<Saga>,
    /// Number of messages that wait for delivery.
    #[serde(default)]
    pub queued: u64,
    /// Whether they wait because of a draft in the agent's input box.
    #[serde(default)]
    pub draft: bool,
    /// A note for people: started again with its task, workspace left behind.
    #[serde(default)]
    pub note: Option<String>,
    pub display_name: String,
    /// The whole task; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    pub usage: Usage,
    pub budget: BudgetState,
    /// The broadcast that made it, or that it waits for.
    pub broadcast: Option<String>,
    pub merges: Vec<MergeDone>,
    pub summary: Option<String>,
    /// The source of its transcript, if it is a fork.
    #[serde(default)]
    pub forked_from: Option<ForkedFrom>,
    /// Facts about its transcript, once it has a message; only in answers that show one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<TranscriptOverview>,
    pub created_at: String,
    pub updated_at: String,
    pub last_activity_at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Question {
    pub text: String,
    pub options: Vec<String>,
    /// What each option means: `allow_once`, `allow_always`, `reject_once`, `reject_always` or `other`; empty if not
    /// known.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Which request of the agent it is, where a protocol names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// What holds the agent's process and shows it; kind `none` for sessions that people or external programs drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Runtime {
    /// `pty`, `tmux` or `none`.
    pub kind: String,
    /// `alive`, `exited`, `missing` or `unobserved`.
    pub state: String,
    pub pid: Option<u32>,
    /// For a run with the runtime `tmux`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

/// The tmux window that shows a run. People may close it; the run continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Window {
    /// The command that shows it in a terminal on the daemon's machine.
    pub command: String,
    /// Why it could not be opened.
    pub problem: Option<String>,
}

/// Where the session's files are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Workspace {
    /// `worktree`, `clone`, `dir` or `none`.
    pub kind: String,
    pub path: Option<String>,
    /// The repository that branch and backups are in.
    #[serde(default)]
    pub repo: Option<String>,
    pub branch: Option<String>,
    /// Null if it was not checked.
    pub dirty: Option<bool>,
    /// `planned`, `unfurnished`, `ready` or `gone`.
    #[serde(default)]
    pub state: Option<String>,
    /// The backups that were made before the folder was touched.
    #[serde(default)]
    pub backups: Vec<Backup>,
}

/// Work saved under a git ref.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    #[serde(rename = "ref")]
    pub name: String,
    pub commit: String,
    pub at: String,
}

/// A multi-step operation at work on a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Saga {
    pub id: String,
    /// `spawn`, `restore`, `kill` or `gc`.
    pub kind: String,
    /// Null while it waits for a place.
    pub step: Option<String>,
    /// Its place in the queue, from 1.
    pub place: Option<u64>,
    /// What it waits for, or what failed.
    pub why: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
}

/// In both currencies: `available = limit - spent - reserved - children`; null without a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BudgetState {
    pub tokens: TokenAccount,
    pub cost: CostAccount,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenAccount {
    pub limit: Option<u64>,
    pub spent: u64,
    /// Reserved for live children.
    pub reserved: u64,
    /// Spent by ended children.
    pub children: u64,
    pub available: Option<u64>,
}

/// In US dollars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CostAccount {
    pub limit: Option<f64>,
    pub spent: f64,
    /// Reserved for live children.
    pub reserved: f64,
    /// Spent by ended children.
    pub children: f64,
    pub available: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MergeDone {
    pub child: String,
    pub at: String,
}

request! {
    /// An omitted amount has no limit, or a share of the parent's.
    pub struct BudgetAsked {
        pub tokens?: u64,
        pub cost_usd?: f64,
    }

    pub struct Spawn {
        pub task: String,
        /// Id or name; default: that of `thread` or `parent`.
        pub project?: String,
        /// Default: a thread of its own, named after the task.
        pub thread?: String,
        /// The session that delegates.
        pub parent?: String,
        /// `user:NAME`, `agent:NAME` or `system`; default: the caller.
        pub owner?: String,
        /// Default: the project's, else `none`, a session that people or external programs drive.
        pub agent?: String,
        /// A command line instead of the agent's own.
        pub command?: String,
        /// How the agent gets its task: `typed`, `argv` or `stdin`.
        pub prompt_via?: String,
        /// `worktree`, `clone`, `dir` or `none`.
        pub workspace?: String,
        /// Default: `skein/SESSION`.
        pub branch?: String,
        /// What a new branch starts from; default: the project's, else the default branch.
        pub base?: String,
        /// `pty` or `tmux`.
        pub runtime?: String,
        /// How to drive the agent: `terminal` (default), `acp` or `native`, its program's own protocol.
        pub via?: String,
        /// Variables for the agent's environment.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub env: BTreeMap<String, String>,
        pub model?: String,
        /// What the agent may do without asking: `ask`, `edits` or `full`.
        pub permission?: String,
        /// Whether Skein tells it to continue when a limit of its provider is over.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub resume_after_limit: bool,
        /// The PATH in which programs are searched: that of the caller.
        pub path?: String,
        /// A worktree of the user that the session uses.
        pub adopt?: String,
        pub budget?: BudgetAsked,
    }

    /// Conditions of the calls that drive a turn; each is checked if given.
    pub struct BeginTurn {
        /// Refuses unless this is the session's current run.
        pub run?: u64,
        /// Refuses unless ownership is still at this version.
        pub expect_owner_version?: u64,
        /// Refuses unless this actor owns the session.
        #[serde(rename = "as")]
        pub as_actor?: String,
    }

    pub struct EndTurn {
        pub run?: u64,
        #[serde(rename = "as")]
        pub as_actor?: String,
        /// The usage of the turn; added to the session's total.
        #[serde(default)]
        pub input_tokens: u64,
        #[serde(default)]
        pub output_tokens: u64,
        #[serde(default)]
        pub cost_usd: f64,
    }

    pub struct Ask {
        pub question: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub options: Vec<String>,
        pub run?: u64,
        #[serde(rename = "as")]
        pub as_actor?: String,
    }

    pub struct Answer {
        pub text: String,
    }

    pub struct EndSession {
        /// `done` (default) or `failed`.
        pub outcome?: String,
        pub reason?: String,
        pub run?: u64,
        #[serde(rename = "as")]
        pub as_actor?: String,
    }

    pub struct Kill {
        pub reason?: String,
        /// Also kills the descendants, deepest first.
        #[serde(default)]
        pub tree: bool,
        /// Drops uncommitted work instead of saving it.
        #[serde(default)]
        pub discard: bool,
    }

    pub struct Restore {}

    pub struct Handoff {
        pub to: String,
        /// `keep` (default): the new owner continues in the same folder.
        pub workspace?: String,
        /// Refuses unless ownership is still at this version.
        pub expect_version?: u64,
    }

    pub struct Broadcast {
        /// At least two, all different.
        pub to: Vec<String>,
        pub expect_version?: u64,
    }

    pub struct Merge {
        /// The child whose work is taken over.
        pub from: String,
    }
}

/// A session with its ancestors, root first, and everything below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tree {
    pub ancestors: Vec<Session>,
    pub root: TreeNode,
    /// Set when the tree was too large to show in full.
    pub truncated: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TreeNode {
    pub session: Session,
    #[schema(no_recursion)]
    pub children: Vec<TreeNode>,
}
