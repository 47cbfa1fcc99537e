//! What starting a command costs, beside programs everybody has.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::daemon::{Program, succeed};
use crate::stats::{Times, ms, ratio, timed};
use crate::table::Row;

const TIMES: usize = 60;

/// Runs the commands in turn, so that a busy moment meets all of them.
pub(crate) fn compare(commands: &mut [Command]) -> Result<Vec<Times>, Failure> {
    let mut times: Vec<Vec<Duration>> = vec![vec![]; commands.len()];
    for _ in 0..TIMES {
        for (command, times) in commands.iter_mut().zip(&mut times) {
            let (status, took) = timed(|| command.status());
            succeed(status?)?;
            times.push(took);
        }
    }
    Ok(times.into_iter().map(Times::new).collect())
}

pub(crate) fn peer(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::null());
    command
}

pub(crate) fn measure(program: &Program) -> Result<Vec<Row>, Failure> {
    let home = tempfile::tempdir()?;
    let mut version = program.command(home.path());
    version.arg("--version");
    let mut commands = [version, peer("git", &["--version"])];
    let times = compare(&mut commands)?;
    let (ours, git) = (times[0].p50(), times[1].p50());
    Ok(vec![Row::fact("`skein --version`, p50", ms(ours)).beside(
        format!("`git --version` {}", ms(git)),
        ratio(ours, git),
    )])
}
