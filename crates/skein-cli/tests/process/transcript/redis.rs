//! A Redis of the test's own, on a socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::eventually;

/// Ended with the test, also when that fails.
pub(crate) struct Redis {
    child: Child,
    socket: PathBuf,
    _folder: TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Redis {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("r.sock");
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn();
        let child = child.expect("these tests need `redis-server` (Debian: redis-server)");
        let redis = Self {
            child,
            socket,
            _folder: folder,
        };
        let there = || UnixStream::connect(&redis.socket).ok();
        eventually(there, || "redis-server does not listen".into());
        redis
    }

    /// The settings of a home whose transcripts are hot here.
    pub(crate) fn settings(&self) -> String {
        let url = format!("redis+unix://{}", self.socket.display());
        format!("[transcripts]\nhot = {url:?}\nredis_durability = \"volatile\"\n")
    }

    /// The lines of the answer to a command: of a list, its members.
    pub(crate) fn ask(&self, command: &str) -> Vec<String> {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let first = line();
        let Some(count) = first.strip_prefix('*') else {
            return vec![first];
        };
        let members = (0..count.parse().unwrap()).map(|_| {
            let size = line();
            assert!(size.starts_with('$'), "{size}");
            line()
        });
        members.collect()
    }
}
