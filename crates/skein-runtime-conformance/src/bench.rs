//! What the cases stand on: a home, programs to run in it, and waiting for what must come.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skein_domain::{Exit, RunHandle};
use tempfile::TempDir;

use skein_runtime::error::Error;
use skein_runtime::runtime::{Grace, Launch, Run, Runtime, Size, TerminalInput};

/// Long, because the machine may be busy: a case that needs it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An empty home of the runtime under test; gone when dropped.
pub trait TestHome: fmt::Debug + Send + Sync {
    /// A runtime over this home, as a daemon that was just started makes it.
    fn runtime(&self) -> Arc<dyn Runtime>;

    /// Another home of the same kind.
    fn another(&self) -> Box<dyn TestHome>;

    /// The process whose death cuts the run off.
    fn holder(&self, handle: &RunHandle) -> u32;
}

#[derive(Debug)]
pub struct Bench {
    pub home: Box<dyn TestHome>,
    pub folder: TempDir,
}

impl Bench {
    /// Runs one case and cleans up after it, also when it fails.
    pub fn run<C>(home: Box<dyn TestHome>, case: C)
    where
        C: for<'a> FnOnce(&'a Bench) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
    {
        let bench = Bench {
            home,
            folder: TempDir::new().expect("a folder for the case"),
        };
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("an async runtime");
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tokio.block_on(async {
                tokio::time::timeout(PATIENCE * 3, case(&bench))
                    .await
                    .expect("the case takes too long");
            });
        }));
        tokio.block_on(clear(&*bench.home.runtime()));
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    }

    pub fn runtime(&self) -> Arc<dyn Runtime> {
        self.home.runtime()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `sh -c SCRIPT` in the case's folder, as run 1 of session `api-1`.
    pub fn shell(&self, script: &str) -> Launch {
        self.program(&["sh", "-c", script])
    }

    pub fn program(&self, argv: &[&str]) -> Launch {
        let env = BTreeMap::from([
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("LC_ALL".to_owned(), "C.UTF-8".to_owned()),
        ]);
        Launch {
            tenant: "default".into(),
            session: "api-1".parse().expect("a session id"),
            run: 1,
            argv: argv.iter().map(ToString::to_string).collect(),
            env,
            cwd: self.folder.path().to_owned(),
            stdin: None,
            size: Size { rows: 24, cols: 80 },
            log: self.path("log"),
        }
    }

    /// Launches and connects.
    pub async fn start(&self, launch: Launch) -> (RunHandle, Arc<dyn Run>) {
        let runtime = self.runtime();
        let handle = runtime.launch(launch).await.expect("it launches");
        let run = runtime.connect(&handle).await.expect("it connects");
        (handle, run)
    }

    /// Waits until the file is there and ends with a line's end; gives it without that.
    pub async fn file(&self, name: &str) -> String {
        let path = self.path(name);
        let mut text = String::new();
        until(&format!("file {name}"), || {
            text = fs::read(&path).map_or(String::new(), |b| String::from_utf8_lossy(&b).into());
            text.ends_with('\n')
        })
        .await;
        text.trim_end_matches('\n').to_owned()
    }
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for the screen to show `text`.
pub(crate) async fn shown(run: &dyn Run, text: &str) -> skein_runtime::runtime::Screen {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let screen = run.screen().await.expect("it has a screen");
        if screen.rows.iter().any(|row| row.contains(text)) {
            return screen;
        }
        assert!(
            Instant::now() < deadline,
            "`{text}` never showed: {:#?}",
            screen.rows
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for the run to be over.
pub(crate) async fn over(run: &dyn Run) -> Exit {
    let mut sight = run.sight();
    let exit = tokio::time::timeout(PATIENCE, sight.wait_for(|s| s.exit.is_some())).await;
    let seen = exit.expect("it ends in time").expect("the sight is told");
    seen.exit.expect("just waited for")
}

pub(crate) fn keys(text: &str) -> TerminalInput {
    TerminalInput::Keys(text.as_bytes().to_vec())
}

pub(crate) fn quick() -> Grace {
    Grace {
        terminate: Duration::from_secs(1),
    }
}

/// Whether no such process runs; one that only waits to be buried does not.
pub fn dead(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    let state = stat.rsplit(')').next().unwrap_or("").trim_start();
    state.starts_with(['Z', 'X'])
}

pub(crate) async fn gone(pid: u32) {
    until(&format!("the end of process {pid}"), || dead(pid)).await;
}

/// Ends and forgets everything in the home.
pub(crate) async fn clear(runtime: &dyn Runtime) {
    let Ok(found) = runtime.list().await else {
        return;
    };
    for run in found {
        let grace = Grace {
            terminate: Duration::ZERO,
        };
        match runtime.end(&run.handle, grace).await {
            Ok(_) | Err(Error::Missing) => {}
            Err(error) => tracing::warn!(%error, "a case's run could not be ended"),
        }
        if let Err(error) = runtime.forget(&run.handle).await {
            tracing::warn!(%error, "a case's run could not be forgotten");
        }
    }
}

pub(crate) fn read_number(path: &Path) -> u32 {
    let text = fs::read_to_string(path).expect("a file with a number");
    text.trim().parse().expect("a number")
}
