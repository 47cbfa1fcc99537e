//! L10 under fire: sixteen writers append while the daemon is killed or its disk fails. Whatever happens, each
//! acknowledged message is there, once, whole, and in the order in which its writer said it.
//!
//! `SKEIN_TEST_CRASH_SEED=N` repeats a run's choices, `SKEIN_TEST_CRASH_ROUNDS=N` changes their number.

#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod disk_errors;
mod kills;
mod talk;

use crate::storm::random::{self, Random};

/// How many rounds, and what chooses what happens in them.
#[expect(clippy::print_stdout, reason = "who reads of a failure needs the seed")]
fn chosen(rounds: usize) -> (usize, Random) {
    let seed = random::setting("SKEIN_TEST_CRASH_SEED").unwrap_or_else(random::fresh_seed);
    println!("SKEIN_TEST_CRASH_SEED={seed} repeats this run");
    let rounds = random::setting("SKEIN_TEST_CRASH_ROUNDS").map_or(rounds, |n| n as usize);
    (rounds, Random::new(seed))
}
