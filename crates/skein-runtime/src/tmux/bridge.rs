//! The bridge: the process in the server's first pane that has the one client in control mode.
//!
//! It carries requests of any number of daemons, one after another or at once, and outlives them all. It goes
//! when nobody is connected and no run is left, and takes the server with it in the same step.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::control::{Control, start};
use super::link::{Message, WAITING, get, put};
use super::server::{ANCHOR, Place, client, options};

/// Who asks has less patience; this only keeps forgotten requests from staying for ever.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long it waits for whoever built it.
const FIRST: Duration = Duration::from_secs(20);

/// Serves until there is nothing left to serve. Gives the exit code.
pub(super) fn serve(place: &Path) -> i32 {
    let place = Place::from(place);
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return 1;
    };
    match runtime.block_on(bridge(&place)) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

async fn bridge(place: &Place) -> Result<(), Box<dyn std::error::Error>> {
    let mut command = client(&place.tmux());
    command.args(["-C", "attach-session", "-t"]);
    command.arg(format!("={ANCHOR}"));
    command.args(["-f", "no-output,ignore-size"]);
    let control = Arc::new(Control::start(command, PATIENCE).await?);
    control.request(options()).await?;
    // tmux lets only one session have this name, so the socket is of nobody who lives.
    let _ = fs::remove_file(place.bridge());
    let listener = UnixListener::bind(place.bridge())?;

    let (left, mut leaves) = mpsc::channel::<()>(WAITING);
    let (mut connections, mut idle_at) = (0_usize, Instant::now() + FIRST);
    while !control.is_closed() {
        let idle = connections == 0;
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections += 1;
                    start(carry(stream, Arc::clone(&control), left.clone()));
                }
            }
            Some(()) = leaves.recv() => {
                connections -= 1;
                idle_at = Instant::now();
            }
            () = control.changed() => {}
            () = tokio::time::sleep_until(idle_at), if idle && Instant::now() < idle_at => {}
        }
        if connections == 0 && Instant::now() >= idle_at {
            let only_us = "if-shell -F '#{==:#{S:x},x}' kill-server";
            control.request(only_us.into()).await?;
        }
    }
    Ok(())
}

/// One connection, until its other end goes.
async fn carry(stream: UnixStream, control: Arc<Control>, left: mpsc::Sender<()>) {
    let (mut reader, mut writer) = stream.into_split();
    let (answer, mut answers) = mpsc::channel::<Message>(WAITING);
    let writing = start(async move {
        while let Some((number, bytes)) = answers.recv().await {
            if put(&mut writer, number, &bytes).await.is_err() {
                return;
            }
        }
    });
    while let Ok((number, lines)) = get(&mut reader).await {
        let (control, answer) = (Arc::clone(&control), answer.clone());
        start(async move {
            if let Ok(said) = control.request(lines).await {
                // Whoever asked may have gone.
                let _ = answer.send((number, said.to_bytes())).await;
            }
        });
    }
    writing.abort();
    let _ = left.send(()).await;
}
