use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    pub id: String,
    pub tenant: String,
    pub name: String,
    /// `read`, `operate` or `admin`.
    pub role: String,
    /// Rights besides the role: `run` starts programs of the caller's choice.
    pub allow: Vec<String>,
    pub actor: Option<String>,
    pub created_at: String,
    pub expires_at: Option<String>,
    pub revoked_at: Option<String>,
}

/// A new token. The secret is shown only once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenSecret {
    pub token: Token,
    pub secret: String,
}

request! {
    pub struct NewToken {
        pub name: String,
        /// Default: `operate`.
        pub role?: String,
        /// `run`: start programs of the caller's choice as the daemon's user. Default: none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub allow: Vec<String>,
        /// The holder acts as this actor, on sessions that the actor owns.
        pub actor?: String,
        /// Default: never.
        pub expires_in_seconds?: u64,
    }
}
