//! What supervisors make of runs, with an agent and a terminal that do what the test says.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod calls;
mod deadlines;
mod failing;
mod idle;
mod killed;
mod limited;
mod reading;
mod restored;
mod said;
mod spawned;
mod stand_in;
mod windows;
mod world;
