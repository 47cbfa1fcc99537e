//! Messages to sessions, and their receipts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

request! {
    pub struct Send {
        pub text: String,
        /// The sending session, if any.
        pub from?: String,
    }
}

/// What is known about the delivery of one message; never its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    pub id: String,
    pub session: String,
    pub key: Option<String>,
    /// `task`, `message` or `answer`.
    #[serde(default)]
    pub purpose: String,
    /// The sending session, if any.
    #[serde(default)]
    pub from: Option<String>,
    /// `accepted`, `written`, `echoed`, `submitted`, `turn_started` or `unknown`.
    pub state: String,
    /// How often it was submitted.
    pub attempts: u32,
    /// Why it has come no further.
    #[serde(default)]
    pub note: Option<String>,
    /// The same for programs: `refused`, `question_gone`, `not_seen_taken` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    pub history: Vec<ReceiptStep>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptStep {
    pub state: String,
    pub at: String,
}
