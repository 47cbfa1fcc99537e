//! The disk below the daemon's databases fails now and then: writes are refused, cut short or torn, syncs fail, and
//! at times it loses its power, and with it whatever was not synced. Linux only, because it stands between the
//! daemon and its system's library.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::thread;

use crate::storm::daemon::{Daemon, Home};
use crate::storm::random::Random;
use crate::transcripts::chosen;
use crate::transcripts::disk::Disk;
use crate::transcripts::talk::{Talk, Told, connect};

const ROUNDS: usize = 200;
/// A call that was under way when the disk was mended may still fail, and so may what waited for it.
const LATE: usize = 2;

/// A home on a disk that can fail.
struct Stage {
    disk: Disk,
    home: Home,
    random: Random,
    acknowledged: u64,
    refused: u64,
}

impl Stage {
    fn new(random: Random) -> Self {
        let home = Home::new();
        Self {
            disk: Disk::below(home.path()),
            home,
            random,
            acknowledged: 0,
            refused: 0,
        }
    }

    fn launch(&mut self) -> Daemon {
        let seed = self.random.below(u64::MAX);
        let launched = Daemon::launch_as(&self.home, |command| {
            self.disk.carry(command, seed);
            command.stderr(append(self.said()));
        });
        launched.wait_until_ready().0
    }

    /// Where the daemon's last words go.
    fn said(&self) -> PathBuf {
        self.home.path().join("stderr")
    }

    /// Everybody writes to a failing disk, until there were enough answers.
    fn storm(&mut self, talk: &mut Talk, end: impl FnOnce(&Disk, &Told)) {
        let told = Told::default();
        let answers = 1 + self.random.below(40);
        // At times nothing works any more.
        let (one_in, acknowledged) = match self.random.one_in(8) {
            true => (1, 0),
            false => (8 + self.random.below(56), self.random.below(20)),
        };
        self.disk.break_down(one_in);
        thread::scope(|scope| {
            for writer in &mut talk.writers {
                scope.spawn(|| writer.run(&self.home, &told));
            }
            told.wait_until(|t| {
                t.acknowledged() >= acknowledged && t.acknowledged() + t.refused() >= answers
            });
            end(&self.disk, &told);
        });
        self.acknowledged += told.acknowledged();
        self.refused += told.refused();
    }

    /// The same daemon takes everybody's message once the disk is well again.
    fn goes_on(&self, talk: &mut Talk) {
        let (mut connection, told) = (connect(&self.home), Told::default());
        for writer in &mut talk.writers {
            while !writer.say(&mut connection, &told).expect("it lives") {
                let late = told.refused() as usize;
                assert!(late <= LATE, "the disk is well and the daemon is not");
            }
        }
    }
}

fn append(path: PathBuf) -> File {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).open(path);
    file.expect("a folder of our own")
}

#[test]
fn heavy_l10_disk_errors_and_power_losses_under_sixteen_writers_lose_nothing() {
    let (rounds, random) = chosen(ROUNDS);
    let mut stage = Stage::new(random);
    let mut daemon = stage.launch();
    let mut talk = Talk::begin(&stage.home);
    let (mut kills, mut kept, mut unsynced) = (0, 0, 0);
    for _ in 0..rounds {
        if stage.random.one_in(4) {
            let killer = daemon.killer();
            stage.storm(&mut talk, |_, _| killer.kill());
            daemon.kill();
            stage.disk.mend();
            if stage.random.one_in(2) {
                unsynced += stage.disk.lose_power(&mut stage.random);
            }
            daemon = stage.launch();
            kept += talk.check(&stage.home);
            kills += 1;
        } else {
            stage.storm(&mut talk, |disk, told| {
                disk.mend();
                told.end();
            });
            stage.goes_on(&mut talk);
            assert_eq!(talk.check(&stage.home), 0, "all were acknowledged");
        }
    }
    daemon.kill();
    sound(&stage.home);
    let _daemon = stage.launch();
    talk.check_again(&stage.home);
    talk.check_found(&stage.home);
    let said = std::fs::read_to_string(stage.said()).expect("every daemon had it");
    assert!(!said.contains("panicked"), "{said}");
    let failures = stage.disk.failures();
    println!(
        "{rounds} rounds, {kills} kills, {unsynced} writes lost with the power, {} acknowledged, {} refused, \
         {kept} kept though they were not acknowledged, {failures:?}",
        stage.acknowledged, stage.refused
    );
    assert!(failures.all() > rounds, "{failures:?}");
    assert!(stage.refused as usize > rounds, "{}", stage.refused);
    assert!(unsynced > kills / 4, "the power was lost at quiet times");
    let each = [
        failures.refused,
        failures.full,
        failures.short,
        failures.torn,
        failures.sync,
    ];
    assert!(each.iter().all(|n| *n > rounds / 20), "{failures:?}");
}

/// SQLite finds nothing to complain about.
fn sound(home: &Home) {
    for name in ["transcripts.db", "skein.db"] {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let file = rusqlite::Connection::open_with_flags(home.path().join(name), flags)
            .expect("it is there");
        let check = file.query_row("PRAGMA integrity_check", [], |row| row.get(0));
        assert_eq!(check, Ok("ok".to_owned()), "{name}");
    }
}
