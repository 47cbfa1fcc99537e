//! The driver as a program of its own, for the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    ExitCode::from(u8::try_from(skein_drive::main(&arguments)).unwrap_or(1))
}
