//! Domain types as wire types.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use skein_domain as domain;
use skein_domain::budget;
use skein_domain::{Phase, Status, TenantId, ThreadState, Timestamp};
use skein_engine::{Answer, Outcome};
use skein_store::Page;
use skein_wire as wire;

pub(crate) fn time(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.as_micros()) {
        Ok(at) => at.to_string(),
        // Beyond the year 9999; a number is more honest than a wrong date.
        Err(_) => at.as_micros().to_string(),
    }
}

fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

pub(crate) fn project(tenant: &TenantId, p: &domain::Project) -> wire::Project {
    wire::Project {
        id: p.id.to_string(),
        tenant: tenant.to_string(),
        name: p.name.to_string(),
        path: p.path.clone(),
        prefix: p.prefix.to_string(),
        limits: wire::Limits {
            depth: p.limits.depth,
            width: p.limits.width,
        },
        retention: wire::Retention {
            idle_ttl_seconds: p.retention.idle_ttl_seconds,
            max_ended: p.retention.max_ended,
        },
        version: p.version,
        created_at: time(p.created_at),
        updated_at: time(p.updated_at),
    }
}

pub(crate) fn thread(tenant: &TenantId, t: &domain::Thread) -> wire::Thread {
    wire::Thread {
        id: t.id.to_string(),
        tenant: tenant.to_string(),
        project: t.project.to_string(),
        title: t.title.to_string(),
        state: t.state.as_str().into(),
        version: t.version,
        created_at: time(t.created_at),
        updated_at: time(t.updated_at),
        archived_at: match t.state {
            ThreadState::Open => None,
            ThreadState::Archived { at } => Some(time(at)),
        },
    }
}

fn available(a: &budget::Account, spent: u64) -> Option<u64> {
    let taken = spent.saturating_add(a.reserved).saturating_add(a.children);
    a.limit.map(|limit| limit.saturating_sub(taken))
}

fn tokens(a: &budget::Account, spent: u64) -> wire::TokenAccount {
    wire::TokenAccount {
        limit: a.limit,
        spent,
        reserved: a.reserved,
        children: a.children,
        available: available(a, spent),
    }
}

fn cost(a: &budget::Account, spent: u64) -> wire::CostAccount {
    wire::CostAccount {
        limit: a.limit.map(dollars),
        spent: dollars(spent),
        reserved: dollars(a.reserved),
        children: dollars(a.children),
        available: available(a, spent).map(dollars),
    }
}

pub(crate) fn session(tenant: &TenantId, s: &domain::Session) -> wire::Session {
    let (status, status_reason) = Status::derive(&s.phase);
    let outcome = match &s.phase {
        Phase::Ended { outcome, .. } => Some(*outcome),
        Phase::Archived { outcome } => *outcome,
        _ => None,
    };
    let (question, waits_for) = match &s.phase {
        Phase::AwaitingInput(q) => (
            Some(wire::Question {
                text: q.text.to_string(),
                options: q.options.iter().map(ToString::to_string).collect(),
            }),
            None,
        ),
        Phase::AwaitingMerge(broadcast) => (None, Some(broadcast)),
        _ => (None, None),
    };
    wire::Session {
        id: s.id.to_string(),
        tenant: tenant.to_string(),
        project: s.project.to_string(),
        thread: s.thread.to_string(),
        parent: s.parent.as_ref().map(ToString::to_string),
        depth: s.depth,
        owner: s.owner.to_string(),
        owner_version: s.owner_version,
        previous_owners: s.previous_owners.iter().map(ToString::to_string).collect(),
        version: s.version,
        phase: s.phase.name().as_str().into(),
        status: status.as_str().into(),
        status_reason,
        outcome: outcome.map(|o| o.as_str().into()),
        question,
        agent: s.agent.to_string(),
        runtime: wire::Runtime {
            kind: "none".into(),
            state: "unobserved".into(),
            pid: None,
        },
        workspace: wire::Workspace {
            kind: "none".into(),
            path: None,
            branch: None,
            dirty: false,
        },
        run: s.run,
        display_name: s.task.display_name(),
        turns: s.turns,
        task: Some(s.task.to_string()),
        usage: wire::Usage {
            input_tokens: s.usage.input_tokens,
            output_tokens: s.usage.output_tokens,
            cost_usd: dollars(s.usage.cost_micros),
        },
        budget: wire::BudgetState {
            tokens: tokens(&s.budget.tokens, s.usage.tokens()),
            cost: cost(&s.budget.cost, s.usage.cost_micros),
        },
        broadcast: waits_for.or(s.broadcast.as_ref()).map(ToString::to_string),
        merges: s
            .merges
            .iter()
            .map(|m| wire::MergeDone {
                child: m.child.to_string(),
                at: time(m.at),
            })
            .collect(),
        summary: s.summary.as_ref().map(ToString::to_string),
        created_at: time(s.created_at),
        updated_at: time(s.updated_at),
        last_activity_at: time(s.last_activity_at),
    }
}

/// Lists leave the task out: a page of long ones would be large, and its first line is the display name.
pub(crate) fn session_in_list(tenant: &TenantId, s: &domain::Session) -> wire::Session {
    wire::Session {
        task: None,
        ..session(tenant, s)
    }
}

pub(crate) fn receipt(r: &domain::Receipt) -> wire::Receipt {
    wire::Receipt {
        id: r.id.to_string(),
        session: r.session.to_string(),
        key: r.key.as_ref().map(ToString::to_string),
        state: r.state.as_str().into(),
        attempts: r.attempts,
        history: r
            .history
            .iter()
            .map(|(state, at)| wire::ReceiptStep {
                state: state.as_str().into(),
                at: time(*at),
            })
            .collect(),
    }
}

