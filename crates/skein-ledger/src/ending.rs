//! Ending and restoring sessions.

use skein_domain::fact::{SagaChange, SessionChange};
use skein_domain::saga::SagaEvent;
use skein_domain::{
    BroadcastReport, Conflict, Gear, Invalid, Outcome as End, Phase, Reason, ReceiptId, Refused,
    Role, RuntimeKind, Saga, SagaId, SagaKind, SagaRequest, SagaState, Session, Step, capacity,
};
use skein_store::{Reader, Writer};

use crate::caller::{Answer, RequestOutcome};
use crate::error::{Error, StoreResult};
use crate::filter::of_parent;
use crate::requests::SessionRequests;
use crate::saga::{append_saga_event, apply, begin_saga, new_saga};
use crate::session::SessionKey;
use crate::spawn::{check_delegates, live_children};
use crate::turn::{Fence, refuse_agents, require_open_thread};

/// Most sessions one `kill --tree` takes.
const MOST_TREE: usize = 10_000;

impl SessionRequests<'_> {
    /// Ends a session at its driver's request; it can be restored.
    pub async fn end(
        self,
        reference: String,
        mut fence: Fence,
        outcome: End,
        reason: Option<Reason>,
    ) -> Result<Answer, Error> {
        const OP: &str = "end a session";
        if !matches!(outcome, End::Done | End::Failed) {
            return Err(Invalid::new(
                "outcome",
                outcome.as_str(),
                "a session ends itself as `done` or `failed`",
            )
            .into());
        }
        let reason = reason.map(|reason| reason.redacted());
        fence.owner = self.0.must_own_as(OP, fence.owner).await?;
        self.0
            .change(OP, Role::Operate, move |writer| {
                let session: Session = writer.reader().resolve(&reference)?;
                fence.check(&session)?;
                refuse_agents(&session)?;
                Ok(RequestOutcome::Session(Box::new(end_session(
                    writer,
                    &session,
                    outcome,
                    reason.clone(),
                )?)))
            })
            .await
    }

    /// Ends a session from outside; with `tree` its live descendants too, deepest first.
    ///
    /// A session with an agent ends when its process is gone and its work is safe; the answer comes as soon as the
    /// saga that does so is journalled.
    pub async fn kill(self, reference: String, options: KillOptions) -> Result<Answer, Error> {
        const OP: &str = "kill a session";
        if let (Some(scope), true) = (&self.0.caller.scope, options.discard) {
            let caller = scope.session.clone();
            let op = "discard work";
            return Err(self
                .0
                .refused(OP, Refused::RunMay { caller, op }.into())
                .await);
        }
        let options = KillOptions {
            reason: options.reason.as_ref().map(Reason::redacted),
            ..options
        };
        let must_own = self.0.must_own();
        let ids = self.0.ledger.ids.clone();
        self.0
            .change(OP, Role::Operate, move |writer| {
                let session: Session = writer.reader().resolve(&reference)?;
                session.check_owner(must_own.as_ref())?;
                if options.tree {
                    let below = live_descendants(&writer.reader(), &session)?;
                    for descendant in below.iter().rev() {
                        // Read again: a child's end may have changed it.
                        let current: Session = writer.reader().get(descendant.id.as_str())?;
                        current.check_owner(must_own.as_ref())?;
                        kill_one(writer, &current, &options, SagaId::from_random(ids.bits()))?;
                    }
                    if !session.phase.is_live() && !below.is_empty() {
                        // The session itself had ended already; only its descendants were live.
                        let current = writer.reader().get(session.id.as_str())?;
                        return Ok(RequestOutcome::Session(Box::new(current)));
                    }
                }
                let current: Session = writer.reader().get(session.id.as_str())?;
                let killed = kill_one(writer, &current, &options, SagaId::from_random(ids.bits()))?;
                Ok(RequestOutcome::Session(Box::new(killed)))
            })
            .await
    }

    /// Brings an ended session back, on its next run. It counts as its parent's child again, and reserves the rest of
    /// its budget again.
    ///
    /// A session with an agent is `spawning` until its agent runs again. A session whose agent runs and is shown in a
    /// window stays as it is; the fleet opens the window again if it is missing.
    pub async fn restore(self, reference: String) -> Result<Answer, Error> {
        let must_own = self.0.must_own();
        let ids = self.0.ledger.ids.clone();
        let (claims, tenant) = (self.0.ledger.claims.clone(), self.0.tenant().clone());
        if let Ok(session) = self.get(reference.clone()).await {
            // A clean-up of the session takes only a moment; the restore is refused only if it takes longer.
            claims.until_free(&self.0.session_key(&session.id)).await;
        }
        let answer = self
            .0
            .change("restore a session", Role::Operate, move |writer| {
                let before: Session = writer.reader().resolve(&reference)?;
                before.check_owner(must_own.as_ref())?;
                before.check_free()?;
                if has_window(&before) {
                    return Ok(RequestOutcome::Session(Box::new(before)));
                }
                let step = match &before.gear {
                    Some(_) => Step::Relaunch,
                    None => Step::Restore,
                };
                let after = before.step(step, writer.now())?;
                require_open_thread(&writer.reader(), &before)?;
                let session_key = SessionKey {
                    tenant: tenant.clone(),
                    session: before.id.clone(),
                };
                take_over(writer, &before, claims.is_claimed(&session_key))?;
                if let Some(parent) = &before.parent {
                    let parent: Session = writer.reader().get(parent.as_str())?;
                    rejoin(writer, &parent, &before, &after)?;
                }
                if let (Some(gear), Phase::Ended { outcome, reason }) = (&after.gear, &before.phase)
                {
                    let request = SagaRequest::Restore {
                        receipt: ReceiptId::from_random(ids.bits()),
                        outcome: *outcome,
                        reason: reason.clone(),
                    };
                    let saga = SagaId::from_random(ids.bits());
                    let mut gear = gear.clone();
                    gear.saga = Some((saga.clone(), SagaKind::Restore));
                    gear.note = None;
                    let after = Session {
                        gear: Some(gear),
                        ..after
                    };
                    writer.update(&after)?;
                    let saga = new_saga(writer, saga, &after, request);
                    begin_saga(writer, &saga, &after)?;
                    return Ok(RequestOutcome::Session(Box::new(after)));
                }
                let after = Session {
                    run: after.run + 1,
                    ..after
                };
                writer.update(&after)?;
                writer.append_event(&SessionChange::Restored { run: after.run }.of(&after))?;
                Ok(RequestOutcome::Session(Box::new(after)))
            })
            .await?;
        if let Some(session) = restored_without_agent(&answer)
            && let Ok(transcripts) = self.0.transcripts()
        {
            transcripts.fence_and_close(session).await;
        }
        Ok(answer)
    }
}

