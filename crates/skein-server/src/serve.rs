//! Takes connections and hands their requests to the application.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use skein_ledger::TaskGroup;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use crate::door::Peer;

/// Connections served at once; more wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 4096;
/// Most connections over TCP without a valid token yet. One more closes the oldest of them, so that half-open ones never
/// block other callers.
const MOST_UNAUTHENTICATED: usize = 1024;
/// Most connections of one token or run. One more closes its oldest, so that no caller blocks others.
const MOST_PER_HOLDER: usize = 512;
/// Longest a client may take to present a valid token over TCP.
const AUTHENTICATION_TIME: Duration = Duration::from_secs(10);
/// Longest a client may take to send a request's head.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Pause after a failed accept, such as for lack of file descriptors.
const BACK_OFF: Duration = Duration::from_millis(50);

/// How long a stop waits for a subscriber to read the end of its stream. A stalled one never does; a subscriber that is
/// cut off resumes from its cursor.
const STREAM_TIME: Duration = Duration::from_secs(1);

/// Set by a handler whose answer goes on until the client or the daemon ends it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndlessAnswer(Arc<AtomicBool>);

impl EndlessAnswer {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a connection is authenticated. The machine's own user is by connecting.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    state: Arc<watch::Sender<AuthState>>,
    connections: Arc<Mutex<Connections>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuthState {
    Unauthenticated,
    Authenticated,
    Evicted,
}

impl Admission {
    fn new(peer: Peer, connections: &Arc<Mutex<Connections>>) -> Self {
        let state = match peer {
            Peer::Unix => AuthState::Authenticated,
            Peer::Tcp { .. } => AuthState::Unauthenticated,
        };
        let this = Self {
            state: Arc::new(watch::Sender::new(state)),
            connections: connections.clone(),
        };
        if this.is(AuthState::Unauthenticated) {
            lock(connections)
                .unauthenticated
                .add(&this, MOST_UNAUTHENTICATED);
        }
        this
    }

    /// The connection presented a valid token or credential, so it may stay. `holder` names the token or run whose
    /// connections it counts among; the machine's own user has no limit.
    pub(crate) fn grant(&self, holder: Option<String>) {
        self.state.send_if_modified(|state| {
            let changes = *state == AuthState::Unauthenticated;
            if changes {
                *state = AuthState::Authenticated;
            }
            changes
        });
        if let Some(holder) = holder {
            lock(&self.connections).count(holder, self);
        }
    }

    fn is(&self, state: AuthState) -> bool {
        *self.state.borrow() == state
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Whether only our lists still hold the connection.
    fn is_over(&self) -> bool {
        Arc::strong_count(&self.state) == 1
    }

    /// Returns when the connection is to be closed: evicted, or unauthenticated for too long.
    async fn closed(&self) {
        let mut state = self.state.subscribe();
        let known = state.wait_for(|s| *s != AuthState::Unauthenticated);
        if !matches!(
            tokio::time::timeout(AUTHENTICATION_TIME, known).await,
            Ok(Ok(_))
        ) {
            return;
        }
        let _ = state.wait_for(|s| *s == AuthState::Evicted).await;
    }
}

/// The connections of one listener.
#[derive(Debug, Default)]
struct Connections {
    unauthenticated: ConnectionQueue,
    holders: HashMap<String, ConnectionQueue>,
}

impl Connections {
    fn count(&mut self, holder: String, admission: &Admission) {
        self.holders.retain(|_, queue| !queue.is_over());
        let queue = self.holders.entry(holder).or_default();
        if !queue.0.iter().any(|known| known.is_same(admission)) {
            queue.add(admission, MOST_PER_HOLDER);
        }
    }
}

/// Connections, oldest first.
#[derive(Debug, Default)]
struct ConnectionQueue(VecDeque<Admission>);

impl ConnectionQueue {
    /// One more than `most` closes the oldest.
    fn add(&mut self, admission: &Admission, most: usize) {
        let state = *admission.state.borrow();
        self.0.retain(|known| !known.is_over() && known.is(state));
        if self.0.len() >= most
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.state.send_replace(AuthState::Evicted);
        }
        self.0.push_back(admission.clone());
    }

    fn is_over(&self) -> bool {
        self.0.iter().all(Admission::is_over)
    }
}

fn lock(connections: &Mutex<Connections>) -> MutexGuard<'_, Connections> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves the machine's own user until the tasks are stopped.
pub fn unix(listener: UnixListener, router: Router, tasks: &TaskGroup) {
    listen("unix listener", listener, router, tasks);
}

/// Serves loopback, where every request needs a token.
pub fn tcp(listener: TcpListener, router: Router, tasks: &TaskGroup) {
    listen("tcp listener", listener, router, tasks);
}

/// A source of connections.
trait Listener: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        loop {
            let (stream, _) = self.accept().await?;
            if is_ours(&stream) {
                return Ok((stream, Peer::Unix));
            }
            tracing::warn!("a connection of another user was refused");
        }
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, _) = self.accept().await?;
        // Answers are small; waiting to fill a packet would delay them.
        stream.set_nodelay(true)?;
        Ok((
            stream,
            Peer::Tcp {
                local: self.local_addr()?,
            },
        ))
    }
}

fn listen(name: &'static str, listener: impl Listener, router: Router, tasks: &TaskGroup) {
    let (own, stopping) = (tasks.clone(), tasks.stopping());
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    tasks.start(name, async move {
        tokio::pin!(stopping);
        let connections = Arc::default();
        loop {
            let Ok(place) = room.clone().acquire_owned().await else {
                return;
            };
            let accepted = tokio::select! {
                // First, so that no connection is accepted after the stop began.
                biased;
                () = &mut stopping => return,
                accepted = listener.next() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let (router, ending) = (router.clone(), own.stopping());
                    let admission = Admission::new(peer, &connections);
                    own.start("connection", async move {
                        connection(stream, router, peer, admission, ending).await;
                        drop(place);
                    });
                }
                Err(error) => pause(&error).await,
            }
        }
    });
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be taken");
    tokio::time::sleep(BACK_OFF).await;
}

/// The socket's mode already excludes other users; this check holds even if the mode was loosened.
fn is_ours(stream: &UnixStream) -> bool {
    let us = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == us || peer.uid() == 0)
}

/// One connection: requests until the client leaves; on stop the current one is finished first.
async fn connection<S>(
    stream: S,
    router: Router,
    peer: Peer,
    admission: Admission,
    stopping: impl Future<Output = ()>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let endless = EndlessAnswer::default();
    let (mark, pending) = (endless.clone(), admission.clone());
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(mark.clone());
        request.extensions_mut().insert(pending.clone());
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection, stopping);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = admission.closed() => Ok(()),
        () = stopping => {
            connection.as_mut().graceful_shutdown();
            if endless.is_set() {
                let ended = tokio::time::timeout(STREAM_TIME, connection).await;
                ended.unwrap_or(Ok(()))
            } else {
                connection.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
