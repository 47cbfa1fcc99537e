//! The `skein` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    skein_cli::main()
}
