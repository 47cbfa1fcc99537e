//! The record of all requests and answers.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use crate::model_server::Protocol;

/// One request and its answer. Headers are never recorded, because they contain keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// 1, 2, 3, … in the order of arrival.
    pub n: u64,
    pub protocol: Protocol,
    pub method: String,
    /// Without the query, which may contain a key.
    pub path: String,
    /// The session that the agent program names.
    pub session: Option<String>,
    /// The thread in that session: Codex's sub-agents have their own.
    pub thread: Option<String>,
    pub model: Option<String>,
    /// Milliseconds since 1970, here and below.
    pub began_ms: u64,
    pub first_byte_ms: Option<u64>,
    pub ended_ms: Option<u64>,
    pub status: Option<u16>,
    /// How it ended; none while it is in progress.
    pub outcome: Option<ExchangeOutcome>,
    /// Whether the agent program asks for its own purposes: a title, a summary, a choice of model.
    pub hidden: bool,
    /// The number of the given answer in its directive, from 0.
    pub step: Option<usize>,
    /// The answer in short.
    pub reply: Option<String>,
    /// The user's last message, at most 4 KiB of it.
    pub last_user: Option<String>,
    pub history: History,
    pub tools: Vec<String>,
}

/// The history in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct History {
    /// Number of messages of all kinds.
    pub messages: usize,
    /// The beginnings of all messages of the user, the latest last.
    pub users: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeOutcome {
    /// Sent completely.
    Complete,
    Dropped,
    /// The agent disconnected before the end.
    Gone,
}

impl Exchange {
    /// Whether it is the agent's own work: a turn, not a title or a probe.
    pub fn is_turn(&self) -> bool {
        self.protocol != Protocol::Other && !self.hidden
    }
}

/// The expected exchange did not happen in time.
#[derive(Clone, Debug, thiserror::Error)]
#[error("not seen within {deadline:?}; {} exchanges: {}", .seen.len(), summary(.seen))]
pub struct Late {
    pub deadline: Duration,
    pub seen: Vec<Exchange>,
}

fn summary(seen: &[Exchange]) -> String {
    let one = |exchange: &Exchange| {
        let asked = exchange.last_user.as_deref().unwrap_or("-");
        let asked: String = asked.chars().take(60).collect();
        format!("{} {} {asked:?}", exchange.n, exchange.path)
    };
    seen.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The recorded exchanges. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    /// The oldest are dropped when there are too many.
    kept: Vec<Exchange>,
    next: u64,
    log: Option<File>,
}

/// Most exchanges in memory, so that a long-running server does not grow.
const MOST_KEPT: usize = 20_000;

impl Ledger {
    pub(crate) fn open(log: Option<&Path>) -> io::Result<Self> {
        let open = |path| File::options().append(true).create(true).open(path);
        Ok(Self(Arc::new(Inner {
            state: Mutex::new(State {
                kept: vec![],
                next: 1,
                log: log.map(open).transpose()?,
            }),
            changed: watch::Sender::new(()),
        })))
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.state().kept.clone()
    }

    pub(crate) async fn wait_for(
        &self,
        deadline: Duration,
        mut wanted: impl FnMut(&[Exchange]) -> bool,
    ) -> Result<Vec<Exchange>, Late> {
        let mut changed = self.0.changed.subscribe();
        let seen = async {
            loop {
                let seen = self.exchanges();
                if wanted(&seen) {
                    return seen;
                }
                if changed.changed().await.is_err() {
                    // No more exchanges can come.
                    std::future::pending::<()>().await;
                }
            }
        };
        match tokio::time::timeout(deadline, seen).await {
            Ok(seen) => Ok(seen),
            Err(_) => Err(Late {
                deadline,
                seen: self.exchanges(),
            }),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next - 1
    }

    pub(crate) fn begin(&self, exchange: Exchange) -> Open {
        let n = exchange.n;
        let mut state = self.state();
        state.log("begin", &exchange);
        if state.kept.len() >= MOST_KEPT {
            state.kept.drain(..MOST_KEPT / 2);
        }
        state.kept.push(exchange);
        drop(state);
        self.0.changed.send_replace(());
        Open {
            ledger: self.clone(),
            n,
            ended: false,
        }
    }

    fn change(&self, n: u64, change: impl FnOnce(&mut Exchange)) {
        let mut state = self.state();
        if let Some(exchange) = state.kept.iter_mut().rev().find(|e| e.n == n) {
            change(exchange);
            if exchange.ended_ms.is_some() {
                let exchange = exchange.clone();
                state.log("end", &exchange);
            }
        }
        drop(state);
        self.0.changed.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes one line. A failing log does not stop the server.
    fn log(&mut self, event: &str, exchange: &Exchange) {
        if let Some(file) = &mut self.log
            && let Ok(mut line) = serde_json::to_value(exchange)
        {
            line["event"] = json!(event);
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// An exchange in progress. Dropping it means that the agent disconnected.
#[derive(Debug)]
pub(crate) struct Open {
    ledger: Ledger,
    n: u64,
    ended: bool,
}

impl Open {
    pub(crate) fn first_byte(&self, status: u16) {
        let now = now_ms();
        self.ledger.change(self.n, |exchange| {
            exchange.first_byte_ms = Some(now);
            exchange.status = Some(status);
        });
    }

    pub(crate) fn end(&mut self, outcome: ExchangeOutcome) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let now = now_ms();
        self.ledger.change(self.n, |exchange| {
            exchange.ended_ms = Some(now);
            exchange.outcome = Some(outcome);
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end(ExchangeOutcome::Gone);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a server of its own, with no engine and no clock of one"
)]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
