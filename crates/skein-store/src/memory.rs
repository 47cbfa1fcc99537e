//! The strict in-memory backend.
