//! Agents.

pub mod agent;
pub mod error;
