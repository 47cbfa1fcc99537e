//! The suites that tiers of transcripts pass. They own the lists of their cases, so no tier can omit one.
//!
//! A tier's test file holds one line for each suite. `fresh()` returns the tier, empty, and a way to open the same
//! data again:
//! - `skein_transcript_conformance::hot_conformance!(fresh);` with `fn fresh() -> Subject<dyn Hot>`
//! - `skein_transcript_conformance::cold_conformance!(fresh);` with `fn fresh() -> Subject<dyn Cold>`
//! - `skein_transcript_conformance::index_conformance!(fresh);` with `fn fresh() -> Subject<dyn Index>`
//! - `skein_transcript_conformance::transcript_conformance!(fresh);` with `fn fresh() -> Pair`, for the service on top of
//!   any two tiers, the random histories included.
//!
//! Each in a module of its own, since the macros make functions named after the cases. Cases run on
//! [`block_on`]; a tier that needs an async runtime to come up uses it too.
//!
//! [`memory`] has strict in-memory tiers, and [`fault`] wraps tiers and injects faults: tests of the engine use both.
//!
//! Not here: anything that product code uses. Other crates have this one as a dev-dependency only.

#![expect(
    clippy::unwrap_used,
    reason = "the cases are tests that live in a library to be shared"
)]

mod archive;
mod cold;
pub mod fault;
mod fixture;
mod fork;
mod hot;
mod index;
pub mod memory;
mod model;
mod speak;

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use skein_transcript::{Cold, Hot};

pub mod cases {
    //! The cases, for the macros.
    pub mod hot {
        pub use super::super::hot::*;
    }
    pub mod cold {
        pub use super::super::cold::*;
    }
    pub mod index {
        pub use super::super::index::*;
    }
    pub mod transcript {
        pub use super::super::archive::*;
        pub use super::super::fork::*;
        pub use super::super::model::*;
        pub use super::super::speak::*;
    }
}

/// Runs a future to its end, always on the same runtime within one test.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
    }
    RUNTIME.with(|runtime| {
        let make = || Builder::new_current_thread().enable_all().build().unwrap();
        runtime.get_or_init(make).block_on(future)
    })
}

type Reopen<T> = Box<dyn Fn(Arc<T>) -> Arc<T>>;

/// A tier under test, and how to come back to it after a restart.
pub struct Subject<T: ?Sized> {
    pub tier: Arc<T>,
    reopen: Reopen<T>,
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Subject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("tier", &self.tier)
            .finish_non_exhaustive()
    }
}

impl<T: ?Sized> Subject<T> {
    /// `reopen` closes the tier it is given and opens the same data again. One that lives in memory gives
    /// itself back.
    pub fn new(tier: Arc<T>, reopen: impl Fn(Arc<T>) -> Arc<T> + 'static) -> Self {
        Self {
            tier,
            reopen: Box::new(reopen),
        }
    }

    pub fn reopen(&mut self) {
        self.tier = (self.reopen)(self.tier.clone());
    }
}

/// A hot and a cold tier, for the service on top of them.
#[derive(Debug)]
pub struct Pair {
    pub hot: Subject<dyn Hot>,
    pub cold: Subject<dyn Cold>,
}

/// Makes one test of every case for hot tiers; the argument is a function that gives a fresh one.
#[macro_export]
macro_rules! hot_conformance {
    ($fresh:path) => {
        $crate::each_case!(hot, $fresh:
            a_transcript_exists_when_its_head_does,
            l1_commits_compare_versions,
            l1_fifty_writers_with_one_version_one_wins,
            l7_tenants_do_not_see_each_other,
            l10_acknowledged_commits_survive_reopen,
            reads_are_in_order_and_bounded,
            large_entries_are_kept_whole,
            ids_are_found_wherever_they_were_written,
            l10_an_id_that_was_written_before_keeps_the_change_out,
            hidden_strands_stay,
            staged_entries_are_unseen_until_adopted,
            a_stage_that_lacks_something_is_refused,
            staging_again_changes_nothing,
            eviction_compares_versions_and_leaves_nothing,
            lists_name_every_transcript,
        );
    };
}

