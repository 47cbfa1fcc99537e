//! The guard: the holder's parent, which ends the agent's process tree if the holder is killed.
//!
//! As a subreaper it becomes the parent of every process that a killed holder leaves. Until then it sleeps in `wait`.

use std::ffi::OsStr;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, set_child_subreaper, setsid, wait};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::start::{Report, release_stdio, report};
use super::tree::Tree;
use super::{HOLD, own_program};
use crate::cgroup::{Group, Groups};
use crate::runtime::Grace;

pub(super) fn main(groups: &OsStr, mark: &OsStr, folder: &OsStr) -> i32 {
    // Fails if it is already a session leader, which is fine.
    let _ = setsid();
    let _ = rustix::thread::set_name(c"skein-guard");
    if let Err(error) = prepare() {
        return report(&Report::Failed {
            why: format!("cannot guard the holder: {error}"),
        });
    }
    let group = make_group(groups, mark);
    let path = group
        .as_ref()
        .map_or(OsStr::new(""), |g| g.path().as_os_str());
    let holder = match own_program("skein", &[OsStr::new(HOLD), path, folder], mark).spawn() {
        Ok(holder) => holder.id(),
        Err(error) => {
            if let Some(group) = group {
                group.remove();
            }
            return report(&Report::Failed {
                why: format!("cannot start the holder: {error}"),
            });
        }
    };
    release_stdio();
    guard(holder, group);
    0
}

/// Waits for the end of the process `holder`, our child, and ends what it left.
fn guard(holder: u32, group: Option<Group>) {
    let holder = i32::try_from(holder).unwrap_or_default();
    until_over(holder);
    // A holder that ended normally has left nothing.
    Tree::new(holder, group.clone()).end_within(Grace::default().terminate);
    if let Some(group) = group {
        group.remove();
    }
}

fn prepare() -> std::io::Result<()> {
    set_child_subreaper(Pid::from_raw(1))?;
    // A shutdown signals all processes at once, but the holder decides when the run is over.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let ignored = std::sync::Arc::default();
        signal_hook::flag::register(signal, ignored)?;
    }
    Ok(())
}

/// A run without a cgroup is guarded too.
fn make_group(groups: &OsStr, mark: &OsStr) -> Option<Group> {
    Groups::parse(groups.to_str()?).ok()?.create(mark.to_str()?)
}

fn until_over(holder: i32) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, _))) if pid.as_raw_nonzero().get() == holder => return,
            Ok(_) | Err(Errno::INTR) => {}
            // Without a child there is nothing to wait for.
            Err(_) => return,
        }
    }
}
