//! The suite that every [`Agent`] passes. It owns the list of its cases, so no adapter can omit one.
//!
//! `agent_conformance!(fresh)` makes one test per case; `fresh` is a function that returns a [`Subject`].
//!
//! Not here: anything that product code uses. Other crates have this one as a dev-dependency only.

pub mod cases;
mod stub;

use std::sync::Arc;

use skein_agent::{Agent, LaunchRequest};

/// An implementation under test.
pub struct Subject {
    pub agent: Arc<dyn Agent>,
    /// What its program is called in PATH. The suite puts a program of that name there that only writes
    /// down its arguments and its standard input; `Order::skein` is such a program too.
    pub program: &'static str,
    /// Leaves behind in `Order::private` what a first run would have left, so that it can be resumed.
    pub first_run: fn(&LaunchRequest),
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject")
            .field("agent", &self.agent)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

#[macro_export]
macro_rules! agent_conformance {
    ($fresh:path) => {
        $crate::agent_conformance!(@each $fresh:
            a_start_has_a_program,
            l14_skeins_own_variables_are_left_alone,
            files_stay_inside_the_private_folder,
            a_prompt_goes_in_as_declared,
            l15_hostile_prompts_arrive_byte_for_byte,
            a_prompt_too_long_for_an_argument_goes_another_way,
            resume_works_exactly_when_it_is_declared,
            l5_a_resume_needs_its_private_folder_exactly_when_it_is_declared,
            protocols_are_spoken_exactly_when_declared,
            the_same_order_gives_the_same_start,
            keys_are_never_empty,
            answers_choose_options,
            l6_text_is_not_typed_over_options,
            l13_no_screen_makes_it_panic,
            l13_no_hook_and_no_file_makes_it_panic,
            finding_it_agrees_with_starting_it);
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
