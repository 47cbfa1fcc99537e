//! How many durable changes a second: alone and 64 at once, in this process and through the API.

use std::sync::Arc;
use std::time::{Duration, Instant};

use skein_benches::ledger::{Ledger, PROJECT};
use skein_benches::raw::Raw;
use skein_client::{Client, IdempotencyKey};
use skein_wire::{AddProject, NewThread};
use tokio::task::JoinSet;

use crate::Failure;
use crate::daemon::{Daemon, Program};
use crate::stats::median;
use crate::table::Row;

const WRITERS: u64 = 64;
/// How often all are measured, one after the other; the ratios are taken within one turn.
const TURNS: usize = 7;
const SLICE: Duration = Duration::from_millis(700);

/// Changes a second.
#[derive(Clone, Copy, Debug)]
struct Turn {
    raw: f64,
    raw_batched: f64,
    alone: f64,
    together: f64,
    api_alone: f64,
    api_together: f64,
}

pub(crate) async fn measure(program: &Program) -> Result<Vec<Row>, Failure> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("skein.db");
    let ledger = Ledger::open(&database).await?;
    ledger.change().await?;
    let mut raw = Raw::open(
        &folder.path().join("raw.db"),
        &database,
        &[Ledger::written()],
    )?;
    let home = tempfile::tempdir()?;
    let (daemon, _) = program.daemon(home.path())?;
    let clients = clients(&daemon).await?;
    let mut turns = vec![];
    for turn in 0..=TURNS {
        let measured = Turn {
            raw: rate(SLICE, async || Ok(raw.commit(1)?)).await?,
            raw_batched: WRITERS as f64
                * rate(SLICE, async || Ok(raw.commit(WRITERS as usize)?)).await?,
            alone: rate(SLICE, async || Ok(ledger.change().await?)).await?,
            together: rate_of(WRITERS * 20, ledger.change_together(WRITERS, 20)).await?,
            api_alone: rate(SLICE, async || change(&clients[0]).await).await?,
            api_together: rate_of(WRITERS * 20, change_together(&clients, 20)).await?,
        };
        // The first turn warms everything up.
        if turn > 0 {
            turns.push(measured);
        }
    }
    Ok(rows(&turns))
}

async fn rate(
    slice: Duration,
    mut change: impl AsyncFnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let since = Instant::now();
    let mut count = 0.0;
    while since.elapsed() < slice {
        change().await?;
        count += 1.0;
    }
    Ok(count / since.elapsed().as_secs_f64())
}

async fn rate_of<E: Into<Failure>>(
    count: u64,
    work: impl Future<Output = Result<(), E>>,
) -> Result<f64, Failure> {
    let since = Instant::now();
    work.await.map_err(Into::into)?;
    Ok(count as f64 / since.elapsed().as_secs_f64())
}

async fn clients(daemon: &Daemon) -> Result<Vec<Arc<Client>>, Failure> {
    let clients: Vec<_> = (0..WRITERS).map(|_| Arc::new(daemon.client())).collect();
    let project = AddProject {
        name: Some(PROJECT.into()),
        ..AddProject::default()
    };
    clients[0]
        .add_project(&project, &IdempotencyKey::random())
        .await?;
    Ok(clients)
}

async fn change(client: &Client) -> Result<(), Failure> {
    let body = NewThread {
        project: PROJECT.into(),
        title: "a line of work with a title of usual length".into(),
    };
    client.new_thread(&body, &IdempotencyKey::random()).await?;
    Ok(())
}

async fn change_together(clients: &[Arc<Client>], each: u64) -> Result<(), Failure> {
    let mut set = JoinSet::new();
    for client in clients {
        let client = client.clone();
        set.spawn(async move {
            for _ in 0..each {
                change(&client).await.map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        });
    }
    while let Some(ended) = set.join_next().await {
        ended??;
    }
    Ok(())
}

fn rows(turns: &[Turn]) -> Vec<Row> {
    let row = |work: &str, of: fn(&Turn) -> f64, to: fn(&Turn) -> f64, peer: &str| {
        let (rate, beside) = (
            median(turns.iter().map(of).collect()),
            median(turns.iter().map(to).collect()),
        );
        let ratio = median(turns.iter().map(|t| of(t) / to(t)).collect());
        let row = Row::fact(work, format!("{rate:.0}/s"));
        (row.beside(format!("{peer} {beside:.0}/s"), ratio), ratio)
    };
    let raw = "the same rows, raw FULL commits";
    let raw_batched = "the same, 64 changes a commit";
    let alone = "alone, in process";
    let (one, r1) = row(
        "durable change alone, in process",
        |t| t.alone,
        |t| t.raw,
        raw,
    );
    let (many, r2) = row(
        "64 writers, in process",
        |t| t.together,
        |t| t.raw_batched,
        raw_batched,
    );
    let (api, r3) = row(
        "64 clients, through the API",
        |t| t.api_together,
        |t| t.raw_batched,
        raw_batched,
    );
    let (many_alone, _) = row("64 writers, in process", |t| t.together, |t| t.alone, alone);
    let (api_alone, _) = row(
        "64 clients, through the API",
        |t| t.api_together,
        |t| t.alone,
        alone,
    );
    let (api_one, _) = row(
        "one client, through the API",
        |t| t.api_alone,
        |t| t.raw,
        raw,
    );
    vec![
        one.budget("≥ 0.8 ×", r1 >= 0.8),
        many.budget("≥ 0.5 ×", r2 >= 0.5),
        api.budget("≥ 0.3 ×", r3 >= 0.3),
        many_alone,
        api_alone,
        api_one,
    ]
}
