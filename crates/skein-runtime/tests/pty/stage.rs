//! What the tests of view and holder stand on: a home with a run, and seats at terminals to look at it from.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skein_domain::RunHandle;
use skein_runtime::pty::{PtyOptions, PtyRuntime};
use skein_runtime::{Grace, Launch, Run, Runtime, Size};
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A home; its runs end with it.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) runtime: PtyRuntime,
}

impl Stage {
    /// Runs `test` over a fresh home and ends whatever it started, also when it fails.
    pub(crate) fn with<F: Future<Output = ()>>(test: impl FnOnce(Arc<Stage>) -> F) {
        let folder = TempDir::new().unwrap();
        let runtime = PtyRuntime::new(PtyOptions {
            holder: vec![env!("CARGO_BIN_EXE_skein-holder").into()],
            root: folder.path().join("runs"),
            groups: skein_runtime::Groups::default(),
        });
        let stage = Arc::new(Stage { folder, runtime });
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tokio.block_on(async {
                let test = tokio::time::timeout(PATIENCE * 3, test(Arc::clone(&stage)));
                test.await.expect("the test takes too long");
            });
        }));
        tokio.block_on(async {
            for run in stage.runtime.list().await.unwrap() {
                let grace = Grace {
                    terminate: Duration::ZERO,
                };
                let _ = stage.runtime.end(&run.handle, grace).await;
            }
        });
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.path("runs")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) async fn start(&self, script: &str) -> (RunHandle, Arc<dyn Run>) {
        let handle = self.runtime.launch(self.launch(script)).await.unwrap();
        let run = self.runtime.connect(&handle).await.unwrap();
        (handle, run)
    }

    pub(crate) fn launch(&self, script: &str) -> Launch {
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        Launch {
            tenant: "default".into(),
            session: "api-1".parse().unwrap(),
            run: 1,
            argv: vec!["sh".into(), "-c".into(), script.into()],
            env: BTreeMap::from([path]),
            cwd: self.folder.path().to_owned(),
            stdin: None,
            size: Size { rows: 24, cols: 80 },
            log: self.path("log"),
        }
    }

    pub(crate) fn socket(&self, handle: &RunHandle) -> PathBuf {
        let run = handle.as_str().strip_prefix("pty:").unwrap();
        self.root().join(run).join("socket")
    }
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn file(path: &Path) -> String {
    let mut text = String::new();
    until(&format!("{}", path.display()), || {
        text = std::fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    })
    .await;
    text.trim_end_matches('\n').to_owned()
}

pub(crate) async fn shown(run: &dyn Run, text: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let rows = run.screen().await.unwrap().rows;
        if rows.iter().any(|row| row.contains(text)) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "`{text}` never showed: {rows:#?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A frame as clients send it.
pub(crate) fn frame(head: &str, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + head.len() + body.len()).unwrap();
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend(u32::try_from(head.len()).unwrap().to_le_bytes());
    frame.extend(head.as_bytes());
    frame.extend(body);
    frame
}

/// Makes a descriptor give what it has instead of waiting.
pub(crate) fn impatient(fd: &OwnedFd) {
    let flags = rustix::fs::fcntl_getfl(fd).unwrap();
    rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
}
