//! Skein as its users meet it: the real binary in an empty home, its daemon, its socket, its files.
//!
//! Each file holds the claims about one subject, named after the law they prove. Tests named `heavy_…` take
//! long and run in the full suite only. Nothing here sleeps: tests wait for exits, locks, lines and events.

mod bad_input;
mod caps;
mod contract;
mod daemon;
mod damage;
mod door;
mod events;
mod homes;
mod idempotency;
mod model_server;
mod one_writer;
mod projects;
mod tools;
mod walls;
