//! The tour is true: its commands are carried out as they stand there, with the programs that it names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::agents::stage::programs;
use crate::harness::Fleet;
use crate::harness::Home;
use crate::harness::script::{Document, Shell, free_port};

#[test]
fn heavy_the_tour_can_be_followed() {
    let home = Home::with_root("tour/home");
    let user = home.user();
    let fleet = Fleet {
        repo: user.join("tour/api"),
        home,
    };
    fs::create_dir(user.join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_skein"), user.join("bin/skein")).unwrap();
    let mut bash = fleet.home.program("bash");
    let path = format!(
        "{}/bin:{}/bin:/usr/local/bin:/usr/bin:/bin",
        user.display(),
        programs()
    );
    bash.env("PATH", path).env_remove("SKEIN_HOME");
    let names = vec![("/home/ann".to_owned(), user.display().to_string())];
    let mut shell = Shell::start(bash, user.join("commands"), names);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tour.md");
    let text = fs::read_to_string(page).unwrap();
    // Ports are the machine's, and others may use them.
    let document = Document::parse(&text.replace("8123", &free_port()));
    let (run, left_out) = document.run(&mut shell, || ());
    // The installation.
    assert_eq!(left_out, 1);
    assert!(run > 40, "only {run} commands were run");
}
