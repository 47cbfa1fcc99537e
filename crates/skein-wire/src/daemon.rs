use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DaemonStatus {
    pub pid: u32,
    pub version: String,
    pub uptime_s: u64,
    /// Live sessions of the caller's tenant.
    pub sessions: u64,
    pub socket: String,
    /// Address of the TCP listener, if there is one.
    pub listen: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    pub ok: bool,
}

/// What a retention sweep archived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RetentionReport {
    pub archived: Vec<String>,
}
