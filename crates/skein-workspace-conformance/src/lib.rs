//! The suite that every kind of workspace passes. It owns the list of its cases, so no kind can omit one.
//!
//! A kind's test file holds one line, `skein_workspace_conformance::workspace_conformance!(fresh);`, where
//! `fresh()` returns a [`Fixture`]. A kind declares there what it can do; a case that needs more prints that it was
//! skipped. [`Ground`] is a git project in a temporary folder; other tests of workspaces use it too.
//!
//! Not here: anything that product code uses. Other crates have this one as a dev-dependency only.

#![expect(
    clippy::unwrap_used,
    reason = "the cases are tests that live in a library to be shared"
)]

pub mod cases;
mod ground;

pub use ground::{Files, Ground};

use skein_domain::{Backup, SagaId, SessionId, Timestamp, Workspace, WorkspaceState};

use skein_workspace::provider::{Plan, WorkspaceProvider};

/// What a kind of workspace can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// It is made for the session, and removed.
    Managed,
    /// It is kept in git: branches, backups, differences.
    Git,
}

/// A provider under test, on ground of its own.
#[derive(Debug)]
pub struct Fixture {
    pub ground: Ground,
    pub provider: Box<dyn WorkspaceProvider>,
    pub abilities: Vec<Ability>,
}

impl Fixture {
    /// Whether the kind can do this; says so when it cannot.
    #[expect(clippy::print_stderr, reason = "a skipped case must be seen")]
    pub fn can(&self, ability: Ability) -> bool {
        let can = self.abilities.contains(&ability);
        if !can {
            eprintln!("skipped: {} has not {ability:?}", self.provider.kind());
        }
        can
    }

    pub fn session(&self) -> SessionId {
        "api-7".parse().unwrap()
    }

    pub fn plan(&self) -> Plan {
        Plan {
            session: self.session(),
            tenant: "default".into(),
            project: Some(self.ground.project()),
            branch: None,
            base: None,
        }
    }

    /// Plans and makes a workspace.
    pub fn made(&self) -> Workspace {
        let planned = self.provider.plan(&self.plan()).unwrap();
        self.make(&planned)
    }

    pub fn make(&self, workspace: &Workspace) -> Workspace {
        self.provider
            .make(&self.session(), workspace)
            .unwrap()
            .workspace
    }

    /// Makes again what was removed.
    pub fn make_again(&self, workspace: &Workspace) -> Workspace {
        self.make(&workspace.in_state(WorkspaceState::Gone))
    }

    /// One saga of many.
    pub fn saga(&self, n: u8) -> SagaId {
        SagaId::from_random([n; 10])
    }

    /// Backs up what must be backed up, and records it.
    pub fn backed_up(&self, workspace: &Workspace) -> (Workspace, Backup) {
        let saga = self.saga(1);
        let backup = self
            .provider
            .backup(&self.session(), workspace, &saga, self.now())
            .unwrap()
            .unwrap();
        (workspace.with_backup(Some(backup.clone())), backup)
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000)
    }
}

/// Makes one test of every case; the argument is a function that gives a fresh [`Fixture`].
#[macro_export]
macro_rules! workspace_conformance {
    ($fresh:path) => {
        $crate::workspace_conformance!(@each $fresh:
            a_plan_touches_nothing,
            a_plan_without_a_folder_is_refused_or_needs_none,
            made_is_ready_and_there,
            making_twice_is_making_once,
            an_unrecorded_workspace_needs_setup,
            l5_fresh_is_clean,
            l5_files_are_seen,
            l5_removal_keeps_work,
            l5_clean_goes_without_a_trace,
            removing_twice_is_removing_once,
            a_removal_cut_short_is_completed,
            l5_what_is_not_ours_stays,
            l5_a_backup_changes_nothing,
            l5_nothing_to_keep_is_no_backup,
            l5_a_backup_made_twice_is_one,
            l5_what_came_after_the_backup_is_not_removed,
            l5_work_comes_back_byte_for_byte,
            l5_what_was_dropped_stays_away,
            differences_show_everything,
            set_up_is_told_line_by_line,
            set_up_that_fails_says_why,
            set_up_that_hangs_is_ended,
            l14_set_up_gets_only_its_environment,
            l15_tenants_are_names,
        );
    };
    (@each $fresh:path: $($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                $crate::cases::$case(&$fresh());
            }
        )+
    };
}
