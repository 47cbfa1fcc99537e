//! The harness: a home to live in, the command in it, and raw HTTP to its daemon.

mod home;
mod http;

pub(crate) use home::{Daemon, Home, Ran, wait_until_released};
pub(crate) use http::{Call, Response, Stream, read_all};
