//! What many sessions cost: the first page of `skein ls`, the daemon's memory, its restart and its idling.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use skein_benches::ledger::Ledger;
use tempfile::TempDir;

use crate::Failure;
use crate::daemon::{Daemon, Program, megabytes, peak_memory};
use crate::startup::{compare, peer};
use crate::stats::{Times, ms, ratio};
use crate::table::Row;

const RESTARTS: usize = 7;
const IDLE: Duration = Duration::from_secs(10);
const MOST_LIST_MEMORY: u64 = 20_000_000;
const MOST_DAEMON_MEMORY: u64 = 60_000_000;

struct Home {
    sessions: u64,
    folder: TempDir,
    restart: Times,
}

struct Size {
    sessions: u64,
    list: Duration,
    true_: Duration,
    list_memory: u64,
    daemon_memory: u64,
    restart: Times,
    idle: f64,
}

/// All homes are open at once and their lists are taken in turn, so that a busy moment meets all of them.
pub(crate) async fn measure(program: &Program, most: u64) -> Result<Vec<Row>, Failure> {
    let mut homes = vec![];
    for sessions in [0, 10, 1000, most] {
        homes.push(fill(program, sessions).await?);
    }
    let mut daemons = vec![];
    for home in &homes {
        daemons.push(program.daemon(home.folder.path())?.0);
    }
    let list = |home: &Home| {
        let mut command = program.command(home.folder.path());
        command.arg("ls");
        command
    };
    let mut commands: Vec<Command> = homes.iter().map(list).collect();
    commands.push(peer("true", &[]));
    let times = compare(&mut commands)?;
    let true_ = times[homes.len()].p50();
    let mut sizes = vec![];
    for ((home, daemon), times) in homes.into_iter().zip(&daemons).zip(times) {
        let mut list_memory = 0;
        for _ in 0..10 {
            list_memory = list_memory.max(peak_memory(list(&home))?);
        }
        sizes.push(Size {
            sessions: home.sessions,
            list: times.p50(),
            true_,
            list_memory,
            daemon_memory: daemon.resident()?,
            restart: home.restart,
            idle: idle(daemon)?,
        });
    }
    Ok(rows(&sizes))
}

async fn fill(program: &Program, sessions: u64) -> Result<Home, Failure> {
    let folder = tempfile::tempdir()?;
    let ledger = Ledger::open(&folder.path().join("skein.db")).await?;
    ledger.fill(sessions).await?;
    drop(ledger);
    let restart = restarts(program, folder.path())?;
    Ok(Home {
        sessions,
        folder,
        restart,
    })
}

/// The part of a core that a daemon takes while nobody asks it anything.
fn idle(daemon: &Daemon) -> Result<f64, Failure> {
    let before = daemon.cpu()?;
    thread::sleep(IDLE);
    Ok((daemon.cpu()? - before).as_secs_f64() / IDLE.as_secs_f64())
}

/// Killed each time, as after a crash.
fn restarts(program: &Program, home: &Path) -> Result<Times, Failure> {
    let mut times = vec![];
    for _ in 0..RESTARTS {
        let (daemon, took) = program.daemon(home)?;
        times.push(took);
        drop(daemon);
    }
    Ok(Times::new(times))
}

fn rows(sizes: &[Size]) -> Vec<Row> {
    let mut rows = vec![];
    for size in &sizes[1..] {
        let n = size.sessions;
        let limit = size.true_ * 3 + Duration::from_millis(10);
        let row = Row::fact(format!("`skein ls` with {n} sessions, p50"), ms(size.list)).beside(
            format!("`true` {}", ms(size.true_)),
            ratio(size.list, size.true_),
        );
        rows.push(row.budget(format!("≤ 3 × + 10 ms = {}", ms(limit)), size.list <= limit));
        rows.push(
            Row::fact(
                format!("its memory with {n} sessions"),
                megabytes(size.list_memory),
            )
            .budget("≤ 20 MB", size.list_memory <= MOST_LIST_MEMORY),
        );
    }
    let (page, most) = (&sizes[2], &sizes[sizes.len() - 1]);
    let flat = ratio(most.list, page.list);
    rows.push(
        Row::fact(
            format!("a full first page of {}", most.sessions),
            ms(most.list),
        )
        .beside(format!("of {} {}", page.sessions, ms(page.list)), flat)
        .budget("flat: ≤ 1.2 ×", flat <= 1.2),
    );
    for size in sizes {
        let row = Row::fact(
            format!("daemon memory with {} sessions", size.sessions),
            megabytes(size.daemon_memory),
        );
        rows.push(if size.sessions == 1000 {
            row.budget("≤ 60 MB", size.daemon_memory <= MOST_DAEMON_MEMORY)
        } else {
            row
        });
    }
    rows.extend(largest(&sizes[0], &sizes[sizes.len() - 1]));
    rows
}

fn largest(empty: &Size, most: &Size) -> Vec<Row> {
    let n = most.sessions;
    let grown = most.daemon_memory.saturating_sub(empty.daemon_memory) as f64;
    let each = grown * 1000.0 / n as f64;
    let restart = format!(
        "p50 {}, max {}",
        ms(most.restart.p50()),
        ms(most.restart.at(1.0))
    );
    vec![
        Row::fact(
            "daemon memory per 1,000 sessions",
            format!("{:.0} kB", each / 1e3),
        ),
        Row::fact(
            format!("restart to ready after a kill, {n} sessions"),
            restart,
        )
        .beside(
            format!("without sessions {}", ms(empty.restart.p50())),
            ratio(most.restart.p50(), empty.restart.p50()),
        )
        .budget("≤ 1 s", most.restart.at(1.0) <= Duration::from_secs(1)),
        Row::fact(
            format!("idle for 10 s with {n} sessions"),
            format!("{:.1} % of a core", most.idle * 100.0),
        )
        .budget("< 1 %", most.idle < 0.01),
    ]
}
