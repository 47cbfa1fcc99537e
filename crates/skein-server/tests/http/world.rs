//! One server in this process, with a project `api`, on a Unix socket and on loopback.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use skein_agent::moment::Zone;
use skein_domain::Project;
use skein_fleet::{
    Databases, Fleet, FleetParts, MachineSettings, Memory, ProjectSettings, Settings, SettingsError,
};
use skein_ledger::{CredentialKey, Ledger, LedgerParts, TaskGroup};
use skein_runtime::Groups;
use skein_runtime::pty::{PtyOptions, PtyRuntime};
use skein_runtime::tmux::{TmuxOptions, TmuxWindows};
use skein_server::{App, AppOptions, serve};
use skein_store::Store;
use skein_store_conformance::memory::MemoryBackend;
use skein_workspace::NoWorkspace;
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};

use crate::client::{Call, Response, Stream, raw, text};

pub(crate) struct World {
    folder: TempDir,
    /// The TCP address of the server.
    pub(crate) address: String,
    app: App,
    runtime: Runtime,
}

/// The application under test. No test here starts an agent.
fn app(tasks: &TaskGroup, folder: &Path, socket: PathBuf, listen: SocketAddr) -> App {
    let store = Store::new(Arc::new(MemoryBackend::new()));
    let options = AppOptions {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        socket,
        listen: Some(listen),
        user: "user:tester".parse().unwrap(),
    };
    let ledger = Ledger::new(LedgerParts::new(store, tasks.clone()));
    App::new(Fleet::new(ledger, parts(folder)), tasks.clone(), options)
}

fn parts(folder: &Path) -> FleetParts {
    let at = |name: &str| folder.join(name);
    FleetParts {
        providers: vec![Arc::new(NoWorkspace::new(at("empty")))],
        runtime: Arc::new(PtyRuntime::new(PtyOptions {
            holder: vec!["/bin/false".into()],
            root: at("runs"),
            groups: Groups::default(),
        })),
        windows: Arc::new(TmuxWindows::new(TmuxOptions {
            skein: "/bin/false".into(),
            home: at("home"),
            socket: at("tmux.sock"),
            environment: BTreeMap::new(),
        })),
        settings: Arc::new(NothingSet),
        memory: Arc::new(Unmeasured),
        databases: Arc::new(NoDatabases),
        zone: Zone::utc(),
        private: at("sessions"),
        logs: at("logs"),
        home: at("home"),
        skein: "/bin/false".into(),
        environment: BTreeMap::new(),
        credentials: CredentialKey::new([1; 32], "test".into()),
    }
}

#[derive(Debug)]
struct NothingSet;

impl Settings for NothingSet {
    fn project(&self, _: &Project) -> Result<ProjectSettings, SettingsError> {
        Ok(ProjectSettings::default())
    }
    fn machine(&self) -> MachineSettings {
        MachineSettings::default()
    }
}

#[derive(Debug)]
struct Unmeasured;

impl Memory for Unmeasured {
    fn free_mb(&self) -> Option<u64> {
        None
    }
    fn tree_mb(&self, _: u32) -> Option<u64> {
        None
    }
}

#[derive(Debug)]
struct NoDatabases;

impl Databases for NoDatabases {
    fn rows(&self, _: &Path, _: &str, _: &str, _: &str) -> std::io::Result<String> {
        Ok(String::new())
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("skeind.sock");
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let tasks = TaskGroup::default();
        let (app, listen) = runtime.block_on(async {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let listen = tcp.local_addr().unwrap();
            let app = app(&tasks, folder.path(), socket.clone(), listen);
            serve::unix(UnixListener::bind(&socket).unwrap(), app.router(), &tasks);
            serve::tcp(tcp, app.router(), &tasks);
            (app, listen)
        });
        let world = Self {
            folder,
            address: listen.to_string(),
            app,
            runtime,
        };
        world.ok(&Call::post("/api/v1/projects", &json!({"name": "api"})));
        world
    }

    /// A folder that exists.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder().join("skeind.sock")).unwrap()
    }

    /// One request of the machine's own user.
    pub(crate) fn call(&self, call: &Call) -> Response {
        call.over(self.connect())
    }

    pub(crate) fn ok(&self, call: &Call) -> Value {
        self.call(call).ok()
    }

    /// One request over TCP.
    pub(crate) fn call_tcp(&self, call: &Call) -> Response {
        call.over_tcp(&self.address)
    }

    /// Raw bytes over the Unix socket, and all that comes back.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        raw(self.connect(), bytes)
    }

    /// A connection for a test that writes its own bytes.
    pub(crate) fn connection(&self) -> UnixStream {
        self.connect()
    }

    pub(crate) fn stream(&self, call: &Call) -> Stream {
        Stream::open(&self.folder().join("skeind.sock"), call)
    }

    /// Returns when the server was asked to stop.
    pub(crate) fn wait_for_stop(&self) {
        self.runtime.block_on(self.app.stop_asked());
    }

    /// A session without an agent; gives its id.
    pub(crate) fn spawn(&self, body: Value) -> String {
        let mut all = json!({"project": "api", "task": "work", "agent": "none"});
        let fields = body.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(fields);
        text(&self.ok(&Call::post("/api/v1/sessions", &all))["id"])
    }

    /// A token's secret.
    pub(crate) fn token(&self, body: &Value) -> String {
        text(&self.ok(&Call::post("/api/v1/tokens", body))["secret"])
    }

    fn list(&self, what: &str) -> Vec<Value> {
        let list = self.ok(&Call::get(&format!("/api/v1/{what}")));
        assert_eq!(list["next"], Value::Null, "{what}");
        list["data"].as_array().unwrap().clone()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.list("events?since=0&limit=1000")
    }

    pub(crate) fn sessions(&self) -> Vec<Value> {
        self.list("sessions?all=true&limit=1000")
    }

    pub(crate) fn threads(&self) -> Vec<Value> {
        self.list("threads?state=all&limit=1000")
    }

    /// All records and events of the ledger, without the audit events of refusals.
    pub(crate) fn ledger(&self) -> Value {
        let events = self.events().into_iter();
        let events: Vec<Value> = events
            .filter(|event| event["kind"] != "audit.refused")
            .map(|event| json!([event["kind"], event["session"], event["data"]]))
            .collect();
        json!({
            "events": events,
            "sessions": self.sessions(),
            "threads": self.threads(),
            "projects": self.list("projects?limit=1000"),
        })
    }

    /// Checks that `attempts` leave the ledger unchanged, and its events in order.
    pub(crate) fn unchanged(&self, attempts: impl FnOnce(&Self)) {
        let before = self.ledger();
        attempts(self);
        assert_eq!(self.ledger(), before);
        let report = self.ok(&Call::get("/api/v1/events/verify"));
        assert_eq!(report["ok"], true, "{report}");
    }
}
