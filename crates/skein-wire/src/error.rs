use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The kinds of failure that callers act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    Misuse,
    NotFound,
    Conflict,
    Refused,
    Unavailable,
    TimedOut,
    /// Also any kind of a newer daemon.
    #[serde(other)]
    Failed,
}

/// The answer of every failed call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorObject,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorObject {
    /// `misuse`, `not_found`, `conflict`, `refused`, `unavailable`, `timed_out` or `failed`.
    #[schema(value_type = String)]
    pub kind: ErrorKind,
    pub message: String,
    /// What to try next.
    pub hints: Vec<String>,
    /// The facts behind the message.
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
}
