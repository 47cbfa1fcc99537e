//! A run that is over but not forgotten.

use skein_domain::Exit;
use tokio::sync::watch;

use crate::error::Error;
use crate::folder::{ExitRecord, Folder};
use crate::runtime::{BoxFuture, InputResult, Run, RunObservation, Screen, Size, TerminalInput};

#[derive(Debug)]
pub(super) struct EndedRun {
    folder: Folder,
    exit: Exit,
    input: u64,
    sight: watch::Sender<RunObservation>,
}

impl EndedRun {
    pub(super) fn new(folder: Folder, record: ExitRecord) -> Self {
        let exit = record.exit.into();
        let sight = RunObservation {
            bytes: record.bytes,
            output_at: record.output_at,
            input: record.input,
            pid: None,
            exit: Some(exit),
            cut_off: false,
        };
        Self {
            folder,
            exit,
            input: record.input,
            sight: watch::Sender::new(sight),
        }
    }
}

impl Run for EndedRun {
    fn write(&self, number: u64, _: TerminalInput) -> BoxFuture<'_, InputResult> {
        Box::pin(async move {
            if number <= self.input {
                Ok(InputResult::Before)
            } else {
                Err(Error::Over { exit: self.exit })
            }
        })
    }

    /// The last screen.
    fn screen(&self) -> BoxFuture<'_, Screen> {
        Box::pin(async {
            match self.folder.screen() {
                Ok(screen) => Ok(screen.unwrap_or_default().into()),
                Err(error) => Err(Error::unobserved(error.to_string())),
            }
        })
    }

    fn resize(&self, _: Size) -> BoxFuture<'_, ()> {
        Box::pin(async { Err(Error::Over { exit: self.exit }) })
    }

    fn sight(&self) -> watch::Receiver<RunObservation> {
        self.sight.subscribe()
    }
}
