//! The tmux keeper on its own, for the tests; in the product it is a mode of `skein`.

fn main() {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    std::process::exit(skein_runtime::tmux::keeper_main(&args));
}
