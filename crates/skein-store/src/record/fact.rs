//! The JSON form of facts in events. Field names are part of the interface.

use serde_json::{Value, json};
use skein_domain::fact::{FactScope, RewindTarget, SagaChange, SessionChange};
use skein_domain::{Allowance, Fact, Outcome, Reason, Right, SagaId, SagaKind, Usage};

/// The project, thread and session of an event.
#[derive(Default)]
pub(crate) struct EventScope {
    pub(crate) project: Option<String>,
    pub(crate) thread: Option<String>,
    pub(crate) session: Option<String>,
}

impl From<&FactScope> for EventScope {
    fn from(place: &FactScope) -> Self {
        Self {
            project: Some(place.project.to_string()),
            thread: Some(place.thread.to_string()),
            session: Some(place.session.to_string()),
        }
    }
}

pub(crate) fn fact(fact: &Fact) -> (EventScope, Value) {
    let in_project = |project: &skein_domain::ProjectId| EventScope {
        project: Some(project.to_string()),
        ..EventScope::default()
    };
    let in_thread =
        |project: &skein_domain::ProjectId, thread: &skein_domain::ThreadId| EventScope {
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
            EventScope::default(),
            json!({
                "token": token.as_str(), "name": name.as_str(), "role": role.as_str(),
                "allow": rights.iter().map(Right::as_str).collect::<Vec<_>>(),
            }),
        ),
        Fact::TokenRevoked { token } => (EventScope::default(), json!({"token": token.as_str()})),
        Fact::Refused {
            place,
            op,
            rule,
            message,
        } => (
            place.as_ref().map(EventScope::from).unwrap_or_default(),
            json!({"op": op, "rule": rule, "message": message}),
        ),
        Fact::ForeignId { what, id, asked_by } => (
            EventScope::default(),
            json!({"what": what, "id": id, "asked_by": asked_by}),
        ),
        Fact::EventsSealed { from, to, dropped } => (
            EventScope::default(),
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

fn change(change: &SessionChange) -> Value {
    match change {
        SessionChange::Spawned {
            name,
            owner,
            parent,
            depth,
            allowance: budget,
        } => json!({
            "display_name": name, "owner": owner.to_string(), "parent": parent.as_ref().map(ToString::to_string),
            "depth": depth, "budget": allowance(budget),
        }),
        SessionChange::TurnBegan { run } | SessionChange::Restored { run } => json!({"run": run}),
        SessionChange::TurnEnded { usage: spent } | SessionChange::UsageRead { usage: spent } => {
            usage(spent)
        }
        SessionChange::Asked(question) => {
            json!({"question": question.text.as_str(), "options": question.options})
        }
        SessionChange::Answered { receipt, text } => {
            json!({"receipt": receipt.as_str(), "text": text.as_str()})
        }
        SessionChange::Withdrawn => json!({}),
        SessionChange::Limited(limit) => json!({
            "until": limit.until.to_string(), "text": limit.text.as_ref().map(|t| t.as_str()),
        }),
        SessionChange::LimitOver { resumed } => json!({"resumed": resumed}),
        SessionChange::Ended {
            outcome,
            reason,
            live_children,
        } => json!({
            "outcome": outcome.as_str(), "reason": reason.as_ref().map(ToString::to_string), "live_children": live_children,
        }),
        SessionChange::BudgetReturned { child, unspent } => {
            json!({"child": child.as_str(), "unspent": allowance(unspent)})
        }
        SessionChange::Archived { why } => json!({"why": why}),
        SessionChange::Locked { handoff, mode, to } => {
            json!({"handoff": handoff.as_str(), "mode": mode, "to": to})
        }
        SessionChange::HandedOver {
            handoff,
            from,
            to,
            owner_version,
        } => json!({
            "handoff": handoff.as_str(), "from": from.to_string(), "to": to.to_string(), "owner_version": owner_version,
        }),
        SessionChange::Reverted { handoff, why } => {
            json!({"handoff": handoff.as_str(), "why": why})
        }
        SessionChange::Broadcast {
            handoff,
            children,
            owner_version,
        } => json!({
            "handoff": handoff.as_str(), "owner_version": owner_version,
            "children": children.iter().map(|(s, a)| json!({"session": s.as_str(), "owner": a.to_string()})).collect::<Vec<_>>(),
        }),
        SessionChange::BroadcastFinished { handoff, report } => json!({
            "handoff": handoff.as_str(),
            "recipients": report.recipients.iter().map(|(s, a, o)| json!({
                "session": s.as_str(), "owner": a.to_string(), "outcome": o.map(Outcome::as_str),
            })).collect::<Vec<_>>(),
        }),
        SessionChange::Merged { child } => json!({"child": child.as_str()}),
        SessionChange::Summarized { summary, based_on } => {
            json!({"summary": summary.as_str(), "based_on": based_on.as_ref().map(ToString::to_string)})
        }
        SessionChange::Saga {
            saga: id,
            kind,
            change,
        } => saga(id, *kind, change),
        SessionChange::WorkspaceReady { kind, path, branch } => {
            json!({"kind": kind.as_str(), "path": path, "branch": branch})
        }
        SessionChange::WorkspaceRemoved { path } | SessionChange::Adopted { path } => {
            json!({"path": path})
        }
        SessionChange::BackedUp { name, commit } => json!({"ref": name, "commit": commit}),
        SessionChange::Launched {
            run,
            runtime,
            fresh,
        } => json!({
            "run": run, "runtime": runtime.as_str(), "fresh": fresh.as_ref().map(Reason::as_str),
        }),
        // Never the text: only the agent shall see it (L14).
        SessionChange::Sent {
            receipt,
            purpose,
            from,
            bytes,
        } => json!({
            "receipt": receipt.as_str(), "purpose": purpose.as_str(),
            "from": from.as_ref().map(ToString::to_string), "bytes": bytes,
        }),
        SessionChange::Delivered {
            receipt,
            state,
            note,
        } => json!({
            "receipt": receipt.as_str(), "state": state.as_str(), "note": note.as_ref().map(Reason::as_str),
        }),
        SessionChange::Interrupted { run } => json!({"run": run}),
        SessionChange::Named { native } => json!({"native": native.as_str()}),
        SessionChange::ForkBegan { fork } => json!({"fork": fork.as_str()}),
        SessionChange::ForkUndone { fork, why } => json!({"fork": fork.as_str(), "why": why}),
        SessionChange::Forked(from) => json!({
            "from": from.session.as_str(), "message": from.message.as_ref().map(ToString::to_string),
        }),
        SessionChange::TranscriptRewound { to, dropped } => match to {
            RewindTarget::After(message) => json!({"to": message.as_str(), "dropped": dropped}),
            RewindTarget::Before(reply) => json!({"reply": reply.as_str(), "dropped": dropped}),
        },
        SessionChange::TranscriptFlushed {
            entries,
            segments,
            kept_hot,
        } => json!({"entries": entries, "segments": segments, "kept_hot": kept_hot}),
        SessionChange::TranscriptHydrated => json!({}),
        SessionChange::TranscriptImported {
            format,
            added,
            already,
        } => json!({"format": format, "added": added, "already": already}),
    }
}
