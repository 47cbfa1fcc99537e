//! The built-in runtime passes the suite.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skein_domain::RunHandle;
use skein_runtime::Runtime;
use skein_runtime::conformance::Home;
use skein_runtime::pty::{PtyOptions, PtyRuntime};
use tempfile::TempDir;

#[derive(Debug)]
struct Folder(TempDir);

impl Folder {
    /// Deeper than a socket's address is long.
    fn root(&self) -> PathBuf {
        self.0.path().join("a-rather-long-name-".repeat(10))
    }
}

fn runtime(root: &Path) -> PtyRuntime {
    PtyRuntime::new(PtyOptions {
        holder: vec![env!("CARGO_BIN_EXE_skein-holder").into()],
        root: root.to_owned(),
        groups: skein_runtime::Groups::default(),
    })
}

impl Home for Folder {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(runtime(&self.root()))
    }

    fn another(&self) -> Box<dyn Home> {
        Box::new(fresh())
    }

    fn keeper(&self, handle: &RunHandle) -> u32 {
        let run = handle.as_str().strip_prefix("pty:").unwrap();
        let record = fs::read_to_string(self.root().join(run).join("run.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        u32::try_from(record["holder"].as_u64().unwrap()).unwrap()
    }
}

fn fresh() -> Folder {
    Folder(TempDir::new().unwrap())
}

skein_runtime::runtime_conformance!(fresh);