pub(crate) fn summary(s: &domain::Summary) -> wire::Summary {
    let deliverable = |d: &domain::Deliverable| match d.clone() {
        domain::Deliverable::File { path, sha256, size } => {
            wire::Deliverable::File { path, sha256, size }
        }
        domain::Deliverable::Message { session, message } => wire::Deliverable::Message {
            session: session.to_string(),
            message,
        },
        domain::Deliverable::Summary { session } => wire::Deliverable::Summary {
            session: session.to_string(),
        },
        domain::Deliverable::Blob {
            reference,
            media_type,
        } => wire::Deliverable::Blob {
            reference,
            media_type,
        },
    };
    wire::Summary {
        id: s.id.to_string(),
        session: s.session.to_string(),
        outcome: s.outcome.as_str().into(),
        text: s.text.clone(),
        key_decisions: s.key_decisions.clone(),
        deliverables: s.deliverables.iter().map(deliverable).collect(),
        based_on: s.based_on.as_ref().map(ToString::to_string),
        at: time(s.at),
    }
}

pub(crate) fn token(tenant: &TenantId, t: &domain::Token) -> wire::Token {
    wire::Token {
        id: t.id.to_string(),
        tenant: tenant.to_string(),
        name: t.name.to_string(),
        role: t.role.as_str().into(),
        actor: t.actor.as_ref().map(ToString::to_string),
        created_at: time(t.created_at),
        expires_at: t.expires_at.map(time),
        revoked_at: t.revoked_at.map(time),
    }
}

pub(crate) fn event(tenant: &TenantId, e: &skein_store::Event) -> wire::Event {
    let hex = |hash: &[u8; 32]| blake3::Hash::from(*hash).to_hex().to_string();
    wire::Event {
        seq: e.seq,
        at: time(e.at),
        tenant: tenant.to_string(),
        kind: e.kind.clone(),
        project: e.project.clone(),
        thread: e.thread.clone(),
        session: e.session.clone(),
        actor: e.actor.clone(),
        // Written by us as JSON; shown as text should it ever be damaged.
        data: serde_json::from_str(&e.data).unwrap_or_else(|_| Value::String(e.data.clone())),
        prev_hash: hex(&e.prev_hash),
        hash: hex(&e.hash),
    }
}

pub(crate) fn tree(tenant: &TenantId, t: &skein_engine::Tree) -> wire::Tree {
    wire::Tree {
        ancestors: t
            .ancestors
            .iter()
            .map(|s| session_in_list(tenant, s))
            .collect(),
        root: node(tenant, &t.root),
        truncated: t.truncated,
    }
}

fn node(tenant: &TenantId, n: &skein_engine::Node) -> wire::TreeNode {
    wire::TreeNode {
        session: session_in_list(tenant, &n.session),
        children: n.children.iter().map(|c| node(tenant, c)).collect(),
    }
}

pub(crate) fn list<T, U>(page: Page<T>, render: impl Fn(&T) -> U) -> wire::List<U> {
    wire::List {
        data: page.items.iter().map(render).collect(),
        next: page.next.map(|n| n.to_string()),
    }
}

/// What a change answers; also what is kept for a repeated request.
pub(crate) fn outcome(tenant: &TenantId, outcome: &Outcome) -> Value {
    let value = match outcome {
        Outcome::Project(p) => serde_json::to_value(project(tenant, p)),
        Outcome::Thread(t) => serde_json::to_value(thread(tenant, t)),
        Outcome::Session(s) => serde_json::to_value(session(tenant, s)),
        Outcome::Sessions(all) => serde_json::to_value(wire::List {
            data: all.iter().map(|s| session(tenant, s)).collect::<Vec<_>>(),
            next: None,
        }),
        Outcome::Receipt(r) => serde_json::to_value(receipt(r)),
        Outcome::Summary(s) => serde_json::to_value(summary(s)),
        Outcome::Token(t) => serde_json::to_value(token(tenant, t)),
        // Only a hash of the secret is ever kept (L14); a replay says that it was shown before.
        Outcome::NewToken { token: t, .. } => serde_json::to_value(wire::TokenSecret {
            token: token(tenant, t),
            secret: "(shown once, when the token was made)".into(),
        }),
        Outcome::Archived(sessions) => serde_json::to_value(wire::RetentionReport {
            archived: sessions.iter().map(ToString::to_string).collect(),
        }),
        Outcome::Rendered(value) => return value.clone(),
        Outcome::Sealed { sealed, dropped } => serde_json::to_value(wire::SealReport {
            sealed: *sealed,
            dropped: *dropped,
        }),
    };
    // The wire types hold only strings, numbers and lists of them.
    value.unwrap_or_else(|e| json!({"unrenderable": e.to_string()}))
}

/// An answer on the wire, fresh or replayed.
pub(crate) fn answer(status: StatusCode, tenant: &TenantId, answer: Answer) -> Response {
    match answer {
        Answer::Fresh(Outcome::NewToken { token: t, secret }) => (
            status,
            Json(wire::TokenSecret {
                token: token(tenant, &t),
                secret,
            }),
        )
            .into_response(),
        Answer::Fresh(fresh) => (status, Json(outcome(tenant, &fresh))).into_response(),
        Answer::Replayed(body) => {
            let headers = [
                (
                    header::CONTENT_TYPE,
                    HeaderValue::from_static("application/json"),
                ),
                (
                    header::HeaderName::from_static(wire::REPLAYED_HEADER),
                    HeaderValue::from_static("true"),
                ),
            ];
            (status, headers, body).into_response()
        }
    }
}
