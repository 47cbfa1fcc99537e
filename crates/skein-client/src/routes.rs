//! The calls of the API, as a table.

use hyper::Method;
use serde_json::Value;
use skein_wire::{
    AddProject, Agent, Answer, Append, Appended, Ask, BeginReply, BeginTurn, Broadcast, Compact,
    DaemonStatus, Delta, DeltaPassed, Diff, EndSession, EndTurn, Event, Flush, Flushed, Fork, Gc,
    GcReport, Handoff, Health, Hit, Hook, HookTaken, Hydrate, Hydrated, Interrupt, Kill, List,
    Merge, Message, NewThread, NewToken, Project, Receipt, Repair, Repaired, ReplyBegun, Restore,
    RetentionReport, Rewind, Rewound, Screen, SealEvents, SealReport, Send, Session, SetProject,
    SetState, SetSummary, Spawn, State, StateSet, Summary, TerminalAddress, Thread, Token,
    TokenSecret, TranscriptUsage, Tree, VerifyReport, Why,
};

use crate::call::{Client, ResponseFuture};
use crate::error::Error;
use crate::key::IdempotencyKey;
use crate::query::{Page, Target};

/// Which threads to list.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    pub project: Option<String>,
    /// `open` (default), `archived` or `all`.
    pub state: Option<String>,
    pub page: Page,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// Ended and archived ones too.
    pub all: bool,
    pub project: Option<String>,
    pub thread: Option<String>,
    pub status: Vec<String>,
    pub page: Page,
}

/// Which events to list.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Events after this number.
    pub since: Option<u64>,
    pub session: Option<String>,
    pub limit: Option<u32>,
}

/// Which messages to read.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    pub newest_first: bool,
    /// What a model is shown.
    pub model: bool,
    pub page: Page,
}

/// What to search for in transcripts.
#[derive(Clone, Debug, Default)]
pub struct TranscriptSearch {
    pub text: String,
    pub session: Option<String>,
    pub project: Option<String>,
    pub role: Option<String>,
    /// RFC 3339.
    pub since: Option<String>,
    pub page: Page,
}

