//! One watcher for the files of all agents (L12): it notifies the supervisor that reads a file when the file changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use super::lock;

/// Cheap to copy; all copies share one watcher.
#[derive(Clone, Default)]
pub(crate) struct Files {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Locked before `wanted`, if both are; never by the watcher's own thread, which must not wait.
    watcher: Mutex<Option<Watched>>,
    wanted: Mutex<HashMap<PathBuf, Vec<Arc<Notify>>>>,
}

struct Watched {
    watcher: RecommendedWatcher,
    /// Folders, and how many files are watched through each.
    folders: HashMap<PathBuf, usize>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

/// One file whose changes notify a supervisor, until this is dropped.
pub(crate) struct Watch {
    files: Files,
    path: PathBuf,
    bell: Arc<Notify>,
    /// The folder that is watched for it: its own, or the nearest one above that exists.
    folder: Option<PathBuf>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("path", &self.path).finish()
    }
}

impl Files {
    pub(crate) fn watch(&self, path: &Path, bell: &Arc<Notify>) -> Watch {
        let mut wanted = lock(&self.shared.wanted);
        wanted
            .entry(path.to_owned())
            .or_default()
            .push(bell.clone());
        Watch {
            files: self.clone(),
            path: path.to_owned(),
            bell: bell.clone(),
            folder: None,
        }
    }
}

impl Shared {
    /// Notifies readers of what changed, and of files whose folder may just have been made.
    fn changed(&self, event: &Event) {
        if matches!(event.kind, EventKind::Access(_)) {
            return;
        }
        let wanted = lock(&self.wanted);
        let all = event.need_rescan() || event.paths.is_empty();
        for (path, bells) in &*wanted {
            if all || event.paths.iter().any(|p| path.starts_with(p)) {
                bells.iter().for_each(|bell| bell.notify_one());
            }
        }
    }
}

impl Watched {
    fn leave(&mut self, folder: &Path) {
        let Some(count) = self.folders.get_mut(folder) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.folders.remove(folder);
            // It is gone already when the folder is.
            let _ = self.watcher.unwatch(folder);
        }
    }

    fn enter(&mut self, folder: &Path) -> notify::Result<()> {
        if let Some(count) = self.folders.get_mut(folder) {
            *count += 1;
            return Ok(());
        }
        self.watcher.watch(folder, RecursiveMode::NonRecursive)?;
        self.folders.insert(folder.to_owned(), 1);
        Ok(())
    }
}

impl Watch {
    /// To be called before each look at the file: folders come and go. What happens to the file from now on
    /// notifies `bell`.
    pub(crate) fn ensure(&mut self) -> notify::Result<()> {
        let exists = |folder: &&Path| folder.is_dir();
        let Some(folder) = self.path.ancestors().skip(1).find(exists) else {
            return Ok(());
        };
        if self.folder.as_deref() == Some(folder) {
            return Ok(());
        }
        let shared = &self.files.shared;
        let mut watcher = lock(&shared.watcher);
        if watcher.is_none() {
            let of = Arc::downgrade(shared);
            let made = notify::recommended_watcher(move |event: notify::Result<Event>| {
                if let (Ok(event), Some(shared)) = (event, of.upgrade()) {
                    shared.changed(&event);
                }
            })?;
            *watcher = Some(Watched {
                watcher: made,
                folders: HashMap::new(),
            });
        }
        let Some(watched) = watcher.as_mut() else {
            return Ok(());
        };
        watched.enter(folder)?;
        if let Some(before) = self.folder.replace(folder.to_owned()) {
            watched.leave(&before);
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let shared = &self.files.shared;
        if let (Some(folder), Some(watched)) = (&self.folder, lock(&shared.watcher).as_mut()) {
            watched.leave(folder);
        }
        let mut wanted = lock(&shared.wanted);
        if let Some(bells) = wanted.get_mut(&self.path) {
            if let Some(ours) = bells.iter().position(|b| Arc::ptr_eq(b, &self.bell)) {
                bells.swap_remove(ours);
            }
            if bells.is_empty() {
                wanted.remove(&self.path);
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use std::fs;
    use std::time::Duration;

    use super::*;

    async fn rings(bell: &Notify) -> bool {
        let patience = Duration::from_secs(20);
        tokio::time::timeout(patience, bell.notified())
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn l12_one_watcher_rings_for_files_of_folders_that_are_not_there_yet() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/state.json");
        let files = Files::default();
        let bell = Arc::new(Notify::new());
        let mut watch = files.watch(&path, &bell);
        watch.ensure().unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(rings(&bell).await, "its folder came to be");
        watch.ensure().unwrap();
        fs::write(&path, "one").unwrap();
        assert!(rings(&bell).await, "it came to be");
        let other = root.path().join("a/b/new");
        fs::write(&other, "two").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(rings(&bell).await, "it was replaced");
        drop(watch);
        assert!(lock(&files.shared.wanted).is_empty());
        let watcher = lock(&files.shared.watcher);
        assert!(watcher.as_ref().unwrap().folders.is_empty());
    }

    #[tokio::test]
    async fn two_readers_of_one_folder_do_not_end_each_others_watch() {
        let root = tempfile::tempdir().unwrap();
        let files = Files::default();
        let (one, two) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut first = files.watch(&root.path().join("one"), &one);
        let mut second = files.watch(&root.path().join("two"), &two);
        first.ensure().unwrap();
        second.ensure().unwrap();
        drop(first);
        fs::write(root.path().join("two"), "x").unwrap();
        assert!(rings(&two).await);
    }
}