/// The session, if its new run began with its restore. The run of a session with an agent begins with its launch.
fn restored_without_agent(answer: &Answer) -> Option<&Session> {
    match answer {
        Answer::Fresh(RequestOutcome::Session(session)) if session.gear.is_none() => Some(session),
        _ => None,
    }
}

/// Whether the session has a run that a window shows.
pub fn has_window(session: &Session) -> bool {
    let is_tmux = |gear: &Gear| gear.runtime == RuntimeKind::Tmux;
    session.phase.is_live() && session.has_run() && session.gear.as_deref().is_some_and(is_tmux)
}

/// How a session is to be killed.
#[derive(Clone, Debug, Default)]
pub struct KillOptions {
    pub reason: Option<Reason>,
    /// Its live descendants too, deepest first.
    pub tree: bool,
    /// Drop uncommitted work with its folder.
    pub discard: bool,
}

/// Ends one session: at once without an agent, by a saga with one.
pub fn kill_one(
    writer: &mut Writer<'_>,
    session: &Session,
    options: &KillOptions,
    saga: SagaId,
) -> StoreResult<Session> {
    let Some(gear) = session.gear.as_deref() else {
        return end_session(writer, session, End::Killed, options.reason.clone());
    };
    // Refuses a session that cannot end: it has ended already, or is being handed over.
    session
        .phase
        .on(&session.id, Step::End(End::Killed, options.reason.clone()))?;
    if let Some((running, kind)) = &gear.saga {
        return kill_saga(writer, session, running, *kind, options);
    }
    let mut gear = gear.clone();
    gear.saga = Some((saga.clone(), SagaKind::Kill));
    // It is about an earlier operation; the kill prints the note that it finds at its end.
    gear.note = None;
    let after = session.with_gear(gear, writer.now());
    writer.update(&after)?;
    let request = SagaRequest::Kill {
        discard: options.discard,
        reason: options.reason.clone(),
    };
    let saga = new_saga(writer, saga, &after, request);
    begin_saga(writer, &saga, &after)?;
    Ok(after)
}

