//! A fleet whose only agent is a stand-in, and ways to wait for what becomes of its sessions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use skein_agent::Registry;
use skein_agent::moment::Zone;
use skein_domain::{
    Actor, Allowance, LaunchSettings, Project, PromptVia, Session, TenantId, Timestamp, Via,
};
use skein_fleet::{Databases, MachineSettings, Memory, ProjectSettings, Settings, SettingsError};
use skein_fleet::{Fleet, FleetParts, FleetRequests};
use skein_ledger::project::AddProject;
use skein_ledger::spawn::LaunchOptions;
use skein_ledger::spawn::Spawn;
use skein_ledger::transcript::{ColdTierState, TranscriptParts};
use skein_ledger::{
    Caller, Clock, CredentialKey, Ledger, LedgerParts, ManagedRoots, RequestOutcome, TaskGroup,
};
use skein_store::Store;
use skein_store_conformance::fault::FaultyBackend;
use skein_store_conformance::memory::MemoryBackend;
use skein_store_sqlite::transcript::SqliteIndex;
use skein_transcript::service::{Appended, Direction, MessageQuery};
use skein_transcript::{
    Block, Hot, Message, MessageRole, RunNumber, Tiers, TranscriptId, WriteContext,
};
use skein_transcript_conformance::fault::{Faults, Faulty};
use skein_transcript_conformance::memory::MemoryHot;
use skein_workspace::NoWorkspace;
use tempfile::TempDir;
use tokio::time::Instant;

use super::stand_in::{Gate, SHOWN, StandIn, StandInWindows, Terminal, Terminals};

/// Longest wait for anything; only reached when something is wrong. Tests with paused time wait for minutes.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSED_PATIENCE: Duration = Duration::from_secs(3_600);

/// Between two looks while no event comes.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct World {
    fleet: Arc<Fleet>,
    transcripts: Tiers,
    /// What befalls the transcripts.
    pub(crate) faults: Arc<Faults>,
    pub(crate) tasks: TaskGroup,
    pub(crate) backend: Arc<FaultyBackend>,
    pub(crate) terminals: Terminals,
    pub(crate) windows: Arc<StandInWindows>,
    pub(crate) gate: Arc<Gate>,
    clock: Arc<TokioClock>,
    folder: TempDir,
}

/// Goes as the runtime's time does: paused with it, and advanced.
#[derive(Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.0.elapsed().as_micros()).unwrap();
        Timestamp::from_micros(1_800_000_000_000_000 + passed)
    }
}

#[derive(Debug)]
struct OneAgent(Arc<Gate>);

impl Settings for OneAgent {
    fn project(&self, _: &Project) -> Result<ProjectSettings, SettingsError> {
        let mut agents = Registry::built_in();
        agents.add(Arc::new(StandIn::new(self.0.clone())));
        agents.add(Arc::new(StandIn::shown(self.0.clone())));
        Ok(ProjectSettings {
            agents,
            ..ProjectSettings::default()
        })
    }
    fn machine(&self) -> MachineSettings {
        MachineSettings::default()
    }
}

#[derive(Debug)]
struct Enough;

