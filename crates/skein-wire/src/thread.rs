use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A line of work in a project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Thread {
    pub id: String,
    pub tenant: String,
    pub project: String,
    pub title: String,
    /// `open` or `archived`.
    pub state: String,
    pub version: u64,
    pub created_at: String,
    pub updated_at: String,
    pub archived_at: Option<String>,
}

request! {
    pub struct NewThread {
        /// Id or name.
        pub project: String,
        pub title: String,
    }
}
