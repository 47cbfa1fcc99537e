//! How sessions with an agent are written: the first form of a session and its gear. Sessions without
//! gear keep the first form.

use serde::{Deserialize, Serialize};
use skein_domain::{
    Backup, EnvVar, Gear, LaunchSettings, Limit, Origin, Permission, PromptVia, ReadFile,
    RuntimeKind, SagaKind, Session, Spent, Timestamp, Usage, Via, Workspace, WorkspaceKind,
    WorkspaceState,
};

use super::{SessionV1, form, parse, parse_opt, unknown_form, word};
use crate::backend::Result;

#[derive(Serialize, Deserialize)]
struct SessionV2 {
    #[serde(flatten)]
    base: SessionV1,
    gear: GearV1,
}

#[derive(Serialize, Deserialize)]
struct GearV1 {
    runtime: String,
    launch: LaunchV1,
    workspace: WorkspaceV1,
    handle: Option<String>,
    native: Option<String>,
    saga: Option<AtWorkV1>,
    input: u64,
    /// Left out where there is none: forms from before it was written have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spent: Option<SpentV1>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    read: Vec<ReadV1>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<LimitV1>,
    note: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct LimitV1 {
    until: i64,
    text: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ReadV1 {
    path: String,
    kind: String,
    position: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct SpentV1 {
    run: u64,
    /// Input tokens, output tokens, millionths of a dollar.
    pieces: [u64; 3],
    total: [u64; 3],
    #[serde(default, skip_serializing_if = "is_nothing")]
    conversation: [u64; 3],
    #[serde(default, skip_serializing_if = "is_nothing")]
    before: [u64; 3],
}

#[derive(Serialize, Deserialize)]
struct LaunchV1 {
    command: Option<String>,
    prompt_via: Option<String>,
    model: Option<String>,
    permission: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    #[serde(default, skip_serializing_if = "is_not")]
    resume_after_limit: bool,
    /// Kept for restores only; no event and no answer shows the values (L14).
    env: Vec<(String, String)>,
    path: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct WorkspaceV1 {
    kind: String,
    path: String,
    repo: Option<String>,
    branch: Option<String>,
    branch_made: bool,
    base: Option<String>,
    base_commit: Option<String>,
    origin: String,
    state: String,
    backups: Vec<BackupV1>,
}

#[derive(Serialize, Deserialize)]
struct BackupV1 {
    n: u64,
    commit: String,
    at: i64,
}

#[derive(Serialize, Deserialize)]
struct AtWorkV1 {
    id: String,
    kind: String,
}

pub(crate) fn encode(session: &Session) -> Result<String> {
    let base = SessionV1::from(session);
    match &session.gear {
        None => super::encode(&base),
        Some(gear) => super::encode(&SessionV2 {
            base: SessionV1 { v: 2, ..base },
            gear: gear.as_ref().into(),
        }),
    }
}

pub(crate) fn decode(body: &str) -> Result<Session> {
    match form("session", body)? {
        1 => super::decode::<SessionV1, _>("session", body),
        2 => super::decode::<SessionV2, _>("session", body),
        v => Err(unknown_form("session", v)),
    }
}

impl TryFrom<SessionV2> for Session {
    type Error = String;
    fn try_from(r: SessionV2) -> std::result::Result<Self, String> {
        Ok(Self {
            gear: Some(Box::new(r.gear.try_into()?)),
            ..r.base.try_into()?
        })
    }
}

fn text<T: ToString>(value: Option<&T>) -> Option<String> {
    value.map(ToString::to_string)
}

impl From<&Gear> for GearV1 {
    fn from(g: &Gear) -> Self {
        Self {
            runtime: g.runtime.as_str().into(),
            launch: (&g.launch).into(),
            workspace: (&g.workspace).into(),
            handle: text(g.handle.as_ref()),
            native: text(g.native.as_ref()),
            saga: g.saga.as_ref().map(|(id, kind)| AtWorkV1 {
                id: id.to_string(),
                kind: kind.as_str().into(),
            }),
            input: g.input,
            spent: g.spent.map(|s| SpentV1 {
                run: s.run,
                pieces: numbers(s.pieces),
                total: numbers(s.total),
                conversation: numbers(s.conversation),
                before: numbers(s.before),
            }),
            read: g
                .read
                .iter()
                .map(|r| ReadV1 {
                    path: r.path.clone(),
                    kind: r.kind.clone(),
                    position: r.position,
                    inode: r.inode,
                    said: r.said,
                })
                .collect(),
            limit: g.limit.as_ref().map(|l| LimitV1 {
                until: l.until.as_micros(),
                text: text(l.text.as_ref()),
            }),
            note: text(g.note.as_ref()),
        }
    }
}

fn limit(r: LimitV1) -> std::result::Result<Limit, String> {
    Ok(Limit {
        until: Timestamp::from_micros(r.until),
        text: parse_opt(r.text.as_ref())?,
    })
}

impl TryFrom<GearV1> for Gear {
    type Error = String;
    fn try_from(r: GearV1) -> std::result::Result<Self, String> {
        let saga = |at_work: AtWorkV1| {
            let kind = word(&at_work.kind, SagaKind::parse(&at_work.kind))?;
            Ok::<_, String>((parse(&at_work.id)?, kind))
        };
        Ok(Self {
            runtime: word(&r.runtime, RuntimeKind::parse(&r.runtime))?,
            launch: r.launch.try_into()?,
            workspace: r.workspace.try_into()?,
            handle: parse_opt(r.handle.as_ref())?,
            native: parse_opt(r.native.as_ref())?,
            saga: r.saga.map(saga).transpose()?,
            input: r.input,
            spent: r.spent.map(|s| Spent {
                run: s.run,
                pieces: usage(s.pieces),
                total: usage(s.total),
                conversation: usage(s.conversation),
                before: usage(s.before),
            }),
            read: r
                .read
                .into_iter()
                .map(|r| ReadFile {
                    path: r.path,
                    kind: r.kind,
                    position: r.position,
                    inode: r.inode,
                    said: r.said,
                })
                .collect(),
            limit: r.limit.map(limit).transpose()?,
            note: parse_opt(r.note.as_ref())?,
        })
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "called by serde, which has references only"
)]
fn is_not(flag: &bool) -> bool {
    !*flag
}

fn is_nothing(numbers: &[u64; 3]) -> bool {
    numbers.iter().all(|n| *n == 0)
}

fn numbers(usage: Usage) -> [u64; 3] {
    [usage.input_tokens, usage.output_tokens, usage.cost_micros]
}

fn usage([input_tokens, output_tokens, cost_micros]: [u64; 3]) -> Usage {
    Usage {
        input_tokens,
        output_tokens,
        cost_micros,
    }
}

impl From<&LaunchSettings> for LaunchV1 {
    fn from(l: &LaunchSettings) -> Self {
        let pair = |var: &EnvVar| (var.name().to_owned(), var.value().to_owned());
        Self {
            command: text(l.command.as_ref()),
            prompt_via: l.prompt_via.map(|v| v.as_str().into()),
            model: text(l.model.as_ref()),
            permission: l.permission.as_str().into(),
            via: (l.via != Via::Terminal).then(|| l.via.as_str().into()),
            resume_after_limit: l.resume_after_limit,
            env: l.env.iter().map(pair).collect(),
            path: l.path.clone(),
        }
    }
}

impl TryFrom<LaunchV1> for LaunchSettings {
    type Error = String;
    fn try_from(r: LaunchV1) -> std::result::Result<Self, String> {
        let via = |v: String| word(&v, PromptVia::parse(&v));
        Ok(Self {
            command: parse_opt(r.command.as_ref())?,
            prompt_via: r.prompt_via.map(via).transpose()?,
            model: parse_opt(r.model.as_ref())?,
            permission: word(&r.permission, Permission::parse(&r.permission))?,
            via: match r.via {
                Some(via) => word(&via, Via::parse(&via))?,
                None => Via::Terminal,
            },
            resume_after_limit: r.resume_after_limit,
            env: r
                .env
                .iter()
                .map(|(name, value)| EnvVar::new(name, value).map_err(|e| e.to_string()))
                .collect::<std::result::Result<_, _>>()?,
            path: r.path,
        })
    }
}

impl From<&Workspace> for WorkspaceV1 {
    fn from(w: &Workspace) -> Self {
        let backup = |b: &Backup| BackupV1 {
            n: b.n,
            commit: b.commit.to_string(),
            at: b.at.as_micros(),
        };
        Self {
            kind: w.kind.as_str().into(),
            path: w.path.to_string(),
            repo: text(w.repo.as_ref()),
            branch: text(w.branch.as_ref()),
            branch_made: w.branch_made,
            base: text(w.base.as_ref()),
            base_commit: text(w.base_commit.as_ref()),
            origin: w.origin.as_str().into(),
            state: w.state.as_str().into(),
            backups: w.backups.iter().map(backup).collect(),
        }
    }
}

impl TryFrom<WorkspaceV1> for Workspace {
    type Error = String;
    fn try_from(r: WorkspaceV1) -> std::result::Result<Self, String> {
        let backup = |b: &BackupV1| {
            Ok::<_, String>(Backup {
                n: b.n,
                commit: parse(&b.commit)?,
                at: Timestamp::from_micros(b.at),
            })
        };
        Ok(Self {
            kind: word(&r.kind, WorkspaceKind::parse(&r.kind))?,
            path: parse(&r.path)?,
            repo: parse_opt(r.repo.as_ref())?,
            branch: parse_opt(r.branch.as_ref())?,
            branch_made: r.branch_made,
            base: parse_opt(r.base.as_ref())?,
            base_commit: parse_opt(r.base_commit.as_ref())?,
            origin: word(&r.origin, Origin::parse(&r.origin))?,
            state: word(&r.state, WorkspaceState::parse(&r.state))?,
            backups: r
                .backups
                .iter()
                .map(backup)
                .collect::<std::result::Result<_, _>>()?,
        })
    }
}
