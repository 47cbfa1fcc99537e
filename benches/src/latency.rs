//! How long after an answer a hundred subscribers know.

use std::thread;
use std::time::{Duration, Instant};

use skein_benches::ledger::PROJECT;
use skein_client::{Client, IdempotencyKey};
use skein_wire::{AddProject, NewThread};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::Failure;
use crate::daemon::{Daemon, Program};
use crate::stats::{Times, ms};
use crate::table::Row;

const SUBSCRIBERS: usize = 100;
const EVENTS: usize = 200;
const BUDGET: Duration = Duration::from_millis(20);

pub(crate) async fn measure(program: &Program) -> Result<Vec<Row>, Failure> {
    let home = tempfile::tempdir()?;
    let (daemon, _) = program.daemon(home.path())?;
    let client = daemon.client();
    let project = AddProject {
        name: Some(PROJECT.into()),
        ..AddProject::default()
    };
    client
        .add_project(&project, &IdempotencyKey::random())
        .await?;
    let (send, mut arrivals) = mpsc::channel(SUBSCRIBERS);
    subscribe(&daemon, send)?;
    for _ in 0..SUBSCRIBERS {
        arrivals.recv().await.ok_or("a subscriber is gone")?;
    }
    let body = NewThread {
        project: PROJECT.into(),
        title: "an event".into(),
    };
    let (mut after_answer, mut after_request) = (vec![], vec![]);
    for _ in 0..EVENTS {
        let asked = Instant::now();
        client.new_thread(&body, &IdempotencyKey::random()).await?;
        let answered = Instant::now();
        for _ in 0..SUBSCRIBERS {
            let arrived = arrivals.recv().await.ok_or("a subscriber is gone")?;
            after_answer.push(arrived.saturating_duration_since(answered));
            after_request.push(arrived - asked);
        }
    }
    let (answer, request) = (Times::new(after_answer), Times::new(after_request));
    let told = |times: &Times| format!("p50 {}, p99 {}", ms(times.p50()), ms(times.p99()));
    Ok(vec![
        Row::fact("event to 100 subscribers, after the answer", told(&answer))
            .budget("p99 ≤ 20 ms", answer.p99() <= BUDGET),
        Row::fact("the same, after the request was sent", told(&request)),
    ])
}

/// On a thread of their own, as they would be in a program of their own. They end with the daemon.
fn subscribe(daemon: &Daemon, send: mpsc::Sender<Instant>) -> Result<(), Failure> {
    let clients: Vec<Client> = (0..SUBSCRIBERS).map(|_| daemon.client()).collect();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        let tasks = LocalSet::new();
        for client in clients {
            let send = send.clone();
            tasks.spawn_local(async move { listen(&client, &send).await });
        }
        drop(send);
        runtime.block_on(tasks);
    });
    Ok(())
}

/// Says once that it listens, and then when each event arrives. Ends when either side is gone.
async fn listen(client: &Client, send: &mpsc::Sender<Instant>) -> Option<()> {
    let mut events = client.follow_events(None, None).patience(Duration::ZERO);
    events.open().await.ok()?;
    loop {
        send.send(Instant::now()).await.ok()?;
        events.next().await.ok()?;
    }
}
