//! Drives an agent program by its protocol, inside a terminal.
//!
//! `skein drive PROTOCOL --journal FILE --calls FILE [OPTION]… -- PROGRAM ARG…` starts the program with pipes, speaks
//! the protocol with it, and draws what happens on its own terminal, so that people can attach to it, read it and find
//! it in the logs like any other agent's. The daemon's prompts, answers and interrupts come as lines of the calls file
//! (`skein_agent::turns`); what people type or paste at the terminal becomes prompts and answers too. The driver writes
//! what happened to the journal, one JSON object per line, which a daemon reads when there is one:
//!
//! ```text
//! {"at": unix_ms, "event": E, "payload": {…}}
//! ```
//!
//! | event | payload | means |
//! |---|---|---|
//! | `ready` | `{}` | it can take a first prompt |
//! | `native` | `{"id"}` | the program's own name for the conversation |
//! | `accepted` | `{"call"}` | the driver acts on the call from now on; on disk before it does |
//! | `refused` | `{"call", "reason"}` | the driver does not act on the call |
//! | `prompt` | `{"text", "call"}` | the program was seen to have taken the prompt; a turn begins |
//! | `turn-end` | `{"reason", "call"}` | the turn is over, or was interrupted or failed for a reason |
//! | `ask` | `{"id", "text", "options", "kinds", "wants"}` | it asks; `kinds` says what each option means, where it is a permission |
//! | `answered` | `{"question", "option", "kind", "call"}` | the question is settled, by that option, or gone |
//! | `usage` | `{"input_tokens", "output_tokens", "cost_usd"}` | used since the last such line; what is not known is left out |
//! | `usage-total` | the same and `"scope": "conversation"` | used in the whole conversation, by earlier runs too; in a forked one the programs count from the first prompt of its ancestor |
//! | `limit` | `{"text", "resets_in"}` | a quota is used up; seconds until it is there again (and `resets_at`, since 1970), where it is known |
//! | `finished` | `{"failed", "reason"}` | the program is gone |
//!
//! `call` is there when a call brought the prompt or the answer. A call is acted on once; one that is not in the journal
//! when the driver ends was not acted on.
//!
//! Not here: what to start and with which environment (the agents' adapters), and what the events mean for a
//! session (the engine). One thread and one `poll` carry it all (HTTP adds two), for there may be
//! many of these.
//!
//! Read `protocol.rs` first, then `conversation.rs`, which ties protocol, keys, view and
//! journal together without touching a file, then `drive.rs`, which does the touching.

mod args;
mod calls;
mod child;
mod conversation;
mod drive;
mod http_connection;
mod input;
mod journal;
mod message_collector;
mod permission;
mod protocol;
mod text;
mod transcript;
mod view;

use std::ffi::OsString;

/// The program; `arguments` are those after `skein drive`. Returns the exit code.
pub fn main(arguments: &[OsString]) -> i32 {
    match args::parse(arguments) {
        Ok(args) => drive::run(args),
        Err(why) => {
            complain(&why);
            2
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a program of its own: there is no other place to say why it does not start"
)]
fn complain(why: &str) {
    eprintln!("skein drive: {why}");
}
