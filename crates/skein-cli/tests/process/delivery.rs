//! What is sent arrives once, what is held is found again, what is shown is what was seen.
//!
//! The real binary, a real git, real terminals, scripted agents that are made difficult. Each file holds the
//! claims about one subject, named after the law they prove. Tests named `heavy_…` take long and run in the
//! full suite only. Nothing here measures time: tests wait for what they claim.

mod agents;
mod answers;
mod attach;
mod crash;
mod hooks;
mod limits;
mod messages;
mod observe;
mod post;
mod questions;
mod restart;
mod waits;
