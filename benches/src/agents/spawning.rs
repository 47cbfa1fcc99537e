//! From `skein spawn` until the model has the task, beside a worktree and the program by hand.

use std::time::Duration;

use super::hand::Hand;
use super::stage::{PROJECT, Stage};
use super::{LONGEST, now_ms};
use crate::Failure;
use crate::stats::{Times, ms, ratio};
use crate::table::Row;

/// When a task is no longer waited for, once it is known how long one can take.
const LOST: Duration = Duration::from_secs(60);

pub(super) async fn measure(stage: &Stage<'_>, turns: usize) -> Result<Vec<Row>, Failure> {
    let ways = stage.kind.ways;
    let (mut ours, mut theirs) = (vec![vec![]; ways.len()], vec![]);
    for n in 0..=turns {
        let name = format!("hand{n}");
        let (hand, arrival) = Hand::start(stage, &name, &task("hand", n)).await?;
        drop(hand);
        if n > 0 {
            theirs.push(arrival.took);
        }
        for (way, times) in ways.iter().zip(&mut ours) {
            let patience = if n == 0 { LONGEST } else { LOST };
            let (session, took) = spawn(stage, way, &task(way, n), patience).await?;
            stage.json(&["kill", &session])?;
            if n > 0 {
                times.extend(took);
            }
        }
    }
    let hand = Times::new(theirs).p50();
    let row = |(way, times): (&&str, Vec<Duration>)| {
        let name = stage.kind.name;
        let work = format!("task to the model, {name}, {way}, p50");
        let lost = match turns - times.len() {
            0 => String::new(),
            n => format!(", {n} of {turns} never"),
        };
        if times.is_empty() {
            return Row::fact(work, "never");
        }
        let ours = Times::new(times).p50();
        Row::fact(work, ms(ours) + &lost).beside(format!("by hand {}", ms(hand)), ratio(ours, hand))
    };
    Ok(ways.iter().zip(ours).map(row).collect())
}

/// Does nothing, and is like no other.
fn task(way: &str, n: usize) -> String {
    format!("TASK-{way}-{n}- [[say ready]]")
}

/// Spawns as people do; gives the session once the command is done, and how long the task took to arrive.
pub(super) async fn spawn(
    stage: &Stage<'_>,
    way: &str,
    task: &str,
    patience: Duration,
) -> Result<(String, Option<Duration>), Failure> {
    let from_ms = now_ms();
    let args = [
        "spawn",
        "--project",
        PROJECT,
        "--agent",
        stage.kind.name,
        "--via",
        way,
        task,
    ];
    let child = stage.skein(&args).spawn()?;
    let heard = stage.heard_within(task, patience).await;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{task}: {why}").into());
    }
    let session: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let id = session["id"].as_str().ok_or("a session without an id")?;
    let took = heard
        .ok()
        .map(|heard| heard.began_ms.saturating_sub(from_ms));
    Ok((id.to_owned(), took.map(Duration::from_millis)))
}
