//! Launching: the run's folder first, whole or not at all, then the session, then the keeper's word.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use skein_domain::RunHandle;

use super::folder::{self, Failed, Folder, Identity, Order, State};
use super::{TmuxRuntime, name, quote, server};
use crate::error::Error;
use crate::process::MARK;
use crate::runtime::{Launch, Result};

/// How long the keeper may take to start the program.
const START: Duration = Duration::from_secs(30);
/// Folders being filled by this process.
static NEW: AtomicU64 = AtomicU64::new(0);

impl TmuxRuntime {
    pub(super) async fn start(&self, launch: Launch) -> Result<RunHandle> {
        let name = name::of(&launch.tenant, &launch.session, launch.run);
        let handle = name::to_handle(&name);
        let folder = self.folder(&name);
        // Twice at most: what was made ready and never begun is cleared away once.
        for _ in 0..2 {
            let Some(lock) = self.prepare(&launch, &name, &folder)? else {
                if self.existing(&folder).await? {
                    return Ok(handle);
                }
                continue;
            };
            let begun = self.begin(&launch, &name, &folder).await;
            drop(lock);
            return begun.map(|()| handle);
        }
        Err(Error::unobserved("somebody else launches it"))
    }

    /// Whether a run that has a folder was begun. One that was not is removed.
    async fn existing(&self, folder: &Folder) -> Result<bool> {
        let seen = match self.watch(folder) {
            Err(Error::Missing) => return Ok(false),
            other => other?,
        };
        let mut looks = seen.looks();
        let deadline = tokio::time::Instant::now() + START;
        loop {
            match self.look(folder) {
                Ok(State::Alive(_) | State::Over(_) | State::Gone(Some(_))) => return Ok(true),
                Ok(State::Gone(None) | State::Failed(_)) => {
                    remove(folder)?;
                    return Ok(false);
                }
                Err(Error::Missing) => return Ok(false),
                Ok(State::Launching) => {}
                Err(error) => return Err(error),
            }
            // The launcher's lock may be let go without a sound: look again now and then.
            let soon = tokio::time::Instant::now() + Duration::from_millis(200);
            if tokio::time::timeout_at(soon, looks.changed())
                .await
                .is_err()
                && tokio::time::Instant::now() > deadline
            {
                return Err(Error::unobserved("it is being launched for a long time"));
            }
        }
    }

    /// Makes the folder with all that the keeper needs; gives the launcher's lock, or `None` when the run has
    /// a folder already.
    fn prepare(&self, launch: &Launch, name: &str, folder: &Folder) -> Result<Option<fs::File>> {
        let failed = |error| Error::io("cannot make", folder.path(), error);
        server::make_private(&self.root).map_err(|e| Error::io("cannot use", &self.root, e))?;
        let runs = self.runs();
        server::make_private(&runs).map_err(|e| Error::io("cannot use", &runs, e))?;
        if folder.path().is_dir() {
            return Ok(None);
        }
        self.clear_unfinished();
        let number = NEW.fetch_add(1, Ordering::Relaxed);
        let new = Folder::new(runs.join(format!(".new-{}-{number}", std::process::id())));
        let made = self.fill(launch, name, &new);
        let placed = made.and_then(|lock| {
            fs::rename(new.path(), folder.path())?;
            Ok(lock)
        });
        match placed {
            Ok(lock) => Ok(Some(lock)),
            Err(error) => {
                remove(&new)?;
                let taken = [
                    io::ErrorKind::DirectoryNotEmpty,
                    io::ErrorKind::AlreadyExists,
                ];
                if taken.contains(&error.kind()) {
                    return Ok(None);
                }
                Err(failed(error))
            }
        }
    }

