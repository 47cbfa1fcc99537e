//! The harness: a home to live in, the command in it, and raw HTTP to its daemon.

#[path = "common/home.rs"]
mod home;
#[path = "common/http.rs"]
mod http;

pub(crate) use home::{Daemon, Home, Ran, wait_until_released};
pub(crate) use http::{Call, Response, Stream, read_all};
