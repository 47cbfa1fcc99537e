//! One cgroup per run, where cgroup v2 allows this user to make one.
//!
//! A process cannot leave its cgroup by forking, by a new session or by clearing its environment, so a group lists all
//! processes of a run reliably and kills them in one step. The guard makes and removes the group; the holder starts the
//! agent inside; the daemon uses it after both died.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::statfs;

/// `f_type` of cgroup v2, from statfs(2).
const CGROUP2: u32 = 0x6367_7270;
const PREFIX: &str = "skein.";

/// Where runs get their cgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    /// Below the daemon's own cgroup, if it is writable.
    #[default]
    Auto,
    /// No cgroups: processes are found by other evidence.
    Off,
    /// Below this cgroup.
    In(PathBuf),
}

impl Groups {
    /// `auto`, `off` or an absolute path; the error says what is wrong.
    pub fn parse(word: &str) -> Result<Self, String> {
        match word {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            path if path.starts_with('/') => Ok(Self::In(path.into())),
            _ => Err("expected `auto`, `off` or the absolute path of a cgroup".into()),
        }
    }

    pub(crate) fn to_word(&self) -> std::ffi::OsString {
        match self {
            Self::Auto => "auto".into(),
            Self::Off => "off".into(),
            Self::In(path) => path.clone().into(),
        }
    }

    /// The cgroup in which groups can be made; the error says why there is none. As a test it makes a group, moves this
    /// process into it and back, and removes it, which takes longer than everything else that a start adds.
    pub fn find(&self) -> Result<PathBuf, String> {
        let parent = self.parent(own())?;
        let shown = parent.display().to_string();
        let probe = Group::create_in(&parent, &format!("probe.{}", std::process::id()))
            .map_err(|e| format!("cannot make a group in `{shown}`: {e}"))?;
        let (can_kill, entered) = (probe.can_kill(), probe.enter().map(drop));
        probe.remove();
        if !can_kill {
            return Err("the kernel has no `cgroup.kill`, which requires Linux 5.14".into());
        }
        entered.map_err(|e| format!("cannot move a process into a group of `{shown}`: {e}"))?;
        Ok(parent)
    }

    /// A new group for a run; none where groups cannot be made.
    pub(crate) fn create(&self, mark: &str) -> Option<Group> {
        let group = Group::create_in(&self.parent(own()).ok()?, mark).ok()?;
        if group.can_kill() {
            return Some(group);
        }
        group.remove();
        None
    }

    /// Where groups are to be made, if this user may write there. `own` is this process's cgroup.
    fn parent(&self, own: Option<PathBuf>) -> Result<PathBuf, String> {
        let configured = match self {
            Self::Off => return Err("`daemon.cgroup` is `off`".into()),
            Self::In(path) => Some(path),
            Self::Auto => None,
        };
        // Before `own`, because the user can correct the configured path.
        if let Some(path) = configured.filter(|path| !is_cgroup(path)) {
            let shown = path.display();
            return Err(format!("`{shown}` is not a cgroup of version 2"));
        }
        let own = own
            .filter(|path| is_cgroup(path))
            .ok_or("this process is not in a cgroup of version 2")?;
        let parent = configured.unwrap_or(&own).clone();
        // The kernel lets a process change its cgroup only if both ends and their common parent are writable.
        let above = common(&own, &parent);
        OpenOptions::new()
            .write(true)
            .open(above.join("cgroup.procs"))
            .map_err(|e| format!("cannot write to `{}`: {e}", above.display()))?;
        Ok(parent)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    path: PathBuf,
}

impl Group {
    fn create_in(parent: &Path, mark: &str) -> io::Result<Self> {
        let path = parent.join(name(mark));
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    fn can_kill(&self) -> bool {
        self.path.join("cgroup.kill").exists()
    }

    /// The group that a record names. Agents can write the record, so the path counts only if it leads to a cgroup
    /// whose own name begins with the run's. Symlinks are resolved first, because the name of a link proves nothing;
    /// below a cgroup there are no links, so the resolved path stays valid.
    pub(crate) fn recorded(path: &Path, mark: &str) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        let file = path.file_name().and_then(|name| name.to_str());
        let named = file.is_some_and(|file| file.starts_with(&name(mark)));
        (named && is_cgroup(&path)).then_some(Self { path })
    }