    fn fill(&self, launch: &Launch, name: &str, new: &Folder) -> io::Result<fs::File> {
        let mut private = fs::DirBuilder::new();
        private.mode(0o700).create(new.path())?;
        private.create(new.file("live"))?;
        let lock = folder::lock(&new.file("launcher"))?;
        let identity = Identity {
            tenant: launch.tenant.clone(),
            session: launch.session.to_string(),
            run: launch.run,
            mark: self.mark(name),
        };
        let mut env: Vec<(String, String)> = launch.env.clone().into_iter().collect();
        env.retain(|(name, _)| name != MARK && name != "TERM");
        env.push((MARK.into(), identity.mark.clone()));
        let order = Order {
            argv: launch.argv.clone(),
            env,
            cwd: launch.cwd.clone().into(),
            stdin: launch.stdin.clone().map(Into::into),
            log: launch.log.clone().into(),
            socket: self.server.socket().into(),
        };
        new.write("run.json", &identity)?;
        new.write("launch.json", &order)?;
        Ok(lock)
    }

    /// What a crash left half made. Its launcher's lock is free.
    fn clear_unfinished(&self) {
        let Ok(entries) = fs::read_dir(self.runs()) else {
            return;
        };
        for entry in entries.flatten() {
            let unfinished = entry.file_name().as_encoded_bytes().starts_with(b".new-");
            let lock: PathBuf = entry.path().join("launcher");
            // Without a lock file it may be somebody's who is just about to make it.
            if unfinished && lock.exists() && matches!(folder::locked(&lock), Ok(false)) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    async fn begin(&self, launch: &Launch, name: &str, folder: &Folder) -> Result<()> {
        let seen = self.watch(folder)?;
        let mut looks = seen.looks();
        if let Err(error) = self.open_session(launch, name, folder).await {
            // It may still come to life, when tmux only answers late: then it must not.
            return match folder.claim() {
                Ok(true) => remove(folder).and(Err(error)),
                _ => self.word(folder, &mut looks).await,
            };
        }
        self.word(folder, &mut looks).await
    }

    async fn open_session(&self, launch: &Launch, name: &str, folder: &Folder) -> Result<()> {
        let (cols, rows) = (launch.size.cols.max(1), launch.size.rows.max(1));
        let mut open = format!("new-session -d -s '{name}' -x {cols} -y {rows} --").into_bytes();
        let words = self.keeper.iter().map(AsRef::as_ref);
        quote::append(&mut open, words.chain([folder.path().as_os_str()]));
        let marks = format!(
            " ; set-option -p -t '={name}:' @skein_input 0 ; \
             set-option -p -t '={name}:' @skein_run '{name}'"
        );
        open.extend_from_slice(marks.as_bytes());
        let why = |why| Error::unobserved(format!("tmux says: {why}"));
        let answer = self.server.request(open.clone()).await?;
        match answer.printed() {
            // Of a keeper that is just going; ours has claimed nothing yet.
            Err(said) if said.contains("duplicate session") && !folder.file("claim").exists() => {
                self.kill_session(name).await;
                let answer = self.server.request(open).await?;
                answer.printed().map(drop).map_err(why)
            }
            other => other.map(drop).map_err(why),
        }
    }

    /// Waits for the keeper to say that the program was started, or why not.
    async fn word(
        &self,
        folder: &Folder,
        looks: &mut tokio::sync::watch::Receiver<u64>,
    ) -> Result<()> {
        let deadline = tokio::time::Instant::now() + START;
        loop {
            match self.look(folder)? {
                State::Alive(_) | State::Over(_) => return Ok(()),
                State::Failed(Failed { program, why }) => {
                    remove(folder)?;
                    return Err(Error::CannotStart { program, why });
                }
                State::Gone(Some(_)) => return Err(Error::Missing),
                State::Gone(None) => {
                    remove(folder)?;
                    return Err(Error::unobserved("its keeper ended before it began"));
                }
                State::Launching => {}
            }
            if tokio::time::timeout_at(deadline, looks.changed())
                .await
                .is_err()
            {
                return match folder.claim() {
                    Ok(true) => remove(folder).and(Err(Error::unobserved("no keeper came"))),
                    _ => Err(Error::unobserved("its keeper does not say that it began")),
                };
            }
        }
    }
}

fn remove(folder: &Folder) -> Result<()> {
    folder
        .remove()
        .map_err(|error| Error::io("cannot remove", folder.path(), error))
}
