//! What can go wrong.

use thiserror::Error;

#[derive(Debug, Error)]
#[error("unfinished")]
pub struct Error;