/// Kills a session that is still being set up: its saga is cancelled, and undoes its steps.
fn kill_saga(
    writer: &mut Writer<'_>,
    session: &Session,
    saga: &SagaId,
    kind: SagaKind,
    options: &KillOptions,
) -> StoreResult<Session> {
    let saga: Saga = writer.reader().get(saga.as_str())?;
    let (true, SagaState::Doing { .. } | SagaState::Queued) = (kind.queues(), &saga.state) else {
        // Its saga ends the session already.
        session.check_free()?;
        return Ok(session.clone());
    };
    let reason = options.reason.clone();
    apply(writer, &saga, session, SagaEvent::Cancelled { reason })?;
    Ok(session.clone())
}

/// A restore takes over the leftovers of an earlier saga, because the session uses its folder again. It is refused while
/// they are being removed, or while an earlier run is left that would go on beside the new one.
fn take_over(writer: &mut Writer<'_>, session: &Session, is_claimed: bool) -> StoreResult<()> {
    let of_session = of_parent(&session.id);
    for saga in writer.reader().all::<Saga>(&of_session)? {
        let SagaState::Leftover { steps, .. } = &saga.state else {
            continue;
        };
        if !saga.kind().is_of_agent() {
            continue;
        }
        if session.has_run() || is_claimed {
            return Err(Conflict::Busy {
                session: session.id.clone(),
                saga: saga.kind().as_str(),
            }
            .into());
        }
        for step in steps.iter().copied() {
            let why = Reason::from_text("the session was restored and has it again");
            append_saga_event(writer, &saga, session, SagaChange::LeftOut { step, why })?;
        }
        writer.delete(&saga)?;
    }
    Ok(())
}

/// Counts the session as its parent's child again and reserves the rest of its budget. A parent that has ended has no
/// limits on children to check; but if its budget was limited, it gave back what the child would need.
fn rejoin(
    writer: &mut Writer<'_>,
    parent: &Session,
    before: &Session,
    after: &Session,
) -> StoreResult<()> {
    if parent.phase.is_live() {
        check_delegates(parent)?;
        let project: skein_domain::Project = writer.reader().get(parent.project.as_str())?;
        let live = live_children(writer, parent)?;
        capacity::check(&project.limits, &parent.id, parent.depth, live, 1)?;
    } else if parent.budget.is_limited() {
        return Err(Refused::ParentEnded {
            session: before.id.clone(),
            parent: parent.id.clone(),
        }
        .into());
    }
    parent
        .budget
        .take_back(&parent.id, &parent.usage, before.weight(), after.weight())?;
    carry_up(writer, before, after)
}

/// Live sessions below `session`, parents before children.
pub fn live_descendants(reader: &Reader<'_>, session: &Session) -> StoreResult<Vec<Session>> {
    let mut found: Vec<Session> = vec![];
    let mut queue = vec![session.id.clone()];
    while let Some(next) = queue.pop() {
        // Ended children may still have live ones below them, so the walk goes through them.
        let filter = of_parent(&next);
        let children = reader.readable::<Session>(&filter)?;
        // A session that cannot be read cannot be ended; those below it can.
        let damaged = children.damaged.iter();
        queue.extend(damaged.filter_map(|record| record.id.parse().ok()));
        for child in children.items {
            queue.push(child.id.clone());
            if child.phase.is_live() {
                found.push(child);
            }
        }
        if found.len() > MOST_TREE {
            return Err(Invalid::new(
                "tree",
                session.id.as_str(),
                format!("more than {MOST_TREE} live sessions"),
            )
            .into());
        }
    }
    found.sort_by_key(|s| s.depth);
    Ok(found)
}

/// Ends one session: its parent gets the rest of its budget back, and a broadcast ends with its last recipient.
pub fn end_session(
    writer: &mut Writer<'_>,
    session: &Session,
    outcome: End,
    reason: Option<Reason>,
) -> StoreResult<Session> {
    let after = session.step(Step::End(outcome, reason.clone()), writer.now())?;
    let live_children = u64::from(live_children(writer, session)?);
    writer.update(&after)?;
    writer.append_event(
        &SessionChange::Ended {
            outcome,
            reason,
            live_children,
        }
        .of(&after),
    )?;
    apply_end(writer, session, &after)?;
    Ok(after)
}

