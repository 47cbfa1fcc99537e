//! The small programs inside of this one: holder, tmux keeper, scripted agent, driver. They are chosen by the first
//! word, before anything else happens: a holder must stay small, and neither reads settings nor starts a
//! runtime.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program that the first word names, if it names one.
pub(crate) fn main() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (word, rest) = (arguments.get(1)?, arguments.get(2..)?);
    let code = match word.to_str()? {
        "holder" => skein_runtime::holder::main(rest),
        "tmux-keeper" => skein_runtime::tmux::keeper_main(rest),
        "drive" => skein_drive::main(rest),
        "scripted" => skein_agent::scripted::main(&texts(rest)),
        _ => return None,
    };
    Some(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn texts(arguments: &[OsString]) -> Vec<String> {
    arguments
        .iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}
