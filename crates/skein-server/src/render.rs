//! Domain types as wire types.

pub(crate) mod export;
mod fleet;
mod session;
pub(crate) mod transcript;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use skein_domain as domain;
use skein_domain::{TenantId, ThreadState, Timestamp};
use skein_fleet::FleetRequests;
use skein_ledger::{Answer, RequestOutcome};
use skein_store::RecordPage;
use skein_wire as wire;

pub(crate) use fleet::{agent, receipt, screen_explanation, terminal, why};
pub(crate) use session::{damaged_session, session, session_in_list, tree};

pub(crate) fn time(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.as_micros()) {
        Ok(at) => at.to_string(),
        // Beyond the year 9999; a number is better than a wrong date.
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
        allow: t.rights.iter().map(|r| r.as_str().to_owned()).collect(),
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
        // The ledger wrote it as JSON; damaged JSON is shown as text.
        data: serde_json::from_str(&e.data).unwrap_or_else(|_| Value::String(e.data.clone())),
        prev_hash: hex(&e.prev_hash),
        hash: hex(&e.hash),
    }
}

pub(crate) fn list<T, U>(page: RecordPage<T>, render: impl Fn(&T) -> U) -> wire::List<U> {
    for record in &page.damaged {
        let (what, id, reason) = (record.what, &record.id, &record.reason);
        tracing::warn!(
            what,
            id,
            reason,
            "a record cannot be read and is left out of a list"
        );
    }
    wire::List {
        data: page.items.iter().map(render).collect(),
        next: page.next.map(|n| n.to_string()),
    }
}

/// The answer to a change, which is also kept for a repeated request.
pub(crate) fn outcome(requests: &FleetRequests, outcome: &RequestOutcome) -> Value {
    let tenant = requests.ledger.tenant();
    let value = match outcome {
        RequestOutcome::Project(p) => serde_json::to_value(project(tenant, p)),
        RequestOutcome::Thread(t) => serde_json::to_value(thread(tenant, t)),
        RequestOutcome::Session(s) => serde_json::to_value(session(requests, s)),
        RequestOutcome::Sessions(all) => serde_json::to_value(wire::List {
            data: all.iter().map(|s| session(requests, s)).collect::<Vec<_>>(),
            next: None,
        }),
        RequestOutcome::Receipt(r) => serde_json::to_value(receipt(r)),
        RequestOutcome::Summary(s) => serde_json::to_value(summary(s)),
        RequestOutcome::Token(t) => serde_json::to_value(token(tenant, t)),
        // Only a hash of the secret is ever kept (L14); a replay says that it was shown before.
        RequestOutcome::NewToken { token: t, .. } => serde_json::to_value(wire::TokenSecret {
            token: token(tenant, t),
            secret: "(shown once, when the token was made)".into(),
        }),
        RequestOutcome::Archived(sessions) => serde_json::to_value(wire::RetentionReport {
            archived: sessions.iter().map(ToString::to_string).collect(),
        }),
        RequestOutcome::Rendered(value) => return value.clone(),
        RequestOutcome::Sealed { sealed, dropped } => serde_json::to_value(wire::SealReport {
            sealed: *sealed,
            dropped: *dropped,
        }),
        RequestOutcome::Transcript { session, done } => return transcript::done(session, done),
    };
    // The wire types hold only strings, numbers and lists of them.
    value.unwrap_or_else(|e| json!({"unrenderable": e.to_string()}))
}

/// An answer on the wire, fresh or replayed.
pub(crate) fn answer(status: StatusCode, requests: &FleetRequests, answer: Answer) -> Response {
    match answer {
        Answer::Fresh(RequestOutcome::NewToken { token: t, secret }) => (
            status,
            Json(wire::TokenSecret {
                token: token(requests.ledger.tenant(), &t),
                secret,
            }),
        )
            .into_response(),
        Answer::Fresh(fresh) => (status, Json(outcome(requests, &fresh))).into_response(),
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