/// Makes one test of every case for cold tiers; the argument is a function that gives a fresh one.
#[macro_export]
macro_rules! cold_conformance {
    ($fresh:path) => {
        $crate::each_case!(cold, $fresh:
            objects_are_given_back_as_they_were_put,
            puts_hold_to_their_condition,
            racers_for_one_object_one_wins,
            a_tag_names_one_state_only,
            deleting_is_idempotent,
            lists_are_ordered_and_paged,
            l10_acknowledged_puts_survive_reopen,
        );
    };
}

/// Makes one test of every case for search indexes; the argument is a function that gives a fresh one.
#[macro_export]
macro_rules! index_conformance {
    ($fresh:path) => {
        $crate::each_case!(index, $fresh:
            documents_and_marks_change_together,
            l7_other_tenants_are_neither_found_nor_felt,
            words_and_phrases_are_found_with_excerpts,
            better_hits_come_first,
            l13_no_question_is_a_syntax_error,
            filters_all_hold,
            pages_do_not_repeat_while_the_index_grows,
            removed_and_rewound_documents_are_left_out,
            what_is_written_is_found_once,
            l11_shared_history_is_found_once_at_who_wrote_it,
            rewound_messages_are_not_shown,
        );
    };
}

/// Makes one test of every case for the service on a pair of tiers.
#[macro_export]
macro_rules! transcript_conformance {
    ($fresh:path) => {
        $crate::each_case!(transcript, $fresh:
            l10_a_message_said_twice_is_there_once,
            l10_batches_that_overlap_add_what_is_new,
            l10_one_bad_message_keeps_the_batch_out,
            l10_a_stale_run_is_fenced_off,
            l10_appends_survive_reopen_and_lost_replies,
            l10_many_writers_at_one_transcript_all_get_their_turn,
            l10_writers_of_one_process_lose_no_races,
            l10_a_writer_behind_one_that_failed_stands_where_it_should,
            l10_a_call_that_is_answered_meanwhile_is_not_closed,
            calls_of_the_run_that_goes_on_are_its_own,
            l10_open_calls_are_closed_once_when_a_session_goes_on,
            a_repeated_beginning_empties_nothing,
            pages_go_both_ways_and_stay_good_while_it_grows,
            a_reply_begun_again_takes_the_place_of_the_first,
            rewound_ids_can_be_said_again,
            states_are_compared_and_go_with_the_messages,
            summaries_hide_and_never_delete,
            what_was_hidden_was_paid_for,
            time_never_goes_back,
            l13_bad_input_changes_nothing,
            l7_a_foreign_transcript_is_not_found,
            l11_forks_and_sources_do_not_see_each_others_future,
            l11_fork_writes_the_same_at_any_length,
            l11_many_forks_deep_reads_what_it_reads,
            l11_rewinding_never_edits_the_past,
            l10_an_inherited_message_said_again_is_there_once,
            a_fork_asks_its_cold_source_for_ids_once,
            a_repeated_fork_is_one,
            a_fork_of_a_cold_transcript_leaves_it_cold,
            flushing_a_fork_leaves_its_source_hot_and_both_readable,
            flush_and_hydrate_give_back_everything,
            flushing_again_writes_only_what_is_new,
            l4_a_crash_anywhere_in_flush_or_hydrate_loses_nothing,
            a_newer_hot_copy_is_never_overwritten,
            copies_that_went_their_own_ways_are_both_kept,
            a_hydrate_that_was_overtaken_brings_back_the_newest,
            two_flushers_lose_nothing,
            a_flusher_that_was_overtaken_loses_nothing,
            idle_transcripts_are_flushed,
            idle_transcripts_that_fail_do_not_starve_the_others,
            garbage_in_the_cold_tier_is_refused,
            encrypted_transcripts_come_back,
            purged_transcripts_are_gone,
            undoing_a_fork_leaves_anything_else_alone,
            random_histories_agree_with_a_list,
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! each_case {
    ($suite:ident, $fresh:path: $($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                $crate::cases::$suite::$case(&mut $fresh());
            }
        )+
    };
}
