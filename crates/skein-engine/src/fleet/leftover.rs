//! What is left of a saga whose undo failed: it is tried again, more and more rarely, until it works or the
//! session is restored.
//!
//! The session has ended meanwhile and is free for others, so an undo that comes late must look first whose
//! the folder and the run are now.

use skein_domain::fact::SagaChange;
use skein_domain::saga::{Failure, Step};
use skein_domain::{Conflict, Saga, SagaState, Session, TenantId};
use skein_store::Writer;
use skein_store::backend::Filter;

use super::journal::{Carrier, Moved, NOT_UNDONE, reason, tell, tell_backups};
use super::step::StepError;
use super::{Fleet, Member};
use crate::error::Error;

impl Carrier {
    /// Each undo that failed is tried once more.
    pub(super) async fn clear_up(
        &self,
        saga: &Saga,
        steps: &[Step],
        why: &Failure,
    ) -> Result<Moved, Error> {
        let session = self.session().await?;
        if session.phase.is_live() || session.check_free().is_err() {
            let text = "the session is in use".to_owned();
            return Ok(Moved::Rests(Box::new(saga.clone()), text));
        }
        let mut left = vec![];
        let mut patches = vec![];
        let mut told = NOT_UNDONE.to_owned();
        for step in steps.iter().copied() {
            self.fleet.point(&Self::name(saga, step, "clear"));
            match self.undo(saga, step, &session).await {
                Ok(patch) => patches.push(patch),
                Err(StepError::Store(error)) => return Err(error),
                Err(StepError::Failed { text, .. }) => {
                    left.push(step);
                    told = format!("{NOT_UNDONE}: {text}");
                }
            }
            self.fleet.point(&Self::name(saga, step, "cleared"));
        }
        if patches.is_empty() {
            return Ok(Moved::Rests(Box::new(saga.clone()), told));
        }
        let (now, why) = (saga.clone(), why.clone());
        let moved = self
            .write(saga, move |writer, session, mut gear| {
                for patch in &patches {
                    patch(&mut gear);
                }
                let after = session.with_gear(gear, writer.now());
                writer.update(&after)?;
                tell_backups(writer, session, &after)?;
                let Some(first) = left.first() else {
                    tell(writer, &now, &after, SagaChange::Undone)?;
                    writer.delete(&now)?;
                    return Ok(None);
                };
                let (steps, why) = (left.clone(), why.clone());
                let next = now.in_state(SagaState::Leftover { steps, why });
                writer.update(&next)?;
                tell(writer, &now, &after, SagaChange::Began { step: *first })?;
                Ok(Some(next))
            })
            .await?;
        self.fleet
            .point(&format!("{}.clear_recorded", saga.kind.as_str()));
        Ok(match moved {
            Moved::On(next) => Moved::Rests(next, told),
            moved => moved,
        })
    }
}

/// A restore takes over what the undo of an earlier saga could not remove: it works in the folder again.
/// While somebody tries to remove it, or a run is left that would go on beside the new one, there is
/// nothing to take over yet.
pub(crate) fn take_over(
    writer: &mut Writer<'_>,
    fleet: &Fleet,
    tenant: &TenantId,
    session: &Session,
) -> Result<(), skein_store::Error> {
    let of_session = Filter {
        parent: Some(session.id.to_string()),
        ..Filter::default()
    };
    for saga in writer.reader().all::<Saga>(&of_session)? {
        let SagaState::Leftover { steps, .. } = &saga.state else {
            continue;
        };
        let member = Member {
            tenant: tenant.clone(),
            session: session.id.clone(),
        };
        if session.has_run() || fleet.hands.have(&member) {
            return Err(Conflict::Busy {
                session: session.id.clone(),
                saga: saga.kind.as_str(),
            }
            .into());
        }
        for step in steps.iter().copied() {
            let why = reason("the session was restored and has it again");
            tell(writer, &saga, session, SagaChange::LeftOut { step, why })?;
        }
        writer.delete(&saga)?;
        fleet.hands.forget(&saga.id);
    }
    Ok(())
}
