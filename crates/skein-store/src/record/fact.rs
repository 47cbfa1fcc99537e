//! How facts are written into events. The names of the fields are part of the interface.

use serde_json::{Value, json};
use skein_domain::fact::{Change, Place, RewoundTo, SagaChange};
use skein_domain::{Allowance, Fact, Outcome, Reason, Right, SagaId, SagaKind, Usage};

/// Where an event belongs.
#[derive(Default)]
pub(crate) struct Where {
    pub(crate) project: Option<String>,
    pub(crate) thread: Option<String>,
    pub(crate) session: Option<String>,
}

impl From<&Place> for Where {
    fn from(place: &Place) -> Self {
        Self {
            project: Some(place.project.to_string()),
            thread: Some(place.thread.to_string()),
            session: Some(place.session.to_string()),
        }
    }
}

/// An event's place and data. The names of the fields are part of the interface.
pub(crate) fn fact(fact: &Fact) -> (Where, Value) {
    let in_project = |project: &skein_domain::ProjectId| Where {
        project: Some(project.to_string()),
        ..Where::default()
    };
    let in_thread = |project: &skein_domain::ProjectId, thread: &skein_domain::ThreadId| Where {
        project: Some(project.to_string()),
        thread: Some(thread.to_string()),
        session: None,
    };
    match fact {
        Fact::ProjectAdded {
            project,
            name,
            path,
            prefix,
        } => (
            in_project(project),
            json!({"name": name.as_str(), "path": path, "prefix": prefix}),
        ),
        Fact::ProjectChanged {
            project,
            limits,
            retention,
        } => (
            in_project(project),
            json!({
                "depth": limits.depth, "width": limits.width,
                "idle_ttl_seconds": retention.idle_ttl_seconds, "max_ended": retention.max_ended,
            }),
        ),
        Fact::ProjectRemoved { project } => (in_project(project), json!({})),
        Fact::ThreadOpened {
            project,
            thread,
            title,
        } => (in_thread(project, thread), json!({"title": title.as_str()})),
        Fact::ThreadArchived { project, thread }
        | Fact::ThreadReopened { project, thread }
        | Fact::ThreadDeleted { project, thread } => (in_thread(project, thread), json!({})),
        Fact::Session {
            place,
            change: what,
        } => (place.into(), change(what)),
        Fact::TokenMade {
            token,
            name,
            role,
            rights,
        } => (
            Where::default(),
            json!({
                "token": token.as_str(), "name": name.as_str(), "role": role.as_str(),
                "allow": rights.iter().map(Right::as_str).collect::<Vec<_>>(),
            }),
        ),
        Fact::TokenRevoked { token } => (Where::default(), json!({"token": token.as_str()})),
        Fact::Refused {
            place,
            op,
            rule,
            message,
        } => (
            place.as_ref().map(Where::from).unwrap_or_default(),
            json!({"op": op, "rule": rule, "message": message}),
        ),
        Fact::ForeignId { what, id, asked_by } => (
            Where::default(),
            json!({"what": what, "id": id, "asked_by": asked_by}),
        ),
        Fact::EventsSealed { from, to, dropped } => (
            Where::default(),
            json!({"from": from, "to": to, "dropped": dropped}),
        ),
    }
}

fn allowance(a: &Allowance) -> Value {
    json!({"tokens": a.tokens, "cost_micros": a.cost_micros})
}

fn usage(u: &Usage) -> Value {
    json!({
        "input_tokens": u.input_tokens, "output_tokens": u.output_tokens, "cost_micros": u.cost_micros,
    })
}

fn saga(id: &SagaId, kind: SagaKind, change: &SagaChange) -> Value {
    let (id, kind) = (id.as_str(), kind.as_str());
    match change {
        SagaChange::Queued | SagaChange::Done | SagaChange::Undone => {
            json!({"saga": id, "saga_kind": kind})
        }
        SagaChange::Began { step } => {
            json!({"saga": id, "saga_kind": kind, "step": step.as_str()})
        }
        SagaChange::Failed {
            step,
            kind: error,
            why,
        } => json!({
            "saga": id, "saga_kind": kind, "step": step.as_str(), "error_kind": error.as_str(), "why": why.as_str(),
        }),
        SagaChange::UndoFailed { step, why } | SagaChange::LeftOut { step, why } => {
            json!({"saga": id, "saga_kind": kind, "step": step.as_str(), "why": why.as_str()})
        }
    }
}

