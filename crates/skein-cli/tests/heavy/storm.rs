//! What the storms share: a daemon and its violent end, HTTP that counts what was acknowledged, and choices that a seed
//! repeats.

pub(crate) mod daemon;
pub(crate) mod http;
pub(crate) mod random;
