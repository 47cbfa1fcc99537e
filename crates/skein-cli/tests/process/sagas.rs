//! Nothing half-done survives (L4): crashes at every step, undos that fail, queues, hostile surroundings.
//!
//! First place to read: [`audit`], which looks at the whole machine after a test and says what is left of it
//! that no record knows. Tests named `heavy_…` take long and run in the full suite only.

mod audit;
mod crash;
mod hostile;
mod intruder;
mod kill;
mod meanwhile;
mod processes;
mod queue;
mod sabotage;
mod undo;
