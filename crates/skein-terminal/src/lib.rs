//! A program's own terminal: bytes as keys and pastes, raw mode, size.
//!
//! For programs inside `skein` that draw a screen: the scripted agent and the driver. `skein-runtime` shows terminals
//! of other programs. Start with [`TimedKeys`].

mod keys;
mod terminal;

pub use keys::{Key, TimedKeys};
pub use terminal::{Terminal, TerminalEvent};
