//! The terminal seen from the program that runs in it: bytes as keys and pastes, raw mode, size.
//!
//! For the programs inside `skein` that draw a screen of their own: the scripted agent and the driver. Not for
//! viewers of other programs' terminals, which is `skein-runtime`'s subject. Read [`Keys`] first.

mod keys;
mod terminal;

pub use keys::{Key, Keys};
pub use terminal::{Input, Terminal};
