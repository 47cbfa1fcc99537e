//! The way back of a spawn or restore. Each undo can be repeated, and one that fails keeps none of the
//! others from being done.

use skein_domain::saga::Step;
use skein_domain::{Gear, Saga, SagaKind, Session, WorkspaceState};
use skein_runtime::runtime::Grace;

use super::journal::{Carrier, gone};
use super::step::{Left, Patch, RELEASE, StepError, end_setup, gear_of, off, take_away};

impl Carrier {
    pub(crate) async fn undo(
        &self,
        saga: &Saga,
        step: Step,
        session: &Session,
    ) -> Result<Patch, StepError> {
        let gear = gear_of(session)?;
        match step {
            Step::Launch | Step::Prompt => self.undo_launch(gear).await,
            Step::Workspace => self.undo_workspace(saga, session, gear).await,
            // What was furnished goes with the workspace, which nobody may be at work in then.
            Step::Setup => {
                end_setup(self.fleet.setup_mark(&self.member)).await?;
                Ok(Box::new(|_| {}))
            }
            // Steps that only go forward.
            Step::Stop | Step::Backup | Step::Remove | Step::End => Ok(Box::new(|_| {})),
        }
    }

    async fn undo_launch(&self, gear: &Gear) -> Result<Patch, StepError> {
        let mut released = std::pin::pin!(self.fleet.release(&self.member));
        let is_released = tokio::time::timeout(RELEASE, &mut released).await.is_ok();
        if let Some(handle) = &gear.handle {
            let runtime = self.fleet.runtime(gear.runtime)?;
            match runtime.end(handle, Grace::default()).await {
                Ok(_) | Err(skein_runtime::error::Error::Missing) => {}
                Err(error) => return Err(error.into()),
            }
            if !is_released {
                released.await;
            }
            runtime.forget(handle).await?;
        }
        self.fleet.board.forget_run(&self.member);
        Ok(Box::new(|gear| gear.handle = None))
    }

    /// A spawn's workspace goes again, with a backup of whatever is in it. A restore's stays: it held work
    /// before.
    async fn undo_workspace(
        &self,
        saga: &Saga,
        session: &Session,
        gear: &Gear,
    ) -> Result<Patch, StepError> {
        let workspace = gear.workspace.clone();
        if saga.kind != SagaKind::Spawn
            || !workspace.is_managed()
            || workspace.state == WorkspaceState::Gone
        {
            return Ok(Box::new(|_| {}));
        }
        let provider = self.fleet.provider(workspace.kind)?;
        let (id, by, now) = (session.id.clone(), saga.id.clone(), self.desk.now());
        let left = off(move || {
            let backup = provider.backup(&id, &workspace, &by, now)?;
            take_away(&*provider, &id, workspace.with_backup(backup), &by, now)
        })
        .await??;
        Ok(Box::new(move |gear| {
            for backup in left.backups() {
                gear.workspace = gear.workspace.with_backup(Some(backup.clone()));
            }
            // Files that nothing can keep stay where they are.
            if !matches!(left, Left::Here(_)) {
                gone(gear);
            }
        }))
    }
}
