//! A real S3 server on loopback: SeaweedFS, in a folder of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skein_transcript::Cold;
use skein_transcript_object::{Bucket, BucketSettings};
use tempfile::TempDir;

pub(crate) const KEY: &str = "AKIATESTKEY";
pub(crate) const SECRET: &str = "hush-hush-hush";
const READY: Duration = Duration::from_secs(60);

pub(crate) struct Weed {
    process: Child,
    pub(crate) port: u16,
    _folder: TempDir,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own setting, which the program never reads"
)]
fn program() -> PathBuf {
    let path = std::env::var_os("SKEIN_TEST_SEAWEEDFS").map(PathBuf::from);
    path.filter(|path| path.is_file()).expect(
        "SKEIN_TEST_SEAWEEDFS must name SeaweedFS's `weed` program; `./test` installs it and sets this",
    )
}

/// Ports that were free a moment ago.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

impl Weed {
    /// Another process may take a port before the server does; then it is started anew.
    pub(crate) fn start() -> Arc<Self> {
        (0..3)
            .find_map(|_| Self::try_start())
            .expect("SeaweedFS does not start")
    }

    fn try_start() -> Option<Arc<Self>> {
        let folder = TempDir::new().unwrap();
        let ports = free_ports::<10>();
        let names = ["s3", "master", "filer", "volume", "admin"];
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(program());
        command.arg("mini").arg("-dir").arg(folder.path());
        for (name, pair) in names.iter().zip(ports.chunks(2)) {
            command.arg(format!("-{name}.port={}", pair[0]));
            command.arg(format!("-{name}.port.grpc={}", pair[1]));
        }
        command
            .args([
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                "-master.telemetry=false",
            ])
            .args(["-webdav=false", "-admin.ui=false", "-bucket=test"])
            .args(["-s3.port.iceberg=0", "-s3.port.lance=0"])
            .env_clear()
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let weed = Self {
            process: command.spawn().unwrap(),
            port: ports[0],
            _folder: folder,
        };
        weed.ready().then(|| Arc::new(weed))
    }

    fn ready(&self) -> bool {
        let since = Instant::now();
        while since.elapsed() < READY {
            if self.answers() && self.takes_puts() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return false;
        };
        let mut answer = [0; 5];
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && &answer == b"HTTP/"
    }

    /// The bucket and a volume to write to come a little later.
    fn takes_puts(&self) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let cold = self.at("ready");
        runtime
            .block_on(skein_transcript_object::probe(&*cold))
            .is_ok()
    }

    pub(crate) fn settings(&self, location: &str) -> BucketSettings {
        settings(location, self.port)
    }

    /// A client of its own, as on another machine.
    pub(crate) fn at(&self, prefix: &str) -> Arc<dyn Cold> {
        Arc::new(Bucket::open(&self.settings(&format!("s3://test/{prefix}"))).unwrap())
    }
}

impl Drop for Weed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn settings(location: &str, port: u16) -> BucketSettings {
    let variables = [
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut settings = BucketSettings::new(location.parse().unwrap()).variables(variables);
    settings.endpoint = Some(format!("http://127.0.0.1:{port}"));
    settings
}
