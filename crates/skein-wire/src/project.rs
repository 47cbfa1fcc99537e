use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A repository or folder with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    pub id: String,
    pub tenant: String,
    pub name: String,
    /// Canonical path, if the project has a folder.
    pub path: Option<String>,
    /// The prefix of its session ids.
    pub prefix: String,
    pub limits: Limits,
    pub retention: Retention,
    pub version: u64,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// How deep sessions may delegate; a root session's child has depth 1.
    pub depth: u32,
    /// How many live children one session may have.
    pub width: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Retention {
    /// Idle and ended sessions that were untouched for this long are archived.
    pub idle_ttl_seconds: Option<u64>,
    /// The oldest ended sessions beyond this number are archived.
    pub max_ended: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddProject {
    /// Default: the last part of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A folder on the daemon's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Default: made from the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ttl_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ended: Option<u32>,
}

/// Omitted fields stay unchanged; 0 switches a retention rule off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetProject {
    /// Refuses unless the record is at this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ttl_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ended: Option<u32>,
}
