//! L5 as its users meet it: whatever is in a workspace is there afterwards, or where the message says.
//!
//! Each file holds the claims about one subject. Trees are compared whole, byte for byte; commands that are
//! printed for people are run.

mod branches;
mod clear_up;
mod furnish;
mod gits;
mod held;
mod kinds;
mod odd;
mod shared;
mod states;
mod tree;
