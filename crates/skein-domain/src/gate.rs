//! Gates: rules that refuse to archive or delete something while sessions still need it.

use crate::error::Refused;
use crate::id::{SessionId, ThreadId};
use crate::phase::PhaseName;

/// Most offenders in one refusal; the total is always exact.
pub const SAMPLE: usize = 50;

/// Whether a session has an agent's process or a saga, which an archived thread would orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveWork {
    None,
    Live,
}

/// Refuses to archive a thread while a session works on it.
pub fn archive_thread(
    thread: &ThreadId,
    sessions: impl IntoIterator<Item = (SessionId, PhaseName, LiveWork)>,
) -> Result<(), Refused> {
    refuse_any(
        thread,
        "archive",
        sessions
            .into_iter()
            .filter(|(_, phase, run)| phase.blocks_archive() || *run == LiveWork::Live)
            .map(|(session, phase, _)| (session, phase)),
    )
}

/// Refuses to delete a thread while any session belongs to it.
pub fn delete_thread(
    thread: &ThreadId,
    sessions: impl IntoIterator<Item = (SessionId, PhaseName)>,
) -> Result<(), Refused> {
    refuse_any(thread, "delete", sessions.into_iter())
}

fn refuse_any(
    thread: &ThreadId,
    op: &'static str,
    blocking: impl Iterator<Item = (SessionId, PhaseName)>,
) -> Result<(), Refused> {
    let mut offenders = Vec::new();
    let mut total = 0;
    for offender in blocking {
        total += 1;
        if offenders.len() < SAMPLE {
            offenders.push(offender);
        }
    }
    if total == 0 {
        Ok(())
    } else {
        Err(Refused::ThreadNotEmpty {
            thread: thread.clone(),
            op,
            offenders,
            total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_names_fifty_and_counts_all() {
        let thread = ThreadId::from_random([0; 10]);
        let many = (1..=60).map(|n| {
            (
                format!("api-{n}").parse().unwrap(),
                PhaseName::Active,
                LiveWork::None,
            )
        });
        match archive_thread(&thread, many) {
            Err(Refused::ThreadNotEmpty {
                offenders, total, ..
            }) => {
                assert_eq!((offenders.len(), total), (50, 60));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_work_in_progress_blocks_an_archive() {
        let thread = ThreadId::from_random([0; 10]);
        for phase in PhaseName::ALL {
            let one = || [("api-1".parse().unwrap(), phase)];
            let free = matches!(
                phase,
                PhaseName::Idle | PhaseName::Ended | PhaseName::Archived
            );
            let with = |run| one().map(|(session, phase)| (session, phase, run));
            assert_eq!(
                archive_thread(&thread, with(LiveWork::None)).is_ok(),
                free,
                "{phase}"
            );
            assert!(
                archive_thread(&thread, with(LiveWork::Live)).is_err(),
                "{phase}"
            );
            assert!(delete_thread(&thread, one()).is_err(), "{phase}");
        }
    }
}
