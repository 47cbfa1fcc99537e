//! Workspaces.

pub mod error;
pub mod provider;