/// A method per line: HTTP method, name, ids in the path, body, answer, path. All but GET take an idempotency key.
macro_rules! routes {
    ($($(#[$doc:meta])* $method:ident $name:ident($($id:ident),*) $(body $body:ty)? => $answer:ty: [$($segment:expr),+];)+) => {
        impl Client {
            $(routes! { @one $(#[$doc])* $method $name($($id),*) $(body $body)? => $answer: [$($segment),+] })+
        }
    };
    (@one $(#[$doc:meta])* GET $name:ident($($id:ident),*) => $answer:ty: [$($segment:expr),+]) => {
        $(#[$doc])*
        pub fn $name(&self $(, $id: &str)*) -> ResponseFuture<'_, $answer> {
            self.get(Target::new([$($segment),+]))
        }
    };
    (@one $(#[$doc:meta])* $method:ident $name:ident($($id:ident),*) body $body:ty => $answer:ty: [$($segment:expr),+]) => {
        $(#[$doc])*
        pub fn $name(&self, $($id: &str,)* body: &$body, key: &IdempotencyKey) -> ResponseFuture<'_, $answer> {
            let target = Target::new([$($segment),+]);
            self.call(Method::$method, target, Some(body), Some(key))
        }
    };
    (@one $(#[$doc:meta])* $method:ident $name:ident($($id:ident),*) => $answer:ty: [$($segment:expr),+]) => {
        $(#[$doc])*
        pub fn $name(&self, $($id: &str,)* key: &IdempotencyKey) -> ResponseFuture<'_, $answer> {
            let target = Target::new([$($segment),+]);
            self.call(Method::$method, target, None::<&()>, Some(key))
        }
    };
}

routes! {
    GET openapi() => Value: ["openapi.json"];
    GET daemon_status() => DaemonStatus: ["daemon"];
    POST stop_daemon() => DaemonStatus: ["daemon", "stop"];
    POST run_retention() => RetentionReport: ["retention", "run"];
    POST gc() body Gc => GcReport: ["gc"];

    POST add_project() body AddProject => Project: ["projects"];
    GET get_project(project) => Project: ["projects", project];
    PATCH set_project(project) body SetProject => Project: ["projects", project];
    DELETE remove_project(project) => Project: ["projects", project];

    POST new_thread() body NewThread => Thread: ["threads"];
    GET get_thread(thread) => Thread: ["threads", thread];
    DELETE remove_thread(thread) => Thread: ["threads", thread];
    POST archive_thread(thread) => Thread: ["threads", thread, "archive"];
    POST reopen_thread(thread) => Thread: ["threads", thread, "reopen"];

    POST spawn() body Spawn => Session: ["sessions"];
    /// The session, with a look into its workspace.
    GET show_session(session) => Session: ["sessions", session];
    POST begin_turn(session) body BeginTurn => Session: ["sessions", session, "begin-turn"];
    POST end_turn(session) body EndTurn => Session: ["sessions", session, "end-turn"];
    POST ask(session) body Ask => Session: ["sessions", session, "ask"];
    /// Withdraws the question.
    POST withdraw(session) body BeginTurn => Session: ["sessions", session, "withdraw"];
    POST answer(session) body Answer => Receipt: ["sessions", session, "answer"];
    POST send(session) body Send => Receipt: ["sessions", session, "send"];
    POST end_session(session) body EndSession => Session: ["sessions", session, "end"];
    POST kill(session) body Kill => Session: ["sessions", session, "kill"];
    POST restore(session) body Restore => Session: ["sessions", session, "restore"];
    POST handoff(session) body Handoff => Session: ["sessions", session, "handoff"];
    /// Answers with the recipients' sessions.
    POST broadcast(session) body Broadcast => List<Session>: ["sessions", session, "broadcast"];
    POST merge(session) body Merge => Session: ["sessions", session, "merge"];
    POST fork(session) body Fork => Session: ["sessions", session, "fork"];
    GET tree(session) => Tree: ["sessions", session, "tree"];
    GET why(session) => Why: ["sessions", session, "why"];
    GET screen(session) => Screen: ["sessions", session, "screen"];
    /// Paths on the daemon's machine; served on the Unix socket only.
    GET terminal(session) => TerminalAddress: ["sessions", session, "terminal"];
    GET get_summary(session) => Summary: ["sessions", session, "summary"];
    PUT set_summary(session) body SetSummary => Summary: ["sessions", session, "summary"];
    GET get_receipt(receipt) => Receipt: ["receipts", receipt];

    GET verify_events() => VerifyReport: ["events", "verify"];
    POST seal_events() body SealEvents => SealReport: ["events", "seal"];
    POST new_token() body NewToken => TokenSecret: ["tokens"];
    DELETE remove_token(token) => Token: ["tokens", token];

    GET get_state(session) => State: ["sessions", session, "transcript", "state"];
    PUT set_state(session) body SetState => StateSet: ["sessions", session, "transcript", "state"];
    GET transcript_usage(session) => TranscriptUsage: ["sessions", session, "transcript", "usage"];
    POST rewind_transcript(session) body Rewind => Rewound: ["sessions", session, "transcript", "rewind"];
    POST begin_reply(session) body BeginReply => ReplyBegun: ["sessions", session, "transcript", "reply"];
    POST repair_transcript(session) body Repair => Repaired: ["sessions", session, "transcript", "repair"];
    POST compact(session) body Compact => Appended: ["sessions", session, "transcript", "compact"];
    POST flush(session) body Flush => Flushed: ["sessions", session, "transcript", "flush"];
}

/// Calls with query parameters, or without a key.
impl Client {
    pub fn healthz(&self) -> ResponseFuture<'_, Health> {
        self.get(Target::root("/healthz"))
    }

    pub fn readyz(&self) -> ResponseFuture<'_, Health> {
        self.get(Target::root("/readyz"))
    }

    pub fn list_projects(&self, page: &Page) -> ResponseFuture<'_, List<Project>> {
        self.get(Target::new(["projects"]).page(page))
    }

    /// The project whose folder encloses `path`.
    pub async fn find_project_at(&self, path: &str) -> Result<Option<Project>, Error> {
        let target = Target::new(["projects"]).with("path", Some(path));
        let found: List<Project> = self.get(target).await?;
        Ok(found.data.into_iter().next())
    }

    pub fn list_threads(&self, which: &Threads) -> ResponseFuture<'_, List<Thread>> {
        let target = Target::new(["threads"])
            .with("project", which.project.as_deref())
            .with("state", which.state.as_deref())
            .page(&which.page);
        self.get(target)
    }

    pub fn list_sessions(&self, which: &Sessions) -> ResponseFuture<'_, List<Session>> {
        let status = (!which.status.is_empty()).then(|| which.status.join(","));
        let target = Target::new(["sessions"])
            .with("all", which.all.then_some("true"))
            .with("project", which.project.as_deref())
            .with("thread", which.thread.as_deref())
            .with("status", status)
            .page(&which.page);
        self.get(target)
    }

    /// The session as recorded and observed, without a look into its workspace.
    pub fn get_session(&self, session: &str) -> ResponseFuture<'_, Session> {
        let target = Target::new(["sessions", session]);
        self.get(target.with("quick", Some("true")))
    }

    pub fn list_receipts(&self, session: &str, page: &Page) -> ResponseFuture<'_, List<Receipt>> {
        self.get(Target::new(["sessions", session, "receipts"]).page(page))
    }

    pub fn interrupt(&self, session: &str, key: &IdempotencyKey) -> ResponseFuture<'_, Session> {
        let target = Target::new(["sessions", session, "interrupt"]);
        self.call(Method::POST, target, Some(&Interrupt {}), Some(key))
    }

    /// Takes no key: a hook that is called twice happened twice.
    pub fn hook(&self, session: &str, body: &Hook) -> ResponseFuture<'_, HookTaken> {
        let target = Target::new(["sessions", session, "hook"]);
        self.call(Method::POST, target, Some(body), None)
    }

    /// The screen, with what the agent's rules make of it.
    pub fn explain_screen(&self, session: &str) -> ResponseFuture<'_, Screen> {
        let target = Target::new(["sessions", session, "screen"]);
        self.get(target.with("explain", Some("true")))
    }

    pub fn diff(&self, session: &str, stat: bool) -> ResponseFuture<'_, Diff> {
        let target = Target::new(["sessions", session, "diff"]);
        self.get(target.with("stat", stat.then_some("true")))
    }

    /// The agents that a project can use; their programs are searched in `path`.
    pub fn list_agents(
        &self,
        project: Option<&str>,
        path: Option<&str>,
    ) -> ResponseFuture<'_, List<Agent>> {
        let target = Target::new(["agents"])
            .with("project", project)
            .with("path", path);
        self.get(target)
    }

    pub fn list_events(&self, which: &Events) -> ResponseFuture<'_, List<Event>> {
        let target = Target::new(["events"])
            .with("since", which.since)
            .with("session", which.session.as_deref())
            .with("limit", which.limit);
        self.get(target)
    }

    pub fn list_tokens(&self, page: &Page) -> ResponseFuture<'_, List<Token>> {
        self.get(Target::new(["tokens"]).page(page))
    }

    pub fn list_messages(
        &self,
        session: &str,
        which: &Messages,
    ) -> ResponseFuture<'_, List<Message>> {
        let target = Target::new(["sessions", session, "transcript"])
            .with("order", which.newest_first.then_some("newest"))
            .with("view", which.model.then_some("model"))
            .page(&which.page);
        self.get(target)
    }

    /// The ids of the messages make it safe to repeat. With a key the daemon also keeps the answer.
    pub fn append(
        &self,
        session: &str,
        body: &Append,
        key: Option<&IdempotencyKey>,
    ) -> ResponseFuture<'_, Appended> {
        let target = Target::new(["sessions", session, "transcript"]);
        self.call(Method::POST, target, Some(body), key)
    }

    /// Takes no key: the daemon passes a delta to the current followers and does not store it.
    pub fn pass_delta(&self, session: &str, body: &Delta) -> ResponseFuture<'_, DeltaPassed> {
        let target = Target::new(["sessions", session, "transcript", "deltas"]);
        self.call(Method::POST, target, Some(body), None)
    }

    pub fn hydrate(&self, session: &str, key: &IdempotencyKey) -> ResponseFuture<'_, Hydrated> {
        let target = Target::new(["sessions", session, "transcript", "hydrate"]);
        self.call(Method::POST, target, Some(&Hydrate {}), Some(key))
    }

    pub fn search_transcripts(&self, which: &TranscriptSearch) -> ResponseFuture<'_, List<Hit>> {
        let target = Target::new(["transcripts", "search"])
            .with("q", Some(&which.text))
            .with("session", which.session.as_deref())
            .with("project", which.project.as_deref())
            .with("role", which.role.as_deref())
            .with("since", which.since.as_deref())
            .page(&which.page);
        self.get(target)
    }
}
