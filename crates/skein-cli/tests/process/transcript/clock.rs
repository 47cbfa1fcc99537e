//! Times never go back, whatever the daemon's clock does. Linux only, for the clock stands between the daemon and
//! its system's library.

use crate::harness::{Daemon, Home};
use crate::transcript::skewed::Clock;
use crate::transcript::{ids, say};

const DAY: i64 = 24 * 60 * 60;

fn start(home: &Home, clock: &Clock) -> Daemon {
    let mut command = home.command(&["daemon", "run", "--announce"]);
    clock.give(&mut command);
    Daemon::announced(command).unwrap()
}

fn times(home: &Home, session: &str) -> Vec<jiff::Timestamp> {
    let list = home.json(&["transcript", "show", session]);
    let data = list["data"].as_array().unwrap().iter();
    data.map(|m| m["at"].as_str().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn l10_a_clock_that_goes_back_loses_and_reorders_nothing() {
    let (home, clock) = (Home::new(), Clock::new());
    let mut daemon = start(&home, &clock);
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    // Back by days while it runs, and before the first of all times; forward, and back over a restart.
    let skews = [0, -DAY, 10 * DAY, -30 * DAY, -100 * 365 * DAY, 0, 2 * DAY];
    let mut said = vec![];
    for (n, skew) in skews.into_iter().enumerate() {
        clock.set(skew);
        if n == 3 {
            daemon.kill();
            daemon = start(&home, &clock);
        }
        let id = format!("m{n}");
        let done = say(&home, &session, "user", &id, &format!("word{n}"));
        assert_eq!(done["added"], 1, "{skew}: {done}");
        said.push(id);
        assert_eq!(ids(&home, &session), said, "{skew}");
        if n % 2 == 1 {
            home.json(&["transcript", "flush", &session]);
            assert_eq!(ids(&home, &session), said, "{skew}");
        }
    }
    let times = times(&home, &session);
    assert!(times.is_sorted(), "{times:?}");
    // The second was said a day before the first, by the clock.
    let between = times[1].duration_since(times[0]);
    assert!(between < jiff::SignedDuration::from_mins(5), "{times:?}");
    for (n, id) in said.iter().enumerate() {
        let found = home.json(&["transcript", "search", &format!("word{n}")]);
        assert_eq!(found["data"][0]["message"], id.as_str(), "{found}");
    }
    clock.set(-DAY);
    let fork = home.json(&["fork", &session])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    say(&home, &fork, "user", "f", "x");
    said.push("f".into());
    assert_eq!(ids(&home, &fork), said);
    home.assert_verified();
}
