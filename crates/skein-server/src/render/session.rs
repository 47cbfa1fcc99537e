//! Sessions on the wire: what is recorded, and what is observed now.

use skein_domain as domain;
use skein_domain::Phase;
use skein_domain::budget;
use skein_domain::observed::Observations;
use skein_fleet::FleetRequests;
use skein_store::DamagedRecord;
use skein_wire as wire;

use super::{dollars, time};

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

pub(crate) fn session(requests: &FleetRequests, s: &domain::Session) -> wire::Session {
    let derived = requests.derive(s);
    let seen = requests.observations(s);
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
                kinds: q.kinds.iter().map(|k| k.as_str().to_owned()).collect(),
                id: q.id.as_ref().map(ToString::to_string),
            }),
            None,
        ),
        Phase::AwaitingMerge(broadcast) => (None, Some(broadcast)),
        _ => (None, None),
    };
    let gear = s.gear.as_deref();
    wire::Session {
        id: s.id.to_string(),
        tenant: requests.ledger.tenant().to_string(),
        project: s.project.to_string(),
        thread: s.thread.to_string(),
        parent: s.parent.as_ref().map(ToString::to_string),
        depth: s.depth,
        owner: s.owner.to_string(),
        owner_version: s.owner_version,
        previous_owners: s.previous_owners.iter().map(ToString::to_string).collect(),
        version: s.version,
        phase: s.phase.name().as_str().into(),
        status: derived.status.as_str().into(),
        status_reason: derived.reason,
        outcome: outcome.map(|o| o.as_str().into()),
        question,
        agent: s.agent.to_string(),
        runtime: runtime(requests, s, &seen),
        workspace: workspace(s),
        run: s.run,
        display_name: s.task.display_name(),
        turns: s.turns,
        native: gear
            .and_then(|g| g.native.as_ref())
            .map(ToString::to_string),
        saga: saga(s, &seen),
        queued: seen.queued,
        draft: seen.draft,
        note: gear.and_then(|g| g.note.as_ref()).map(ToString::to_string),
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
        forked_from: s.forked_from.as_ref().map(|from| wire::ForkedFrom {
            session: from.session.to_string(),
            message: from.message.as_ref().map(ToString::to_string),
        }),
        transcript: None,
        created_at: time(s.created_at),
        updated_at: time(s.updated_at),
        last_activity_at: time(s.last_activity_at),
    }
}

/// Leaves the task out: a page of long ones would be large, and the display name shows its first line.
pub(crate) fn session_in_list(requests: &FleetRequests, s: &domain::Session) -> wire::Session {
    wire::Session {
        task: None,
        ..session(requests, s)
    }
}

/// A session whose record cannot be read, from what is known without it.
pub(crate) fn damaged_session(requests: &FleetRequests, record: &DamagedRecord) -> wire::Session {
    const UNKNOWN: &str = "unknown";
    let at = time(domain::Timestamp::from_micros(record.index.touched_at));
    let none = budget::Account::default();
    wire::Session {
        id: record.id.clone(),
        tenant: requests.ledger.tenant().to_string(),
        project: record.index.project.clone().unwrap_or_default(),
        thread: record.index.thread.clone().unwrap_or_default(),
        parent: record.index.parent.clone(),
        depth: 0,
        owner: UNKNOWN.into(),
        owner_version: 0,
        previous_owners: vec![],
        version: record.version,
        phase: UNKNOWN.into(),
        status: "damaged".into(),
        status_reason: format!("its record cannot be read: {}", record.reason),
        outcome: None,
        question: None,
        agent: UNKNOWN.into(),
        runtime: wire::Runtime {
            kind: UNKNOWN.into(),
            state: "unobserved".into(),
            pid: None,
            window: None,
        },
        workspace: wire::Workspace {
            kind: UNKNOWN.into(),
            path: None,
            repo: None,
            branch: None,
            dirty: None,
            state: None,
            backups: vec![],
        },
        run: 0,
        turns: 0,
        native: None,
        saga: None,
        queued: 0,
        draft: false,
        note: None,
        display_name: "(damaged)".into(),
        task: None,
        usage: wire::Usage::default(),
        budget: wire::BudgetState {
            tokens: tokens(&none, 0),
            cost: cost(&none, 0),
        },
        broadcast: None,
        merges: vec![],
        summary: None,
        forked_from: None,
        transcript: None,
        created_at: at.clone(),
        updated_at: at.clone(),
        last_activity_at: at,
    }
}

