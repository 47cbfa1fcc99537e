use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A recorded fact, numbered without gaps per tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub seq: u64,
    pub at: String,
    pub tenant: String,
    pub kind: String,
    pub project: Option<String>,
    pub thread: Option<String>,
    pub session: Option<String>,
    pub actor: String,
    #[schema(value_type = Object)]
    pub data: Value,
    pub prev_hash: String,
    pub hash: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VerifyReport {
    pub ok: bool,
    /// Number of events whose bodies were checked.
    pub events: u64,
    /// Number of dropped events that are covered by seals.
    pub dropped: u64,
    /// Number of the first event that was changed, removed or reordered.
    pub broken_at: Option<u64>,
    pub why: Option<String>,
}

request! {
    pub struct SealEvents {
        /// Newest events to leave unsealed.
        pub keep: u64,
        /// Also drop the bodies; only the ends of the chain stay.
        #[serde(default)]
        pub drop: bool,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SealReport {
    pub sealed: u64,
    pub dropped: u64,
}
