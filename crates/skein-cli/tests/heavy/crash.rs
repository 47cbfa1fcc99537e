//! The crash storm: the real daemon is killed with SIGKILL at random moments under concurrent load, and after
//! every restart each acknowledged change is there, no other is half there, and the log still holds together.
//!
//! `SKEIN_TEST_CRASH_SEED=N` repeats a run's choices (the races stay the machine's), and
//! `SKEIN_TEST_CRASH_ROUNDS=N` changes their number. What a round does: [`load`]; what must hold: [`check`].

mod check;
mod load;
mod operation;

use std::time::{Duration, Instant};

use crate::storm::daemon::{Daemon, Home};
use crate::storm::http::Connection;
use crate::storm::random::{self, Random};
use check::Ledger;
use load::{Trigger, World};

const ROUNDS: usize = 200;
/// A full look at every session, every so many rounds; what the round touched is looked at each time.
const FULL_CHECK: usize = 10;
/// How fast a restart is belongs to the benchmarks; this only tells a slow one from a stuck one.
const READY: Duration = Duration::from_secs(60);

#[test]
fn heavy_l4_l9_two_hundred_kills_lose_nothing() {
    let seed = random::setting("SKEIN_TEST_CRASH_SEED").unwrap_or_else(random::fresh_seed);
    let rounds = random::setting("SKEIN_TEST_CRASH_ROUNDS").map_or(ROUNDS, |n| n as usize);
    println!("SKEIN_TEST_CRASH_SEED={seed} repeats this run");
    let mut random = Random::new(seed);
    let home = Home::new();
    let mut storm = Storm::begin(&home);
    let started = Instant::now();
    for round in 0..rounds {
        storm.round(&home, round, &mut random);
    }
    println!("{}", storm.report(started.elapsed()));
    storm.ledger.expect_coverage(storm.kills);
}

struct Storm {
    world: World,
    ledger: Ledger,
    daemon: Daemon,
    restarts: Vec<Duration>,
    kills: usize,
}

impl Storm {
    fn begin(home: &Home) -> Self {
        let (daemon, took) = Daemon::launch(home).wait_until_ready();
        let mut connection = connect(home);
        Self {
            world: World::new(&mut connection),
            ledger: Ledger::default(),
            daemon,
            restarts: vec![took],
            kills: 0,
        }
    }

    fn round(&mut self, home: &Home, round: usize, random: &mut Random) {
        let trigger = Trigger::random(random);
        let records = load::run(&mut self.world, home, &self.daemon, round, trigger, random);
        self.restart(home, random);

        let mut connection = connect(home);
        self.ledger.read_events(&mut connection);
        self.ledger.check_settled(&mut connection);
        let settled = self.ledger.repeat_all(&mut connection, records);
        self.ledger.read_events(&mut connection);
        self.ledger.check_effects(&settled);
        if round % FULL_CHECK == FULL_CHECK - 1 {
            self.ledger.check_everything(&mut connection);
        }
        self.world.refresh(&mut connection);
    }

    /// Takes the place of the daemon that was killed.
    fn restart(&mut self, home: &Home, random: &mut Random) {
        self.daemon.kill();
        self.kills += 1;
        if random.one_in(8) {
            // Killed again while it starts, perhaps in the middle of clearing up.
            Daemon::launch(home).kill_after(Duration::from_micros(random.below(60_000)));
            self.kills += 1;
        }
        let (daemon, took) = Daemon::launch(home).wait_until_ready();
        assert!(took < READY, "a restart took {took:?}");
        self.restarts.push(took);
        self.daemon = daemon;
    }

    fn report(&mut self, took: Duration) -> String {
        self.restarts.sort();
        let at = |part: f64| self.restarts[((self.restarts.len() - 1) as f64 * part) as usize];
        let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
        format!(
            "{} kills in {took:.1?}; ready after a kill: p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}\n{}",
            self.kills, self.ledger
        )
    }
}

fn connect(home: &Home) -> Connection {
    Connection::open(&home.socket()).expect("a ready daemon takes calls")
}
