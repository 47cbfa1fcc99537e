//! Ends of sessions, and beginnings anew.

use skein_domain::fact::{Change, SagaChange};
use skein_domain::saga::{Failure, Order};
use skein_domain::{
    BroadcastReport, HandoffId, Invalid, Kind, Outcome as End, Phase, Reason, ReceiptId, Refused,
    Right, Role, Saga, SagaId, SagaKind, SagaState, Session, Step, capacity,
};
use skein_store::backend::Filter;
use skein_store::{Reader, Writer};

use crate::access::chosen_before;
use crate::caller::{Answer, Outcome};
use crate::desk::Desk;
use crate::error::Error;
use crate::fleet::{reason, take_over, tell_saga, turn_round};
use crate::spawn::{check_delegates, live_children};
use crate::tasks::blocking;
use crate::turn::{Fence, refuse_agents, require_open_thread};

type StoreResult<T> = Result<T, skein_store::Error>;

/// Most sessions one `kill --tree` takes.
const MOST_TREE: usize = 10_000;

impl Desk {
    /// Ends a session for good, as far as its driver is concerned; it can be restored.
    pub async fn end(
        &self,
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
        fence.owner = self.must_own_as(OP, fence.owner).await?;
        self.change(OP, Role::Operate, move |writer| {
            let session: Session = writer.reader().resolve(&reference)?;
            fence.check(&session)?;
            refuse_agents(&session)?;
            Ok(Outcome::Session(Box::new(end_session(
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
    /// A session with an agent ends when its process is gone and its work is safe; the answer comes when
    /// that is journalled.
    pub async fn kill(&self, reference: String, order: KillOrder) -> Result<Answer, Error> {
        const OP: &str = "kill a session";
        if let (Some(scope), true) = (&self.caller.scope, order.discard) {
            let caller = scope.session.clone();
            let op = "discard work";
            return Err(self
                .refused(OP, Refused::RunMay { caller, op }.into())
                .await);
        }
        let order = KillOrder {
            reason: order.reason.as_ref().map(Reason::redacted),
            ..order
        };
        let must_own = self.must_own();
        let ids = self.shared.ids.clone();
        let (wanted, asked) = (reference.clone(), order.clone());
        let answer = self
            .change(OP, Role::Operate, move |writer| {
                let session: Session = writer.reader().resolve(&reference)?;
                session.check_owner(must_own.as_ref())?;
                if order.tree {
                    let below = live_descendants(&writer.reader(), &session)?;
                    for descendant in below.iter().rev() {
                        // Read again: a child's end may have changed it.
                        let current: Session = writer.reader().get(descendant.id.as_str())?;
                        current.check_owner(must_own.as_ref())?;
                        kill_one(writer, &current, &order, SagaId::from_random(ids.bits()))?;
                    }
                    if !session.phase.is_live() && !below.is_empty() {
                        // It had ended already; taking what it left at work was all there was to do.
                        let current = writer.reader().get(session.id.as_str())?;
                        return Ok(Outcome::Session(Box::new(current)));
                    }
                }
                let current: Session = writer.reader().get(session.id.as_str())?;
                let killed = kill_one(writer, &current, &order, SagaId::from_random(ids.bits()))?;
                Ok(Outcome::Session(Box::new(killed)))
            })
            .await;
        let answer = match answer {
            Err(error) if is_unwritable(&error) => {
                return Err(self.end_unrecorded(wanted, asked, error).await);
            }
            answer => answer?,
        };
        if let Some(fleet) = self.shared.fleet.get() {
            fleet.tell_turned();
            fleet.ring();
        }
        Ok(answer)
    }

    /// Ends the processes of a kill that the store cannot take, say because the disk is full: whoever kills wants
    /// them to stop now. The kill itself is kept in memory until it can be recorded.
    async fn end_unrecorded(&self, reference: String, order: KillOrder, source: Error) -> Error {
        let Some(fleet) = self.shared.fleet.get().cloned() else {
            return source;
        };
        let must_own = self.must_own();
        let tree = order.tree;
        let found = self
            .look(move |reader| {
                let session: Session = reader.resolve(&reference)?;
                let mut all = vec![];
                if tree {
                    all = live_descendants(reader, &session)?;
                    all.reverse();
                }
                all.push(session);
                for session in &all {
                    session.check_owner(must_own.as_ref())?;
                }
                Ok(all)
            })
            .await;
        let (mut ended, mut left) = (vec![], vec![]);
        for session in found.unwrap_or_default() {
            if !session.has_run() {
                continue;
            }
            let member = self.member(&session.id);
            let saga = SagaId::from_random(self.shared.ids.bits());
            match fleet.end_now(&member, &session, order.clone(), saga).await {
                Ok(()) => ended.push(session.id),
                Err(error) => left.push((session.id, error.to_string())),
            }
        }
        if ended.is_empty() && left.is_empty() {
            return source;
        }
        Error::KillUnrecorded {
            ended,
            left,
            source: Box::new(source),
        }
    }

    /// Brings an ended session back, on its next run. It needs a place with its parent again, and the rest
    /// of its budget.
    ///
    /// A session with an agent is `spawning` until its agent runs again.
    pub async fn restore(&self, reference: String) -> Result<Answer, Error> {
        let must_own = self.must_own();
        let ids = self.shared.ids.clone();
        let (fleet, tenant) = (self.shared.fleet.get().cloned(), self.tenant().clone());
        self.check_relaunch(reference.clone()).await?;
        if let (Some(fleet), Ok(session)) = (&fleet, self.get_session(reference.clone()).await) {
            // A clean-up of what is left of it is over in a moment; it is refused only if it is not.
            fleet.until_free(&self.member(&session.id)).await;
        }
        let answer = self
            .change("restore a session", Role::Operate, move |writer| {
                let before: Session = writer.reader().resolve(&reference)?;
                before.check_owner(must_own.as_ref())?;
                before.check_free()?;
                let step = match &before.gear {
                    Some(_) => Step::Relaunch,
                    None => Step::Restore,
                };
                let after = before.step(step, writer.now())?;
                require_open_thread(&writer.reader(), &before)?;
                if let Some(fleet) = &fleet {
                    take_over(writer, fleet, &tenant, &before)?;
                }
                if let Some(parent) = &before.parent {
                    let parent: Session = writer.reader().get(parent.as_str())?;
                    rejoin(writer, &parent, &before, &after)?;
                }
                if let (Some(gear), Phase::Ended { outcome, reason }) = (&after.gear, &before.phase)
                {
                    let order = Order {
                        receipt: Some(ReceiptId::from_random(ids.bits())),
                        ended: Some((*outcome, reason.clone())),
                        ..Order::default()
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
                    let saga = new_saga(writer, saga, &after, SagaKind::Restore, order);
                    begin_saga(writer, &saga, &after)?;
                    return Ok(Outcome::Session(Box::new(after)));
                }
                let after = Session {
                    run: after.run + 1,
                    ..after
                };
                writer.update(&after)?;
                writer.tell(&Change::Restored { run: after.run }.of(&after))?;
                Ok(Outcome::Session(Box::new(after)))
            })
            .await?;
        if let Some(session) = restored_without_agent(&answer) {
            self.fence_and_close(session).await;
        }
        if let Some(fleet) = self.shared.fleet.get() {
            fleet.ring();
        }
        Ok(answer)
    }
}

impl Desk {
    /// Whether the caller may start the session's program once more: one that it could have started itself,
    /// in a checkout whose files no set-up command of the project runs.
    async fn check_relaunch(&self, reference: String) -> Result<(), Error> {
        if self.caller.rights.contains(Right::Run) {
            return Ok(());
        }
        let (session, project) = self.session_and_project(reference).await?;
        let (Some(gear), Some(fleet)) = (&session.gear, self.shared.fleet.get().cloned()) else {
            return Ok(());
        };
        let settings = blocking(move || fleet.settings.project(&project))
            .await
            .map_err(|_| Error::Stopped)?
            .map_err(Error::Settings)?;
        let checked = match chosen_before(gear, &settings) {
            Some(what) => Err(Refused::TokenField { what }),
            None => self.check_agent(&session.agent),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(refused) => Err(self.refused("restore a session", refused.into()).await),
        }
    }
}

/// The session, if its new run has begun with its restore. One with an agent has its run when that is launched.
fn restored_without_agent(answer: &Answer) -> Option<&Session> {
    match answer {
        Answer::Fresh(Outcome::Session(session)) if session.gear.is_none() => Some(session),
        _ => None,
    }
}

/// Whether the store could not write, whatever was asked of it.
fn is_unwritable(error: &Error) -> bool {
    matches!(error, Error::Store(skein_store::Error::Unavailable { .. }))
}

/// How a session is to be killed.
#[derive(Clone, Debug, Default)]
pub struct KillOrder {
    pub reason: Option<Reason>,
    /// Its live descendants too, deepest first.
    pub tree: bool,
    /// Drop uncommitted work with its folder.
    pub discard: bool,
}

/// Ends one session: at once without an agent, by a saga with one.
pub(crate) fn kill_one(
    writer: &mut Writer<'_>,
    session: &Session,
    order: &KillOrder,
    saga: SagaId,
) -> StoreResult<Session> {
    let Some(gear) = session.gear.as_deref() else {
        return end_session(writer, session, End::Killed, order.reason.clone());
    };
    // Ends here if it cannot end at all: ended already, or being handed over.
    session
        .phase
        .on(&session.id, Step::End(End::Killed, order.reason.clone()))?;
    if let Some((running, kind)) = &gear.saga {
        return kill_saga(writer, session, running, *kind, order);
    }
    let mut gear = gear.clone();
    gear.saga = Some((saga.clone(), SagaKind::Kill));
    let after = session.with_gear(gear, writer.now());
    writer.update(&after)?;
    let order = Order {
        discard: order.discard,
        reason: order.reason.clone(),
        ..Order::default()
    };
    let saga = Saga {
        state: SagaState::Doing(SagaKind::Kill.steps()[0]),
        ..new_saga(writer, saga, &after, SagaKind::Kill, order)
    };
    begin_saga(writer, &saga, &after)?;
    Ok(after)
}

/// A session that is still being set up is killed by turning its saga round.
fn kill_saga(
    writer: &mut Writer<'_>,
    session: &Session,
    saga: &SagaId,
    kind: SagaKind,
    order: &KillOrder,
) -> StoreResult<Session> {
    let saga: Saga = writer.reader().get(saga.as_str())?;
    let (SagaKind::Spawn | SagaKind::Restore, SagaState::Doing(_) | SagaState::Queued) =
        (kind, &saga.state)
    else {
        // On its way out already.
        session.check_free()?;
        return Ok(session.clone());
    };
    let text = order
        .reason
        .clone()
        .unwrap_or_else(|| reason("it was killed while it was being set up"));
    let step = match &saga.state {
        SagaState::Doing(step) => *step,
        _ => kind.steps()[0],
    };
    let why = Failure {
        step,
        kind: Kind::Conflict,
        text,
        outcome: End::Killed,
    };
    turn_round(writer, &saga, session, why)?;
    Ok(session.clone())
}

pub(crate) fn new_saga(
    writer: &Writer<'_>,
    id: SagaId,
    session: &Session,
    kind: SagaKind,
    order: Order,
) -> Saga {
    Saga {
        id,
        session: session.id.clone(),
        kind,
        state: SagaState::Queued,
        order,
        prompt: None,
        actor: writer.actor().clone(),
        version: 1,
        at: writer.now(),
    }
}

pub(crate) fn begin_saga(
    writer: &mut Writer<'_>,
    saga: &Saga,
    session: &Session,
) -> StoreResult<()> {
    writer.insert(saga)?;
    tell_saga(writer, saga, session, SagaChange::Queued)
}

/// Takes a place and the budget's rest with the parent again. A parent that has ended takes nobody in, but
/// holds nobody back either, unless it gave the budget back that the child would need.
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
fn live_descendants(reader: &Reader<'_>, session: &Session) -> StoreResult<Vec<Session>> {
    let mut found: Vec<Session> = vec![];
    let mut queue = vec![session.id.clone()];
    while let Some(next) = queue.pop() {
        // Ended children may still have live ones below them, so the walk goes through them.
        let filter = Filter {
            parent: Some(next.to_string()),
            ..Filter::default()
        };
        let children = reader.readable::<Session>(&filter)?;
        // One that cannot be read cannot be ended; those below it can.
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

/// Ends one session: frees its place and its budget with the parent, and the broadcast it was the last of.
pub(crate) fn end_session(
    writer: &mut Writer<'_>,
    session: &Session,
    outcome: End,
    reason: Option<Reason>,
) -> StoreResult<Session> {
    let after = session.step(Step::End(outcome, reason.clone()), writer.now())?;
    let live_children = u64::from(live_children(writer, session)?);
    writer.update(&after)?;
    writer.tell(
        &Change::Ended {
            outcome,
            reason,
            live_children,
        }
        .of(&after),
    )?;
    settle(writer, session, &after)?;
    Ok(after)
}

/// What the parent learns of a child's end: its budget's rest, and that a broadcast is over.
fn settle(writer: &mut Writer<'_>, before: &Session, after: &Session) -> StoreResult<()> {
    let Some(parent) = &after.parent else {
        return Ok(());
    };
    let parent: Session = writer.reader().get(parent.as_str())?;
    carry_up(writer, before, after)?;
    if parent.budget.is_limited() {
        let unspent = after.budget.unspent(&after.usage);
        let child = after.id.clone();
        writer.tell(&Change::BudgetReturned { child, unspent }.of(&parent))?;
    }
    if let Some((broadcast, report)) = finished_broadcast(writer, &parent, after)? {
        let parent: Session = writer.reader().get(parent.id.as_str())?;
        // It waited and did not lie idle: retention counts from here, so this is activity of its own.
        let idle = parent.step(Step::MergeDone, writer.now())?;
        writer.update(&idle)?;
        let handoff = broadcast;
        writer.tell(&Change::BroadcastFinished { handoff, report }.of(&idle))?;
    }
    Ok(())
}

/// Passes a change of a session's weight on to its parent's budget, and on from there as far as it is felt:
/// a parent that has ended, or took more than its share, weighs differently for it.
pub(crate) fn carry_up(
    writer: &mut Writer<'_>,
    before: &Session,
    after: &Session,
) -> StoreResult<()> {
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
) -> StoreResult<Option<(HandoffId, BroadcastReport)>> {
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
    broadcast: &HandoffId,
) -> StoreResult<BroadcastReport> {
    let filter = Filter {
        parent: Some(source.id.to_string()),
        ..Filter::default()
    };
    let recipients = writer
        .reader()
        .readable::<Session>(&filter)?
        // One that cannot be read will never end, and is not waited for.
        .items
        .into_iter()
        .filter(|s| s.broadcast.as_ref() == Some(broadcast))
        .map(|s| {
            let outcome = match s.phase {
                Phase::Ended { outcome, .. } => Some(outcome),
                // Archived while idle: it did what it did.
                Phase::Archived { outcome } => Some(outcome.unwrap_or(End::Done)),
                _ => None,
            };
            (s.id, s.owner, outcome)
        })
        .collect();
    Ok(BroadcastReport { recipients })
}

/// Puts a session away for good; an idle one is settled with its parent first.
pub(crate) fn archive_session(
    writer: &mut Writer<'_>,
    session: &Session,
    why: &'static str,
) -> StoreResult<Session> {
    let was_live = session.phase.is_live();
    let after = session.quiet_step(Step::Archive, writer.now())?;
    writer.update(&after)?;
    writer.tell(&Change::Archived { why }.of(&after))?;
    if was_live {
        settle(writer, session, &after)?;
    }
    Ok(after)
}
