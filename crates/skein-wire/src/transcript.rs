//! Transcripts, and requests on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// One message of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Grows along the transcript and is the same in every fork; null in what a model is given.
    pub position: Option<u64>,
    pub id: String,
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    pub content: Vec<Block>,
    /// The provider's own form, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<MessageUsage>,
    pub at: String,
    /// The run that wrote it.
    pub run: u64,
    /// Makes this a summary that a model is given in place of those messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<Covers>,
    /// Set if the stored form could not be read in full: `content` has notes in place of the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<DamagedEntry>,
}

/// Why a stored message could not be read; in exports also its stored form, verbatim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedEntry {
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<String>,
    /// The same in hexadecimal digits, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_hex: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Block {
    Text {
        text: String,
    },
    Thinking {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    ToolCall {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        /// The id of the call it answers.
        call: String,
        content: Vec<Part>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
    },
    Image {
        media_type: String,
        /// Where the image is; its bytes are not part of a transcript.
        source: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    Text { text: String },
    Image { media_type: String, source: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Native {
    pub provider: String,
    pub payload: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MessageUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub reasoning_tokens: u64,
    pub cost_usd: f64,
}

/// Positions, `from` included, `end` not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Covers {
    pub from: u64,
    pub end: u64,
}

request! {
    /// A message to append.
    pub struct NewMessage {
        /// Chosen by the writer: appending it twice has one effect.
        pub id: String,
        /// `system`, `user`, `assistant` or `tool`.
        pub role: String,
        /// Short for a content of one text.
        pub text?: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub content: Vec<Block>,
        pub native?: Native,
        pub usage?: MessageUsage,
        /// When it was said, if in the past; never before the message ahead of it.
        pub at?: String,
    }

    pub struct Append {
        /// All or none of them are added.
        pub messages: Vec<NewMessage>,
        /// Refuses unless this is the session's current run.
        pub run?: u64,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Appended {
    pub session: String,
    pub added: u64,
    /// Already there, with the same content.
    pub already: u64,
    /// The transcript's version afterwards.
    pub version: u64,
}

request! {
    /// A part of an unfinished message. It is passed to followers and not stored.
    pub struct Delta {
        /// The id of the whole message.
        pub message: String,
        /// `text` (default), `thinking` or `tool_input`.
        pub kind?: String,
        /// Which block of the message, from 0.
        #[serde(default)]
        pub block: u32,
        pub text: String,
        pub run?: u64,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeltaPassed {
    pub session: String,
}

request! {
    pub struct Rewind {
        /// The last message that stays.
        pub to: String,
        pub run?: u64,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rewound {
    pub session: String,
    pub to: String,
    /// Number of messages that are no longer shown.
    pub dropped: u64,
}

request! {
    pub struct BeginReply {
        /// The id of the reply, chosen before the model is called.
        pub id: String,
        /// Refuses unless this is the session's current run; required while an agent is at work.
        pub run?: u64,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplyBegun {
    pub session: String,
    pub id: String,
    /// Number of messages of an earlier attempt that are no longer shown.
    pub dropped: u64,
}

request! {
    pub struct Repair {
        /// Refuses unless this is the session's current run; required while an agent is at work.
        pub run?: u64,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Repaired {
    pub session: String,
    /// Number of tool calls that got a result which says that they were left open.
    pub closed: u64,
}

request! {
    pub struct Compact {
        /// The first message that the summary replaces.
        pub from: String,
        /// The last one.
        pub through: String,
        pub text: String,
        /// The id of the summary; default: derived from `from` and `through`.
        pub id?: String,
        pub run?: u64,
    }
}

/// The state slice beside the messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct State {
    pub session: String,
    /// The version that the next change must name; 0 while nothing was set.
    pub version: u64,
    pub tasks: BTreeMap<String, Task>,
    #[schema(value_type = Object)]
    pub custom: BTreeMap<String, Value>,
}

request! {
    pub struct Task {
        pub subject: String,
        #[serde(default)]
        pub description: String,
        /// What to show while it is being done.
        #[serde(default)]
        pub active_form: String,
        /// `pending`, `in_progress` or `completed`.
        pub status: String,
        #[serde(default)]
        pub metadata: BTreeMap<String, String>,
        /// The tasks it waits for.
        #[serde(default)]
        pub blocked_by: Vec<String>,
    }

    pub struct SetState {
        /// Refuses unless the state is still at this version.
        pub expect: u64,
        #[serde(default)]
        pub tasks: BTreeMap<String, Task>,
        #[serde(default)]
        #[schema(value_type = Object)]
        pub custom: BTreeMap<String, Value>,
        pub run?: u64,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateSet {
    pub session: String,
    pub version: u64,
}

request! {
    pub struct Flush {
        /// Keep the hot copy.
        #[serde(default)]
        pub keep_hot: bool,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Flushed {
    pub session: String,
    /// Number of entries that were new in the cold tier, those of sources included.
    pub entries: u64,
    pub segments: u64,
    pub kept_hot: bool,
}

request! {
    pub struct Hydrate {}
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hydrated {
    pub session: String,
    /// False if it was already in the hot tier.
    pub hydrated: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Imported {
    pub session: String,
    pub added: u64,
    pub already: u64,
}

/// Tokens and cost of a session's messages, and of all sessions below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptUsage {
    pub session: String,
    pub own: MessageUsage,
    pub total: MessageUsage,
    /// Number of sessions in the total.
    pub sessions: u64,
}

/// Facts about a transcript that need no reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptOverview {
    pub messages: u64,
    /// The position of the next entry.
    pub position: u64,
    pub version: u64,
    /// `hot` or `cold`; null while there is no message.
    pub tier: Option<String>,
    pub usage: MessageUsage,
    pub updated_at: Option<String>,
}

/// The source of a session's transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForkedFrom {
    pub session: String,
    /// The last message that is shared.
    pub message: Option<String>,
}

request! {
    pub struct Fork {
        /// The last message that is shared; default: the newest.
        pub at?: String,
        /// Default: the source's.
        pub thread?: String,
        /// Default: the caller.
        pub owner?: String,
        /// Default: the source's.
        pub task?: String,
    }
}

/// A message that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hit {
    pub session: String,
    pub message: String,
    pub position: u64,
    pub role: String,
    pub at: String,
    /// The text around the match, in one line.
    pub excerpt: String,
    /// The words in the excerpt: from and to, in code points.
    pub marks: Vec<[u64; 2]>,
    /// Higher is better; comparable only within one search.
    pub score: f64,
}
