//! Servers of a test's own: on loopback, in a folder that goes with them.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Client, Commands, Connection, FromRedisValue};
use skein_transcript_conformance::block_on;
use skein_transcript_redis::{RedisHot, RedisOptions};
use tempfile::TempDir;

pub(crate) const SAFE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// One `redis-server`. It is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    folder: TempDir,
    arguments: Vec<String>,
    child: Mutex<Option<Child>>,
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Server {
    /// One that keeps what it acknowledges.
    pub(crate) fn safe() -> Arc<Self> {
        Self::with(SAFE)
    }

    pub(crate) fn with(arguments: &[&str]) -> Arc<Self> {
        loop {
            let server = Self {
                port: free_port(),
                folder: tempfile::tempdir().unwrap(),
                arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
                child: Mutex::default(),
            };
            match server.try_start() {
                Ok(()) => return Arc::new(server),
                // Another test took the port, or the one that members of a cluster talk on.
                Err(log) if log.contains("Address already in use") => {}
                Err(log) => panic!("{log}"),
            }
        }
    }

    pub(crate) fn start(&self) {
        self.try_start().unwrap_or_else(|log| panic!("{log}"));
    }

    /// What the server logged, if it ended instead of answering.
    fn try_start(&self) -> Result<(), String> {
        let folder = self.folder.path();
        let child = Command::new("redis-server")
            .args([
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--logfile",
                "log",
                "--port",
            ])
            .arg(self.port.to_string())
            .args(&self.arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| {
                panic!("these tests need `redis-server` (Debian: redis-server): {e}")
            });
        *self.child.lock().unwrap() = Some(child);
        let since = Instant::now();
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        while let Err(error) = self.ready() {
            if self.has_ended() {
                return Err(log());
            }
            let waited = since.elapsed();
            assert!(waited < Duration::from_secs(30), "{error}: {}", log());
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        let mut child = self.child.lock().unwrap();
        let ended = |child: &mut Child| child.try_wait().unwrap().is_some();
        child.as_mut().is_some_and(ended)
    }

    fn ready(&self) -> redis::RedisResult<()> {
        let answer: redis::RedisResult<String> = self.client().get_connection()?.ping();
        match answer {
            // It wants a password; that is an answer too.
            Err(error) if error.code() == Some("NOAUTH") => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// As a power cut does it.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn client(&self) -> Client {
        Client::open(self.url()).unwrap()
    }

    pub(crate) fn raw(&self) -> Connection {
        self.client().get_connection().unwrap()
    }

    /// A command in words.
    pub(crate) fn ask<T: FromRedisValue>(&self, words: &str) -> T {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        command
            .arg(words.collect::<Vec<_>>())
            .query(&mut self.raw())
            .unwrap()
    }

    pub(crate) fn options(&self) -> RedisOptions {
        RedisOptions::new(self.url()).timeout(Duration::from_secs(20))
    }

    pub(crate) fn tier(&self) -> Arc<RedisHot> {
        connect(self.options())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn connect(options: RedisOptions) -> Arc<RedisHot> {
    Arc::new(block_on(RedisHot::connect(options)).unwrap())
}

/// Three servers that share the slots.
#[derive(Debug)]
pub(crate) struct Cluster(pub(crate) Vec<Arc<Server>>);

impl Cluster {
    pub(crate) fn start() -> Self {
        let buses: Vec<String> = (0..3).map(|_| free_port().to_string()).collect();
        let safe = |bus: &String| {
            let own = ["--cluster-enabled", "yes", "--cluster-port", bus];
            Server::with(&[SAFE, &own].concat())
        };
        let servers: Vec<_> = buses.iter().map(safe).collect();
        let parts = ["0 5000", "5001 11000", "11001 16383"];
        for (n, (server, part)) in servers.iter().zip(parts).enumerate() {
            let _: String = server.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1));
            let _: String = server.ask(&format!("CLUSTER ADDSLOTSRANGE {part}"));
            let met = format!("CLUSTER MEET 127.0.0.1 {} {}", servers[0].port, buses[0]);
            let _: String = server.ask(&met);
        }
        let since = Instant::now();
        let known = |server: &Arc<Server>| {
            let info: String = server.ask("CLUSTER INFO");
            let nodes: String = server.ask("CLUSTER NODES");
            info.contains("cluster_state:ok")
                && nodes.matches("connected").count() >= 3
                && !nodes.contains("handshake")
                && info.contains("cluster_slots_ok:16384")
        };
        while !servers.iter().all(known) {
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "the cluster does not come up"
            );
            sleep(Duration::from_millis(20));
        }
        Self(servers)
    }

    pub(crate) fn options(&self) -> RedisOptions {
        let hosts: Vec<_> = self
            .0
            .iter()
            .map(|s| format!("127.0.0.1:{}", s.port))
            .collect();
        let url = format!("redis-cluster://{}", hosts.join(","));
        RedisOptions::new(url).timeout(Duration::from_secs(20))
    }
}