fn change(change: &Change) -> Value {
    match change {
        Change::Spawned {
            name,
            owner,
            parent,
            depth,
            allowance: budget,
        } => json!({
            "display_name": name, "owner": owner.to_string(), "parent": parent.as_ref().map(ToString::to_string),
            "depth": depth, "budget": allowance(budget),
        }),
        Change::TurnBegan { run } | Change::Restored { run } => json!({"run": run}),
        Change::TurnEnded { usage: spent } | Change::UsageRead { usage: spent } => usage(spent),
        Change::Asked(question) => {
            json!({"question": question.text.as_str(), "options": super::strings(&question.options)})
        }
        Change::Answered { receipt, text } => {
            json!({"receipt": receipt.as_str(), "text": text.as_str()})
        }
        Change::Withdrawn => json!({}),
        Change::Limited(limit) => json!({
            "until": limit.until.to_string(), "text": limit.text.as_ref().map(|t| t.as_str()),
        }),
        Change::LimitOver { resumed } => json!({"resumed": resumed}),
        Change::Ended {
            outcome,
            reason,
            live_children,
        } => json!({
            "outcome": outcome.as_str(), "reason": reason.as_ref().map(ToString::to_string), "live_children": live_children,
        }),
        Change::BudgetReturned { child, unspent } => {
            json!({"child": child.as_str(), "unspent": allowance(unspent)})
        }
        Change::Archived { why } => json!({"why": why}),
        Change::Locked { handoff, mode, to } => {
            json!({"handoff": handoff.as_str(), "mode": mode, "to": super::strings(to)})
        }
        Change::HandedOver {
            handoff,
            from,
            to,
            owner_version,
        } => json!({
            "handoff": handoff.as_str(), "from": from.to_string(), "to": to.to_string(), "owner_version": owner_version,
        }),
        Change::Reverted { handoff, why } => json!({"handoff": handoff.as_str(), "why": why}),
        Change::Broadcast {
            handoff,
            children,
            owner_version,
        } => json!({
            "handoff": handoff.as_str(), "owner_version": owner_version,
            "children": children.iter().map(|(s, a)| json!({"session": s.as_str(), "owner": a.to_string()})).collect::<Vec<_>>(),
        }),
        Change::BroadcastFinished { handoff, report } => json!({
            "handoff": handoff.as_str(),
            "recipients": report.recipients.iter().map(|(s, a, o)| json!({
                "session": s.as_str(), "owner": a.to_string(), "outcome": o.map(Outcome::as_str),
            })).collect::<Vec<_>>(),
        }),
        Change::Merged { child } => json!({"child": child.as_str()}),
        Change::Summarized { summary, based_on } => {
            json!({"summary": summary.as_str(), "based_on": based_on.as_ref().map(ToString::to_string)})
        }
        Change::Saga {
            saga: id,
            kind,
            change,
        } => saga(id, *kind, change),
        Change::WorkspaceReady { kind, path, branch } => {
            json!({"kind": kind.as_str(), "path": path, "branch": branch})
        }
        Change::WorkspaceRemoved { path } | Change::Adopted { path } => json!({"path": path}),
        Change::BackedUp { name, commit } => json!({"ref": name, "commit": commit}),
        Change::Launched {
            run,
            runtime,
            fresh,
        } => json!({
            "run": run, "runtime": runtime.as_str(), "fresh": fresh.as_ref().map(Reason::as_str),
        }),
        // Never the text: it may hold what is nobody's business but the agent's (L14).
        Change::Sent {
            receipt,
            purpose,
            from,
            bytes,
        } => json!({
            "receipt": receipt.as_str(), "purpose": purpose.as_str(),
            "from": from.as_ref().map(ToString::to_string), "bytes": bytes,
        }),
        Change::Delivered {
            receipt,
            state,
            note,
        } => json!({
            "receipt": receipt.as_str(), "state": state.as_str(), "note": note.as_ref().map(Reason::as_str),
        }),
        Change::Interrupted { run } => json!({"run": run}),
        Change::Named { native } => json!({"native": native.as_str()}),
        Change::ForkBegan { fork } => json!({"fork": fork.as_str()}),
        Change::ForkUndone { fork, why } => json!({"fork": fork.as_str(), "why": why}),
        Change::Forked(from) => json!({
            "from": from.session.as_str(), "message": from.message.as_ref().map(ToString::to_string),
        }),
        Change::TranscriptRewound { to, dropped } => match to {
            RewoundTo::After(message) => json!({"to": message.as_str(), "dropped": dropped}),
            RewoundTo::Before(reply) => json!({"reply": reply.as_str(), "dropped": dropped}),
        },
        Change::TranscriptFlushed {
            entries,
            segments,
            kept_hot,
        } => json!({"entries": entries, "segments": segments, "kept_hot": kept_hot}),
        Change::TranscriptHydrated => json!({}),
        Change::TranscriptImported {
            format,
            added,
            already,
        } => json!({"format": format, "added": added, "already": already}),
    }
}
