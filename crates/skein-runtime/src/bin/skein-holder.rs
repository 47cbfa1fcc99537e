//! The holder as a separate program, for the tests; in the product it is a mode of `skein`.

use std::ffi::OsString;

fn main() {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    std::process::exit(skein_runtime::holder::main(&args));
}
