//! The small programs inside this one: holder, scripted agent, driver. The first argument selects one before anything
//! else happens, because a holder must stay small: it reads no settings and starts no runtime.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program that the first argument selects, if any.
pub(crate) fn main() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (word, rest) = (arguments.get(1)?, arguments.get(2..)?);
    let code = match word.to_str()? {
        "holder" => skein_runtime::holder::main(rest),
        "drive" => skein_drive::main(rest),
        "scripted" => skein_fixtures::scripted::main(&texts(rest)),
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
