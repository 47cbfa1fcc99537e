//! The daemon is killed with SIGKILL again and again.

use std::thread;

use crate::storm::daemon::{Daemon, Home};
use crate::transcripts::chosen;
use crate::transcripts::talk::{Talk, Told};

const ROUNDS: usize = 200;

#[test]
fn heavy_l10_two_hundred_kills_under_sixteen_writers_lose_nothing() {
    let (rounds, mut random) = chosen(ROUNDS);
    let home = Home::new();
    let (mut daemon, _) = Daemon::launch(&home).wait_until_ready();
    let mut talk = Talk::begin(&home);
    let (mut acknowledged, mut kept) = (0, 0);
    for _ in 0..rounds {
        acknowledged += storm(&home, &daemon, &mut talk, 1 + random.below(60));
        daemon.kill();
        daemon = Daemon::launch(&home).wait_until_ready().0;
        kept += talk.check(&home);
    }
    talk.check_again(&home);
    talk.check_found(&home);
    println!("{rounds} kills, {acknowledged} acknowledged, {kept} kept though the answer was lost");
    assert!(
        acknowledged as usize > rounds * 5,
        "a storm that said too little proves little"
    );
}

/// Lets all writers write, and kills the daemon once `enough` messages were acknowledged.
fn storm(home: &Home, daemon: &Daemon, talk: &mut Talk, enough: u64) -> u64 {
    let (told, killer) = (Told::default(), daemon.killer());
    thread::scope(|scope| {
        for writer in &mut talk.writers {
            scope.spawn(|| writer.run(home, &told));
        }
        told.wait_until(|told| told.acknowledged() >= enough);
        killer.kill();
    });
    told.acknowledged()
}
