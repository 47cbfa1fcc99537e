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

request! {
    pub struct AddProject {
        /// Default: the last part of the path.
        pub name?: String,
        /// A folder on the daemon's machine.
        pub path?: String,
        /// Default: made from the name.
        pub prefix?: String,
        pub depth?: u32,
        pub width?: u32,
        pub idle_ttl_seconds?: u64,
        pub max_ended?: u32,
    }

    /// Omitted fields stay unchanged; 0 switches a retention rule off.
    pub struct SetProject {
        /// Refuses unless the record is at this version.
        pub expect_version?: u64,
        pub depth?: u32,
        pub width?: u32,
        pub idle_ttl_seconds?: u64,
        pub max_ended?: u32,
    }
}
