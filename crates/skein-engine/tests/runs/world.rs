//! An engine whose only agent is a stand-in, and ways to wait for what becomes of its sessions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use skein_agent::Registry;
use skein_agent::moment::Zone;
use skein_domain::{
    Actor, Allowance, LaunchSettings, Project, PromptVia, Session, TenantId, Timestamp, Via,
};
use skein_engine::fleet::equip::Equip;
use skein_engine::fleet::{
    Databases, MachineSettings, Memory, NoPoints, ProjectSettings, Settings, SettingsError,
};
use skein_engine::project::AddProject;
use skein_engine::spawn::Spawn;
use skein_engine::transcript::{Cold, TranscriptParts};
use skein_engine::{Caller, CredentialKey, Desk, Engine, FleetParts, Outcome, Tasks};
use skein_runtime::runtime::Input;
use skein_store::Store;
use skein_store::fault::FaultyBackend;
use skein_store::memory::MemoryBackend;
use skein_store_sqlite::transcript::SqliteIndex;
use skein_transcript::fault::{Faults, Faulty};
use skein_transcript::memory::MemoryHot;
use skein_transcript::service::{Appended, Direction, Query};
use skein_transcript::{Block, By, Hot, Message, Role, Run, Tiers, TranscriptId};
use skein_workspace::NoWorkspace;
use tempfile::TempDir;

use crate::stand_in::{Gate, StandIn, Terminal, Terminals};

/// Longest wait for anything; only reached when something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks while nothing rings.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct World {
    engine: Engine,
    transcripts: Tiers,
    /// What befalls the transcripts.
    pub(crate) faults: Arc<Faults>,
    pub(crate) tasks: Tasks,
    pub(crate) backend: Arc<FaultyBackend>,
    pub(crate) terminals: Terminals,
    pub(crate) gate: Arc<Gate>,
    folder: TempDir,
}

#[derive(Debug)]
struct OneAgent(Arc<Gate>);

impl Settings for OneAgent {
    fn project(&self, _: &Project) -> Result<ProjectSettings, SettingsError> {
        let mut agents = Registry::built_in();
        agents.add(Arc::new(StandIn::new(self.0.clone())));
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

impl World {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (terminals, gate) = (Terminals::default(), Arc::new(Gate::default()));
        let faults = Arc::new(Faults::default());
        let hot: Arc<dyn Hot> = Arc::new(MemoryHot::default());
        let transcripts = Tiers::hot_only(Arc::new(Faulty::new(hot, &faults)));
        let tasks = Tasks::default();
        let backend = Arc::new(FaultyBackend::new(Arc::new(MemoryBackend::new())));
        let engine = Engine::new(Store::new(backend.clone()), tasks.clone());
        let mut world = Self {
            engine,
            transcripts,
            faults,
            tasks,
            backend,
            terminals,
            gate,
            folder,
        };
        world.start().await;
        let add = AddProject {
            name: Some("api".parse().unwrap()),
            ..AddProject::default()
        };
        world.desk().add_project(add).await.unwrap();
        world
    }

    /// Another daemon takes over, after this one died where it was.
    pub(crate) async fn restart(&mut self) {
        self.tasks.drain(Duration::ZERO).await;
        self.tasks = Tasks::default();
        self.start().await;
    }

    async fn start(&mut self) {
        let store = Store::new(self.backend.clone());
        let engine = Engine::new(store, self.tasks.clone());
        let index = SqliteIndex::open(&self.folder.path().join("search.db")).unwrap();
        self.engine = engine
            .with_fleet(self.parts())
            .with_transcripts(TranscriptParts {
                tiers: self.transcripts.clone(),
                cold: Cold::None,
                index: Arc::new(index),
                idle_seconds: None,
            });
        self.engine.start_fleet().await.unwrap();
    }

    fn parts(&self) -> FleetParts {
        let at = |name: &str| self.folder.path().join(name);
        FleetParts {
            providers: vec![Arc::new(NoWorkspace::new(at("empty")))],
            runtimes: vec![Arc::new(self.terminals.clone())],
            settings: Arc::new(OneAgent(self.gate.clone())),
            memory: Arc::new(Enough),
            databases: Arc::new(NoDatabases),
            zone: Zone::utc(),
            private: at("sessions"),
            logs: at("logs"),
            home: at(""),
            roots: vec![at("empty")],
            skein: "/bin/false".into(),
            environment: BTreeMap::new(),
            credentials: CredentialKey::new([1; 32], "test".into()),
            points: Arc::new(NoPoints),
        }
    }

    /// The ids of what the session's transcript has, in order; nothing while it cannot be read.
    pub(crate) async fn said(&self, session: &Session) -> Vec<String> {
        let tenant = self.transcripts.tenant(TenantId::default_tenant());
        let transcript = tenant.open(&TranscriptId::from(&session.id));
        let (mut said, mut cursor) = (vec![], None);
        loop {
            let query = Query {
                direction: Direction::OldestFirst,
                cursor,
                limit: Query::MOST,
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
        let message = Message::new(id.parse().unwrap(), Role::User, blocks, at);
        let all = self.transcripts.tenant(TenantId::default_tenant());
        let transcript = all.open(&TranscriptId::from(&session.id));
        let by = By { run: Run(run), at };
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

    pub(crate) fn desk(&self) -> Desk {
        let ann: Actor = "user:ann".parse().unwrap();
        let tenant = TenantId::default_tenant();
        self.engine.desk(Caller::local(tenant, ann))
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
        let spawn = Spawn {
            task: "work".parse().unwrap(),
            project: Some("api".into()),
            thread: None,
            parent: None,
            owner: None,
            agent: Some("stand-in".parse().unwrap()),
            allowance: Allowance::UNLIMITED,
            equip: Equip {
                launch,
                ..Equip::default()
            },
        };
        self.desk().spawn(spawn).await.unwrap().session().unwrap()
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
        let mut follower = self.desk().follow(Some(0), None).await.unwrap();
        let mut last = session.clone();
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                last = self
                    .desk()
                    .get_session(session.id.to_string())
                    .await
                    .unwrap();
                if wanted(&last) {
                    return last.clone();
                }
                // A write whose reply was lost rings nobody.
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

    pub(crate) async fn send(&self, session: &Session, text: &str) -> skein_domain::Receipt {
        let (desk, message) = (self.desk(), text.parse().unwrap());
        let answer = desk.send(session.id.to_string(), message, None);
        match answer.await.unwrap().fresh() {
            Some(Outcome::Receipt(receipt)) => *receipt,
            other => panic!("{other:?}"),
        }
    }
}

/// Waits until something like this was typed. Says whether it was before the run was over.
pub(crate) async fn is_typed(terminal: &Terminal, wanted: &Input) -> bool {
    let mut typed = terminal.typed.subscribe();
    let seen = typed.wait_for(|typed| typed.contains(wanted) || terminal.has_exited());
    let seen = tokio::time::timeout(PATIENCE, seen).await;
    seen.is_ok_and(|typed| typed.is_ok_and(|typed| typed.contains(wanted)))
}