    /// The group below this process's own whose name begins with the run's.
    pub(crate) fn named(mark: &str) -> Option<Self> {
        let below = fs::read_dir(own()?).ok()?;
        let name = name(mark);
        let is_named = |file: &OsStr| file.as_bytes().starts_with(name.as_bytes());
        let mut named = below.flatten().filter(|entry| is_named(&entry.file_name()));
        named.find_map(|entry| Self::recorded(&entry.path(), mark))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves this process into the group until the result is dropped. Processes that it starts meanwhile are in the
    /// group from their first instruction on, and stay there.
    pub(crate) fn enter(&self) -> io::Result<GroupMembership> {
        let before = own().ok_or_else(|| io::Error::other("this process is not in a cgroup"))?;
        move_to(&self.path)?;
        Ok(GroupMembership { before })
    }

    /// Every process in it and in groups below it.
    pub(crate) fn members(&self) -> Vec<i32> {
        let mut found = vec![];
        for path in self.with_groups_below() {
            let listed = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            found.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        found
    }

    /// Kills all members in one step, unless this process is one of them.
    pub(crate) fn kill(&self) {
        let me = i32::try_from(std::process::id()).unwrap_or_default();
        if !self.members().contains(&me) {
            let _ = write(&self.path.join("cgroup.kill"), b"1");
        }
    }

    pub(crate) fn remove(&self) {
        for path in self.with_groups_below().iter().rev() {
            let _ = fs::remove_dir(path);
        }
    }

    /// Parents before children.
    fn with_groups_below(&self) -> Vec<PathBuf> {
        let mut found = vec![self.path.clone()];
        let mut at = 0;
        while let Some(path) = found.get(at) {
            let below: Vec<PathBuf> = fs::read_dir(path)
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path())
                .collect();
            found.extend(below);
            at += 1;
        }
        found
    }
}

/// Moves this process back to its former cgroup when dropped.
#[derive(Debug)]
pub(crate) struct GroupMembership {
    before: PathBuf,
}

impl Drop for GroupMembership {
    fn drop(&mut self) {
        // If it fails, this process stays in the group, and `kill` spares it.
        let _ = move_to(&self.before);
    }
}

/// A mark as a single path component.
fn name(mark: &str) -> String {
    format!("{PREFIX}{}", mark.replace('/', "."))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the type of `f_type` differs between machines; the number has 32 bits"
)]
fn is_cgroup(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type as u32 == CGROUP2)
}

fn move_to(group: &Path) -> io::Result<()> {
    write(&group.join("cgroup.procs"), b"0")
}

/// Does not create the file: a group may have been removed meanwhile.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text)
}

fn own() -> Option<PathBuf> {
    let cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let found = place(&cgroup, &mounts)?;
    fs::metadata(&found)
        .is_ok_and(|m| m.nlink() > 0)
        .then_some(found)
}

/// Finds a process's cgroup from its /proc/self/cgroup and /proc/self/mountinfo.
fn place(cgroup: &str, mounts: &str) -> Option<PathBuf> {
    let inside = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        // A mount may show only a part of the hierarchy.
        let rest = Path::new(inside).strip_prefix(root).ok()?;
        Some(Path::new(point).join(rest))
    })
}

/// The deepest folder above both.
fn common(one: &Path, other: &Path) -> PathBuf {
    let shared = one.components().zip(other.components());
    shared.take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cgroup_is_found_in_every_layout() {
        let unified = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";
        let hybrid = "30 20 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:3 - cgroup2 cgroup2 rw\n";
        let part = "41 31 0:38 /box /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";
        for (cgroup, mounts, expected) in [
            ("0::/a/b.scope\n", unified, Some("/sys/fs/cgroup/a/b.scope")),
            ("9:cpu:/x\n0::/\n", hybrid, Some("/sys/fs/cgroup/unified")),
            ("0::/box/run\n", part, Some("/sys/fs/cgroup/run")),
            ("0::/elsewhere\n", part, None),
            ("9:cpu:/x\n", hybrid, None),
        ] {
            let found = place(cgroup, mounts).map(|p| p.components().collect::<PathBuf>());
            assert_eq!(found.as_deref(), expected.map(Path::new), "{cgroup:?}");
        }
    }

    #[test]
    fn a_configured_path_is_checked_before_the_own_cgroup() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let error = Groups::In(path.clone()).parent(None).unwrap_err();
        let expected = format!("`{}` is not a cgroup of version 2", path.display());
        assert_eq!(error, expected);
    }

    #[test]
    fn a_recorded_group_must_be_a_cgroup_with_the_runs_name() {
        assert!(Group::recorded(Path::new("/sys/fs/cgroup"), "t/s/1/ab").is_none());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("skein.t.s.1.ab");
        fs::create_dir(&path).unwrap();
        assert!(Group::recorded(&path, "t/s/1/ab").is_none(), "no cgroup");
    }
}