/// Applies a child's end to its parent: returns the rest of the budget, and ends a broadcast.
fn apply_end(writer: &mut Writer<'_>, before: &Session, after: &Session) -> StoreResult<()> {
    let Some(parent) = &after.parent else {
        return Ok(());
    };
    let parent: Session = writer.reader().get(parent.as_str())?;
    carry_up(writer, before, after)?;
    if parent.budget.is_limited() {
        let unspent = after.budget.unspent(&after.usage);
        let child = after.id.clone();
        writer.append_event(&SessionChange::BudgetReturned { child, unspent }.of(&parent))?;
    }
    if let Some((broadcast, report)) = finished_broadcast(writer, &parent, after)? {
        let parent: Session = writer.reader().get(parent.id.as_str())?;
        // Waiting is not idling: retention counts from now, so this counts as activity.
        let idle = parent.step(Step::MergeDone, writer.now())?;
        writer.update(&idle)?;
        let handoff = broadcast;
        writer.append_event(&SessionChange::BroadcastFinished { handoff, report }.of(&idle))?;
    }
    Ok(())
}

/// Passes a change of a session's weight on to its parent's budget, and further up while it changes a weight: that of
/// a parent that has ended, or used more than its share, depends on its children.
pub fn carry_up(writer: &mut Writer<'_>, before: &Session, after: &Session) -> StoreResult<()> {
    let (mut before, mut after) = (before.clone(), after.clone());
    while let Some(parent) = &after.parent
        && before.weight() != after.weight()
    {
        let parent: Session = writer.reader().get(parent.as_str())?;
        let budget = parent.budget.carry(Some(before.weight()), after.weight());
        if budget == parent.budget {
            return Ok(());
        }
        let carried = Session {
            budget,
            ..parent.next(writer.now())
        };
        writer.update(&carried)?;
        (before, after) = (parent, carried);
    }
    Ok(())
}

/// The report of a broadcast if `child` was the last of its recipients to end.
fn finished_broadcast(
    writer: &Writer<'_>,
    parent: &Session,
    child: &Session,
) -> StoreResult<Option<(SagaId, BroadcastReport)>> {
    let Phase::AwaitingMerge(broadcast) = &parent.phase else {
        return Ok(None);
    };
    if child.broadcast.as_ref() != Some(broadcast) {
        return Ok(None);
    }
    let report = report(writer, parent, broadcast)?;
    let all_ended = report
        .recipients
        .iter()
        .all(|(_, _, outcome)| outcome.is_some());
    Ok(all_ended.then(|| (broadcast.clone(), report)))
}

/// How the recipients of a broadcast stand; `None` for those still at work.
pub(crate) fn report(
    writer: &Writer<'_>,
    source: &Session,
    broadcast: &SagaId,
) -> StoreResult<BroadcastReport> {
    let filter = of_parent(&source.id);
    let recipients = writer
        .reader()
        .readable::<Session>(&filter)?
        // A recipient that cannot be read will never end, so the broadcast does not wait for it.
        .items
        .into_iter()
        .filter(|s| s.broadcast.as_ref() == Some(broadcast))
        .map(|s| {
            let outcome = match s.phase {
                Phase::Ended { outcome, .. } => Some(outcome),
                // Archived while idle, which counts as done.
                Phase::Archived { outcome } => Some(outcome.unwrap_or(End::Done)),
                _ => None,
            };
            (s.id, s.owner, outcome)
        })
        .collect();
    Ok(BroadcastReport { recipients })
}

/// Archives a session for good; the end of an idle one is applied to its parent.
pub(crate) fn archive_session(
    writer: &mut Writer<'_>,
    session: &Session,
    why: &'static str,
) -> StoreResult<Session> {
    let was_live = session.phase.is_live();
    let after = session.quiet_step(Step::Archive, writer.now())?;
    writer.update(&after)?;
    writer.append_event(&SessionChange::Archived { why }.of(&after))?;
    if was_live {
        apply_end(writer, session, &after)?;
    }
    Ok(after)
}
