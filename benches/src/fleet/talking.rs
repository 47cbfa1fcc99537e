//! Talking to an agent and looking at it, beside doing the same with tmux.

use std::fs;
use std::time::{Duration, Instant};

use skein_client::{Client, IdempotencyKey};
use skein_wire::{Send, Spawn};

use super::{Ground, LONGEST, spawn};
use crate::Failure;
use crate::daemon::Program;
use crate::place::Tmux;
use crate::stats::{Times, ms, ratio};
use crate::table::Row;

const MESSAGES: usize = 20;

/// From the request until the message is known to be taken, beside what people do with tmux: paste, Enter,
/// and look until the text is on the screen.
pub(super) async fn measure(program: &Program) -> Result<Vec<Row>, Failure> {
    let ground = Ground::new(program).await?;
    let client = ground.daemon()?.client();
    let body = Spawn {
        task: "say hello".into(),
        project: Some("bench".into()),
        agent: Some("scripted".into()),
        path: Some("/usr/bin:/bin".into()),
        ..Spawn::default()
    };
    let (session, _) = spawn(&client, &body).await?;
    let mut times = vec![];
    for n in 0..MESSAGES {
        until_idle(&client, &session).await?;
        let body = Send {
            text: format!("say number {n}"),
            ..Send::default()
        };
        let since = Instant::now();
        let receipt = client
            .send(&session, &body, &IdempotencyKey::random())
            .await?;
        loop {
            let now = client.get_receipt(&receipt.id).await?;
            match now.state.as_str() {
                "submitted" | "turn_started" => break,
                "unknown" => return Err(format!("{now:?}").into()),
                _ if since.elapsed() > LONGEST => return Err(format!("{now:?}").into()),
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
        times.push(since.elapsed());
    }
    let ours = Times::new(times);
    let mut looks = vec![];
    for _ in 0..MESSAGES {
        let since = Instant::now();
        client.screen(&session).await?;
        looks.push(since.elapsed());
    }
    let looks = Times::new(looks);
    let (tmux, captures) = by_tmux(program, &ground)?;
    Ok(vec![
        Row::fact("send until known to be submitted, p50", ms(ours.p50())).beside(
            format!(
                "tmux send-keys until it is on the screen {}",
                ms(tmux.p50())
            ),
            ratio(ours.p50(), tmux.p50()),
        ),
        Row::fact("a screen through the API, p50", ms(looks.p50())).beside(
            format!("tmux capture-pane {}", ms(captures.p50())),
            ratio(looks.p50(), captures.p50()),
        ),
    ])
}

async fn until_idle(client: &Client, session: &str) -> Result<(), Failure> {
    let since = Instant::now();
    loop {
        let now = client.get_session(session).await?;
        if now.status == "idle" {
            return Ok(());
        }
        if since.elapsed() > LONGEST {
            return Err(format!("{session} is {}", now.status).into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The same agent in a tmux of our own, driven the usual way. It proves less: that the text was shown.
fn by_tmux(program: &Program, ground: &Ground) -> Result<(Times, Times), Failure> {
    let server = Tmux::new(ground.folder.path());
    let tmux = |args: &[&str]| server.run(args);
    let private = ground.folder.path().join("private");
    fs::create_dir(&private)?;
    let agent = format!(
        "{} scripted --private {}",
        program.path().display(),
        private.display()
    );
    tmux(&[
        "new-session",
        "-d",
        "-s",
        "peer",
        "-x",
        "160",
        "-y",
        "50",
        &agent,
    ])?;
    let until = |wanted: &str| -> Result<(), Failure> {
        let since = Instant::now();
        while !tmux(&["capture-pane", "-p", "-t", "peer"])?.contains(wanted) {
            if since.elapsed() > LONGEST {
                return Err(format!("`{wanted}` never came").into());
            }
        }
        Ok(())
    };
    until("[ready]")?;
    let mut times = vec![];
    for n in 0..MESSAGES {
        let text = format!("say tmux number {n}");
        let since = Instant::now();
        tmux(&["send-keys", "-t", "peer", "-l", &text])?;
        tmux(&["send-keys", "-t", "peer", "Enter"])?;
        until(&format!("» {text}"))?;
        times.push(since.elapsed());
        until("[ready]")?;
    }
    let mut looks = vec![];
    for _ in 0..MESSAGES {
        let since = Instant::now();
        tmux(&["capture-pane", "-p", "-t", "peer"])?;
        looks.push(since.elapsed());
    }
    tmux(&["kill-server"])?;
    Ok((Times::new(times), Times::new(looks)))
}
