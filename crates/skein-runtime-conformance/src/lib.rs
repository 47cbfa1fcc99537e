//! The suite that every runtime passes. It owns the list of its cases, so no runtime can omit one.
//!
//! `runtime_conformance!(fresh)` makes one test per case; `fresh()` returns an empty [`TestHome`]. After each case
//! the suite ends and forgets every run of that home, so no test leaves a process behind.
//!
//! Not here: anything that product code uses. Other crates have this one as a dev-dependency only.

#![expect(
    clippy::unwrap_used,
    reason = "the suite is a test: it fails where it stands"
)]

mod bench;
pub mod hostile;
pub mod input;
pub mod life;
pub mod tree;

pub use bench::{Bench, TestHome, dead};

/// One `#[test]` per case over the home that `$fresh` makes.
#[macro_export]
macro_rules! runtime_conformance {
    ($fresh:path) => {
        $crate::runtime_conformance!(@each $fresh:
            life::outlives_its_client,
            life::is_found_again_by_list_and_connect,
            life::launched_twice_is_one_run,
            life::exit_code_is_kept_until_forgotten,
            life::exit_by_signal_is_told,
            life::a_missing_program_is_named_and_leaves_nothing,
            life::a_missing_folder_is_an_error_and_leaves_nothing,
            life::forget_is_repeatable_and_refuses_the_living,
            life::two_homes_do_not_see_each_other,
            life::environment_and_arguments_are_exact,
            life::standard_input_can_be_a_file,
            life::an_unknown_run_is_missing,
            input::a_numbered_input_is_taken_once,
            input::a_number_is_taken_once_across_clients,
            input::paste_is_bracketed_only_when_asked_for,
            input::paste_of_a_megabyte_arrives_whole,
            input::paste_cannot_close_its_own_bracket,
            input::text_is_never_read_as_an_option,
            input::the_screen_shows_what_was_printed,
            input::resize_is_seen_by_the_program,
            input::big_output_does_not_stall_input,
            input::sight_follows_output_and_exit,
            tree::end_takes_the_whole_tree,
            tree::end_kills_what_ignores_the_polite_signal,
            tree::what_the_agent_left_running_goes_with_it,
            tree::l3_a_killed_holder_is_told_truthfully_and_its_leftovers_end,
            hostile::escapes_reach_neither_screen_nor_log,
            hostile::the_agent_gets_no_descriptor_of_ours,
            hostile::the_log_is_bounded,
        );
    };
    (@each $fresh:path: $($group:ident :: $case:ident),+ $(,)?) => {
        $(#[test] fn $case() {
            $crate::Bench::run(
                ::std::boxed::Box::new($fresh()),
                |bench| ::std::boxed::Box::pin($crate::$group::$case(bench)),
            );
        })+
    };
}
