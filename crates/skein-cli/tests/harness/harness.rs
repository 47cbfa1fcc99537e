//! What tests of the real binary share: a home to live in, commands in it, raw HTTP to its daemon, and what is needed
//! to look at the machine afterwards.

mod fleet;
mod home;
// The server proves its API with the same client.
#[path = "../../../skein-server/tests/http/client.rs"]
mod http;
#[cfg(target_os = "linux")]
pub(crate) mod library;
pub(crate) mod script;

pub(crate) use fleet::{Fleet, GC, alive, end, eventually, json_lines};
pub(crate) use home::{Daemon, Home, Ran, wait_until_released};
pub(crate) use http::{Call, Response, Stream, hostile, read_all, text};
