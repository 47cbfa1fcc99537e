use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a session leaves for others; written once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    pub id: String,
    pub session: String,
    /// `succeeded`, `partial` or `failed`.
    pub outcome: String,
    pub text: String,
    pub key_decisions: Vec<String>,
    pub deliverables: Vec<Deliverable>,
    pub based_on: Option<String>,
    pub at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Deliverable {
    /// A file in the session's workspace, by relative path.
    File {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    Message {
        session: String,
        message: String,
    },
    Summary {
        session: String,
    },
    Blob {
        reference: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
    },
}

request! {
    pub struct SetSummary {
        pub text: String,
        /// Default: `succeeded`.
        pub outcome?: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub key_decisions: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub deliverables: Vec<Deliverable>,
        /// The session whose summary this work started from.
        pub based_on?: String,
    }
}
