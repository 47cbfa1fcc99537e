//! Calls `skein hook`, as a real program would.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A hook that takes longer is killed, so that the agent never hangs.
const LONGEST: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Hook {
    /// `None` if hooks are off.
    pub(super) skein: Option<PathBuf>,
}

impl Hook {
    pub(super) fn call(&self, event: &str, payload: &Value) {
        let Some(skein) = &self.skein else { return };
        let started = Command::new(skein)
            .args(["hook", event])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = started else { return };
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(payload.to_string().as_bytes());
        }
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        while matches!(child.try_wait(), Ok(None)) {
            if begun.elapsed() > LONGEST {
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}