fn runtime(requests: &FleetRequests, s: &domain::Session, seen: &Observations) -> wire::Runtime {
    let Some(gear) = &s.gear else {
        return wire::Runtime {
            kind: "none".into(),
            state: "unobserved".into(),
            pid: None,
            window: None,
        };
    };
    let state = seen.runtime.as_ref().map(|r| &r.what);
    wire::Runtime {
        kind: gear.runtime.as_str().into(),
        // Without a run there is nothing to observe.
        state: match (state, s.has_run()) {
            (Some(state), _) => state.as_str().into(),
            (None, true) => "unobserved".into(),
            (None, false) => "exited".into(),
        },
        pid: match state {
            Some(domain::RuntimeState::Alive { pid }) => *pid,
            _ => None,
        },
        window: requests.window(s).map(|window| wire::Window {
            command: window.command,
            problem: window.problem,
        }),
    }
}

fn workspace(s: &domain::Session) -> wire::Workspace {
    let Some(gear) = &s.gear else {
        return wire::Workspace {
            kind: "none".into(),
            path: None,
            repo: None,
            branch: None,
            dirty: Some(false),
            state: None,
            backups: vec![],
        };
    };
    let w = &gear.workspace;
    wire::Workspace {
        kind: w.kind.as_str().into(),
        path: Some(w.path.to_string()),
        repo: w.repo.as_ref().map(ToString::to_string),
        branch: w.branch.as_ref().map(ToString::to_string),
        // To know it takes a git process; lists and events must not wait for one.
        dirty: None,
        state: Some(w.state.as_str().into()),
        backups: w
            .backups
            .iter()
            .map(|b| wire::Backup {
                name: b.name(&s.id),
                commit: b.commit.to_string(),
                at: time(b.at),
            })
            .collect(),
    }
}

/// What the session's saga does now, as far as it is known.
pub(super) fn saga(s: &domain::Session, seen: &Observations) -> Option<wire::Saga> {
    let (id, kind) = s.gear.as_ref()?.saga.as_ref()?;
    let now = seen.saga.as_ref().filter(|now| now.kind == *kind);
    Some(wire::Saga {
        id: id.to_string(),
        kind: kind.as_str().into(),
        step: now.and_then(|n| n.step).map(|step| step.as_str().into()),
        place: now.and_then(|n| n.place),
        why: now.and_then(|n| n.why.clone().or_else(|| awaited(s, n.step, seen))),
    })
}

/// What a session waits for whose agent was started but has not accepted its task.
fn awaited(
    s: &domain::Session,
    step: Option<domain::saga::SagaStep>,
    seen: &Observations,
) -> Option<String> {
    if step != Some(domain::saga::SagaStep::Prompt) {
        return None;
    }
    let id = &s.id;
    Some(
        match seen.activity.as_ref().map(|activity| &activity.what) {
            Some(what) => {
                let (activity, rule) = (what.activity.as_str(), &what.rule);
                format!("the agent is {activity} (rule `{rule}`)")
            }
            None if seen.has_signal => {
                format!("no rule fits its screen yet; `skein screen {id} --explain` tells why")
            }
            None => "no source shows what this agent does".into(),
        },
    )
}

pub(crate) fn tree(requests: &FleetRequests, t: &skein_ledger::Tree) -> wire::Tree {
    wire::Tree {
        ancestors: t
            .ancestors
            .iter()
            .map(|s| session_in_list(requests, s))
            .collect(),
        root: node(requests, &t.root),
        truncated: t.truncated,
    }
}

fn node(requests: &FleetRequests, n: &skein_ledger::Node) -> wire::TreeNode {
    wire::TreeNode {
        session: session_in_list(requests, &n.session),
        children: n.children.iter().map(|c| node(requests, c)).collect(),
    }
}
