//! Takes connections and hands their requests to the application.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use skein_engine::Tasks;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::door::Peer;

/// Connections served at once; more wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 4096;
/// Longest a client may take to send a request's head.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Pause after a failed accept, such as for lack of file descriptors.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Serves the machine's own user until the tasks are stopped.
pub fn unix(listener: UnixListener, router: Router, tasks: &Tasks) {
    let (tasks_, stopping) = (tasks.clone(), tasks.stopping());
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    tasks.start("unix listener", async move {
        tokio::pin!(stopping);
        loop {
            let Ok(place) = room.clone().acquire_owned().await else {
                return;
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stopping => return,
            };
            match accepted {
                Ok((stream, _)) if !is_ours(&stream) => {
                    tracing::warn!("a connection of another user was refused")
                }
                Ok((stream, _)) => {
                    let router = router.clone();
                    let ending = tasks_.stopping();
                    tasks_.start("connection", async move {
                        connection(stream, router, Peer::Unix, ending).await;
                        drop(place);
                    });
                }
                Err(error) => pause(&error).await,
            }
        }
    });
}

/// Serves loopback, where every request needs a token.
pub fn tcp(listener: TcpListener, router: Router, tasks: &Tasks) -> io::Result<()> {
    let local = listener.local_addr()?;
    let (tasks_, stopping) = (tasks.clone(), tasks.stopping());
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    tasks.start("tcp listener", async move {
        tokio::pin!(stopping);
        loop {
            let Ok(place) = room.clone().acquire_owned().await else {
                return;
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stopping => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    let router = router.clone();
                    let ending = tasks_.stopping();
                    tasks_.start("connection", async move {
                        connection(stream, router, Peer::Tcp { local }, ending).await;
                        drop(place);
                    });
                }
                Err(error) => pause(&error).await,
            }
        }
    });
    Ok(())
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be taken");
    tokio::time::sleep(BACK_OFF).await;
}

/// The socket's mode already keeps others out; this holds even if someone loosened it.
fn is_ours(stream: &UnixStream) -> bool {
    let us = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == us || peer.uid() == 0)
}

/// One connection: requests until the client leaves; on stop the current one is finished first.
async fn connection<S>(stream: S, router: Router, peer: Peer, stopping: impl Future<Output = ()>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection, stopping);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
