//! The suite every backend runs.
