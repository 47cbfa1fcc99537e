//! Taking over a child's work.

use skein_domain::{
    Conflict, Merge, Phase, PhaseName, Refused, Role, Session, Step, fact::SessionChange,
};

use crate::caller::{Answer, RequestOutcome};
use crate::ending::report;
use crate::error::{Error, StoreResult};
use crate::requests::SessionRequests;
use crate::turn::require_open_thread;

impl SessionRequests<'_> {
    /// Records that the session took over the work of `from`. A session that awaits a merge becomes idle.
    pub async fn merge(self, reference: String, from: String) -> Result<Answer, Error> {
        let must_own = self.0.must_own();
        self.0
            .change("merge", Role::Operate, move |writer| {
                let before: Session = writer.reader().resolve(&reference)?;
                let child: Session = writer.reader().resolve(&from)?;
                before.check_owner(must_own.as_ref())?;
                check(&before, &child)?;
                require_open_thread(&writer.reader(), &before)?;
                let now = writer.now();
                // A broadcast waits only for its recipients; the merge of another child does not end the wait.
                let awaited = match &before.phase {
                    Phase::AwaitingMerge(broadcast)
                        if child.broadcast.as_ref() == Some(broadcast) =>
                    {
                        Some(broadcast.clone())
                    }
                    _ => None,
                };
                let mut after = match awaited {
                    Some(_) => before.step(Step::MergeDone, now)?,
                    None => Session {
                        last_activity_at: now,
                        ..before.next(now)
                    },
                };
                after.merges.push(Merge {
                    child: child.id.clone(),
                    child_turns: child.turns,
                    at: now,
                });
                writer.update(&after)?;
                writer.append_event(
                    &SessionChange::Merged {
                        child: child.id.clone(),
                    }
                    .of(&after),
                )?;
                if let Some(handoff) = awaited {
                    let report = report(writer, &before, &handoff)?;
                    writer.append_event(
                        &SessionChange::BroadcastFinished { handoff, report }.of(&after),
                    )?;
                }
                Ok(RequestOutcome::Session(Box::new(after)))
            })
            .await
    }
}

fn check(session: &Session, child: &Session) -> StoreResult<()> {
    if child.parent.as_ref() != Some(&session.id) {
        return Err(Refused::NotAChild {
            session: session.id.clone(),
            child: child.id.clone(),
        }
        .into());
    }
    let wrong = |who: &Session, wanted| Conflict::WrongPhase {
        session: who.id.clone(),
        phase: who.phase.name(),
        wanted,
    };
    if !matches!(
        session.phase.name(),
        PhaseName::Idle | PhaseName::AwaitingMerge
    ) {
        return Err(wrong(
            session,
            "only an idle session, or one that waits for a merge, can merge",
        )
        .into());
    }
    if !matches!(
        child.phase.name(),
        PhaseName::Idle | PhaseName::Ended | PhaseName::Archived
    ) {
        return Err(wrong(child, "only a child that is idle or over can be merged").into());
    }
    if session
        .merges
        .iter()
        .any(|m| m.child == child.id && m.child_turns == child.turns)
    {
        return Err(Conflict::AlreadyMerged {
            session: session.id.clone(),
            child: child.id.clone(),
        }
        .into());
    }
    Ok(())
}
