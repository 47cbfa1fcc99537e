use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The answer of every failed call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorObject,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorObject {
    /// `misuse`, `not_found`, `conflict`, `refused`, `unavailable`, `timed_out` or `failed`.
    pub kind: String,
    pub message: String,
    /// What to try next.
    pub hints: Vec<String>,
    /// The facts behind the message.
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
}
