//! The suite that every [`Backend`] passes. It owns the list of its cases, so no backend can omit one.
//!
//! A backend's test file holds one line, `skein_store_conformance::store_conformance!(fresh);`, where `fresh()`
//! returns a [`Subject`] with an empty backend. Cases carry the names of the laws in `ARCHITECTURE.md`.
//!
//! [`memory`] is the strict in-memory backend, and [`fault`] wraps a backend and injects faults: tests of the
//! engine use both.
//!
//! Not here: anything that product code uses. Other crates have this one as a dev-dependency only.
//! First place to read: [`store_conformance`].

#![expect(
    clippy::unwrap_used,
    reason = "the cases are tests that live in a library to be shared"
)]

mod chain;
mod durable;
pub mod fault;
mod fixture;
mod fleet;
mod lists;
pub mod memory;
mod model;
mod one_writer;
mod raw;
mod walls;

use std::fmt;
use std::sync::Arc;

use skein_store::{Backend, Store};

pub mod cases {
    //! The cases, for [`crate::store_conformance`].
    pub use super::chain::*;
    pub use super::durable::*;
    pub use super::fleet::*;
    pub use super::lists::*;
    pub use super::model::*;
    pub use super::one_writer::*;
    pub use super::raw::*;
    pub use super::walls::*;
}

type Reopen = Box<dyn Fn(Arc<dyn Backend>) -> Arc<dyn Backend>>;

/// A backend under test, a store over it, and a way to open the same data again.
pub struct Subject {
    pub store: Store,
    pub(crate) backend: Arc<dyn Backend>,
    reopen: Reopen,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl Subject {
    /// `reopen` closes the backend it gets and opens the same data again. An in-memory backend returns itself.
    pub fn new(
        backend: Arc<dyn Backend>,
        reopen: impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + 'static,
    ) -> Self {
        Self {
            store: Store::new(backend.clone()),
            backend,
            reopen: Box::new(reopen),
        }
    }

    pub fn reopen(&mut self) {
        self.backend = (self.reopen)(self.backend.clone());
        self.store = Store::new(self.backend.clone());
    }
}

/// Makes one test of every case; the argument is a function that returns a fresh [`Subject`].
#[macro_export]
macro_rules! store_conformance {
    ($fresh:path) => {
        $crate::store_conformance!(@each $fresh:
            l1_fifty_writers_with_one_version_one_wins,
            l1_a_change_without_an_event_is_refused,
            l1_illegal_phase_changes_are_refused,
            l1_what_never_changes_never_changes,
            l1_a_failed_job_leaves_nothing,
            l1_a_panicking_job_leaves_nothing,
            l1_a_job_sees_its_own_writes,
            l1_the_backend_itself_compares_versions,
            l1_replies_come_in_order,
            l1_missing_and_existing_records_are_told_apart,
            l1_gear_never_disappears,
            l4_sagas_are_journalled_and_listed_in_order,
            l4_a_saga_row_of_another_version_is_a_conflict,
            l4_what_a_saga_was_begun_with_never_changes,
            l6_receipts_only_climb,
            l6_what_a_message_is_never_changes,
            l6_a_call_goes_back_only_while_nobody_accepted_it,
            l6_a_right_to_write_is_given_back_only_unused,
            l6_open_receipts_of_a_session_come_in_order,
            l7_tenants_do_not_see_each_other,
            l7_tenants_cannot_change_each_other,
            l8_racers_for_the_last_slot_one_wins,
            l9_events_are_gapless_under_concurrency,
            l9_sealing_keeps_the_chain_and_reads,
            l9_sealing_everything_ends,
            l9_a_stalled_subscriber_changes_nothing,
            l9_a_reader_resumes_from_its_cursor,
            l9_subscribers_are_woken_and_told_of_the_end,
            event_time_never_goes_back,
            acknowledged_writes_survive_reopen,
            fleets_survive_reopen,
            sessions_with_a_process_are_listed,
            a_deleted_session_leaves_no_side_rows,
            missing_and_left_over_side_rows_are_found,
            a_closed_store_is_unavailable,
            a_dropped_caller_does_not_stop_its_write,
            snapshots_do_not_move,
            list_pages_are_stable_under_writes,
            filtered_pages_are_full_and_complete,
            filters_find_by_place_life_and_age,
            prefixes_resolve_or_are_ambiguous,
            ordinals_are_never_reused,
            session_numbers_are_never_reused,
            session_numbers_stay_above_those_of_others,
            claims_belong_to_one_holder,
            replies_are_kept_and_forgotten,
            faults_lose_the_reply_or_the_write_but_never_half,
            random_transactions_agree_with_a_model,
        );
    };
    (@each $fresh:path: $($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                $crate::cases::$case(&mut $fresh());
            }
        )+
    };
}
