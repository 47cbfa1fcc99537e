//! The scripted agent as a separate program, for tests of this crate; users have `skein scripted`.

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(skein_fixtures::scripted::main(&args));
}