impl Memory for Enough {
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

/// A daemon's ledger and fleet on what an earlier one left.
async fn start(
    backend: &Arc<FaultyBackend>,
    tasks: &TaskGroup,
    tiers: &Tiers,
    clock: &Arc<TokioClock>,
    parts: FleetParts,
    folder: &TempDir,
) -> Arc<Fleet> {
    let index = SqliteIndex::open(&folder.path().join("search.db")).unwrap();
    let ledger = Ledger::new(LedgerParts {
        transcripts: Some(TranscriptParts {
            tiers: tiers.clone(),
            cold: ColdTierState::None,
            index: Arc::new(index),
            idle_seconds: None,
        }),
        clock: clock.clone(),
        credentials: parts.credentials.clone(),
        managed: ManagedRoots::new(vec![folder.path().join("empty")]),
        ..LedgerParts::new(Store::new(backend.clone()), tasks.clone())
    });
    let fleet = Fleet::new(ledger, parts);
    fleet.start().await.unwrap();
    fleet
}

fn parts(
    folder: &TempDir,
    terminals: &Terminals,
    windows: &Arc<StandInWindows>,
    gate: &Arc<Gate>,
) -> FleetParts {
    let at = |name: &str| folder.path().join(name);
    FleetParts {
        providers: vec![Arc::new(NoWorkspace::new(at("empty")))],
        runtime: Arc::new(terminals.clone()),
        windows: windows.clone(),
        settings: Arc::new(OneAgent(gate.clone())),
        memory: Arc::new(Enough),
        databases: Arc::new(NoDatabases),
        zone: Zone::utc(),
        private: at("sessions"),
        logs: at("logs"),
        home: at(""),
        skein: "/bin/false".into(),
        environment: BTreeMap::new(),
        credentials: CredentialKey::new([1; 32], "test".into()),
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (terminals, gate) = (Terminals::default(), Arc::new(Gate::default()));
        let faults = Arc::new(Faults::default());
        let hot: Arc<dyn Hot> = Arc::new(MemoryHot::default());
        let transcripts = Tiers::hot_only(Arc::new(Faulty::new(hot, &faults)));
        let tasks = TaskGroup::default();
        let backend = Arc::new(FaultyBackend::new(Arc::new(MemoryBackend::new())));
        let windows = Arc::default();
        let clock = Arc::new(TokioClock(Instant::now()));
        let fleet = start(
            &backend,
            &tasks,
            &transcripts,
            &clock,
            parts(&folder, &terminals, &windows, &gate),
            &folder,
        );
        let world = Self {
            fleet: fleet.await,
            transcripts,
            faults,
            tasks,
            backend,
            terminals,
            windows,
            gate,
            clock,
            folder,
        };
        let add = AddProject {
            name: Some("api".parse().unwrap()),
            ..AddProject::default()
        };
        world.requests().ledger.projects().add(add).await.unwrap();
        world
    }

    /// Another daemon takes over, after this one died where it was.
    pub(crate) async fn restart(&mut self) {
        self.tasks.drain(Duration::ZERO).await;
        self.tasks = TaskGroup::default();
        let parts = parts(&self.folder, &self.terminals, &self.windows, &self.gate);
        let fleet = start(
            &self.backend,
            &self.tasks,
            &self.transcripts,
            &self.clock,
            parts,
            &self.folder,
        );
        self.fleet = fleet.await;
    }

    /// The ids of what the session's transcript has, in order; nothing while it cannot be read.
    pub(crate) async fn said(&self, session: &Session) -> Vec<String> {
        let tenant = self.transcripts.tenant(TenantId::default_tenant());
        let transcript = tenant.open(&TranscriptId::from(&session.id));
        let (mut said, mut cursor) = (vec![], None);
        loop {
            let query = MessageQuery {
                direction: Direction::OldestFirst,
                cursor,
                limit: MessageQuery::MOST,
            };
            let Ok(page) = transcript.page(query).await else {
                return vec![];
            };
            let ids = page.messages.iter().map(|p| p.message.id.to_string());
            said.extend(ids);
            cursor = page.next;
            if cursor.is_none() {
                return said;
            }
        }
    }

    /// Says something on behalf of a run, as a writer does who asks the ledger nothing.
    pub(crate) async fn say_as(
        &self,
        session: &Session,
        run: u64,
        id: &str,
    ) -> skein_transcript::Result<Appended> {
        let at = Timestamp::from_micros(1);
        let blocks = vec![Block::Text(id.to_owned())];
        let message = Message::new(id.parse().unwrap(), MessageRole::User, blocks, at);
        let all = self.transcripts.tenant(TenantId::default_tenant());
        let transcript = all.open(&TranscriptId::from(&session.id));
        let by = WriteContext {
            run: RunNumber(run),
            at,
        };
        transcript.append(by, &[message]).await
    }

    /// Waits until the transcript has these, and no others.
    pub(crate) async fn until_said(&self, session: &Session, wanted: &[String]) {
        let mut last = vec![];
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                last = self.said(session).await;
                if last == wanted {
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        if found.await.is_err() {
            panic!("it was never said: {last:?}, but {wanted:?}");
        }
    }

    pub(crate) fn requests(&self) -> FleetRequests {
        let ann: Actor = "user:ann".parse().unwrap();
        let tenant = TenantId::default_tenant();
        self.fleet.requests(Caller::local(tenant, ann))
    }

    /// A session whose saga has begun.
    pub(crate) async fn spawn(&self, via: Via, prompt: PromptVia) -> Session {
        let launch = LaunchSettings {
            via,
            prompt_via: Some(prompt),
            ..LaunchSettings::default()
        };
        self.spawn_with(launch).await
    }

    pub(crate) async fn spawn_with(&self, launch: LaunchSettings) -> Session {
        let equip = LaunchOptions {
            launch,
            ..LaunchOptions::default()
        };
        self.try_spawn(equip).await.unwrap()
    }

    pub(crate) async fn try_spawn(
        &self,
        equip: LaunchOptions,
    ) -> Result<Session, skein_fleet::Error> {
        self.spawn_agent("stand-in", equip).await
    }

    /// A session whose agent is read by its screen.
    pub(crate) async fn spawn_shown(&self) -> Session {
        let spawned = self.spawn_agent(SHOWN, LaunchOptions::default()).await;
        spawned.unwrap()
    }

    async fn spawn_agent(
        &self,
        agent: &str,
        equip: LaunchOptions,
    ) -> Result<Session, skein_fleet::Error> {
        let spawn = Spawn {
            task: "work".parse().unwrap(),
            project: Some("api".into()),
            thread: None,
            parent: None,
            owner: None,
            agent: Some(agent.parse().unwrap()),
            allowance: Allowance::UNLIMITED,
            equip,
        };
        Ok(self.requests().spawn(spawn).await?.session().unwrap())
    }

    /// A file of the session's own.
    pub(crate) fn private(&self, session: &Session, name: &str) -> PathBuf {
        let folder = self.folder.path().join("sessions/default");
        folder.join(session.id.as_str()).join(name)
    }

    /// Waits until the session is as wanted.
    pub(crate) async fn until(
        &self,
        session: &Session,
        wanted: impl Fn(&Session) -> bool,
    ) -> Session {
        self.until_within(PATIENCE, session, wanted).await
    }

    /// The same where time is paused, and may go far.
    pub(crate) async fn until_paused(
        &self,
        session: &Session,
        wanted: impl Fn(&Session) -> bool,
    ) -> Session {
        self.until_within(PAUSED_PATIENCE, session, wanted).await
    }

    async fn until_within(
        &self,
        patience: Duration,
        session: &Session,
        wanted: impl Fn(&Session) -> bool,
    ) -> Session {
        let mut follower = self
            .requests()
            .ledger
            .events()
            .follow(Some(0), None)
            .await
            .unwrap();
        let mut last = session.clone();
        let found = tokio::time::timeout(patience, async {
            loop {
                last = self
                    .requests()
                    .ledger
                    .sessions()
                    .get(session.id.to_string())
                    .await
                    .unwrap();
                if wanted(&last) {
                    return last.clone();
                }
                // A write whose reply was lost wakes no follower.
                let _ = tokio::time::timeout(LOOK, follower.next()).await;
            }
        });
        match found.await {
            Ok(session) => session,
            Err(_) => panic!("it never came to be: {last:#?}"),
        }
    }

    /// The terminal of the session's run, once it is there.
    pub(crate) async fn terminal(&self, session: &Session, run: u64) -> Arc<Terminal> {
        let handle = format!("default/{}/{run}", session.id).parse().unwrap();
        let launched = |_: &Session| self.terminals.of(&handle).is_some();
        self.until(session, launched).await;
        self.terminals.of(&handle).unwrap()
    }

    /// Waits until the daemon has called the driver of this run with this prompt. Returns the call's id.
    pub(crate) async fn called(&self, session: &Session, run: u64, prompt: &str) -> String {
        let is_it = |call: &&Value| call["call"] == "prompt" && call["text"] == prompt;
        let called = tokio::time::timeout(PATIENCE, async {
            loop {
                let calls = self.calls(session, run);
                if let Some(call) = calls.iter().find(is_it) {
                    return call["id"].as_str().unwrap().to_owned();
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        match called.await {
            Ok(id) => id,
            Err(_) => panic!("it was never called: {:?}", self.calls(session, run)),
        }
    }

    /// The calls that the driver of this run finds.
    pub(crate) fn calls(&self, session: &Session, run: u64) -> Vec<Value> {
        let path = self.private(session, &format!("calls-{run}.jsonl"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Waits until the receipt is as wanted.
    pub(crate) async fn until_receipt(
        &self,
        id: &skein_domain::ReceiptId,
        wanted: impl Fn(&skein_domain::Receipt) -> bool,
    ) -> skein_domain::Receipt {
        let mut last = self.receipt(id).await;
        let found = tokio::time::timeout(PAUSED_PATIENCE, async {
            while !wanted(&last) {
                tokio::time::sleep(LOOK).await;
                last = self.receipt(id).await;
            }
        });
        match found.await {
            Ok(()) => last,
            Err(_) => panic!("it never came to be: {last:#?}"),
        }
    }

    /// The receipt of the session's task.
    pub(crate) async fn task_of(&self, session: &Session) -> skein_domain::Receipt {
        let id = session.id.to_string();
        let page = self
            .requests()
            .ledger
            .messages()
            .receipts(id, None, 10)
            .await
            .unwrap();
        page.items.last().unwrap().clone()
    }

    pub(crate) async fn receipt(&self, id: &skein_domain::ReceiptId) -> skein_domain::Receipt {
        self.requests()
            .ledger
            .messages()
            .receipt(id.to_string())
            .await
            .unwrap()
    }

    pub(crate) async fn send(&self, session: &Session, text: &str) -> skein_domain::Receipt {
        let (requests, message) = (self.requests(), text.parse().unwrap());
        let answer = requests.send(session.id.to_string(), message, None);
        match answer.await.unwrap().fresh() {
            Some(RequestOutcome::Receipt(receipt)) => *receipt,
            other => panic!("{other:?}"),
        }
    }
}
