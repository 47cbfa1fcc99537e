//! The fleet as its users meet it: the real binary, a real git, real terminals, scripted agents.
//!
//! Each file holds the claims about one subject, named after the law they prove. Tests named `heavy_…` take
//! long and run in the full suite only. Nothing here measures time: tests wait for what they claim.

mod access;
mod basics;
mod rules;
mod surface;
