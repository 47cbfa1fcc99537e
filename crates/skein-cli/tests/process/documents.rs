//! The pages for users are true: these tests run their commands as they are written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::harness::script::{Document, Shell, free_port};
use crate::harness::{Fleet, Home, end, eventually};

/// An empty home in which `skein` is a command.
fn fleet() -> Fleet {
    let home = Home::new();
    let repo = home.user().join("api");
    let programs = home.user().join("bin");
    fs::create_dir(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_skein"), programs.join("skein")).unwrap();
    Fleet { home, repo }
}

fn shell(fleet: &Fleet) -> Shell {
    let user = fleet.home.user();
    let mut bash = fleet.home.program("bash");
    let path = format!("{}/bin:/usr/bin:/bin:/usr/sbin:/sbin", user.display());
    // The shell does not belong to the home: it outlives the reboot.
    bash.env("PATH", path).env_remove("SKEIN_HOME");
    let root = fleet.home.root().display().to_string();
    let names = vec![
        ("/home/ann/.local/share/skein".to_owned(), root.clone()),
        ("/home/ann".to_owned(), user.display().to_string()),
    ];
    let mut shell = Shell::start(bash, user.join("commands"), names);
    shell.set("SKEIN_HOME", &root);
    shell
}

/// Every process of the home ends at once, as when the machine goes down; the next daemon finds out.
fn reboot(fleet: &Fleet) {
    let live = |fleet: &Fleet| fleet.json(&["ls"])["data"].as_array().unwrap().len();
    let before = live(fleet);
    fleet.kill_daemon();
    eventually(
        || {
            let left = fleet.everything();
            left.keys().for_each(|pid| end(*pid));
            left.is_empty().then_some(())
        },
        || format!("{:?}", fleet.everything()),
    );
    eventually(
        || {
            let lost = fleet.json(&["ls", "--all", "--status", "lost"]);
            (lost["data"].as_array()?.len() == before).then_some(())
        },
        || fleet.json(&["ls", "--all"]).to_string(),
    );
}

/// What a page expects of its reader.
#[derive(PartialEq)]
enum Start {
    /// An empty home.
    Nothing,
    /// A repository with a commit in `~/api`.
    Repository,
}

/// Runs the commands of a page; `left_out` are those that it marks as not to be run here.
fn follow(page: &str, start: &Start, left_out: usize) {
    let fleet = fleet();
    let mut shell = shell(&fleet);
    if *start == Start::Repository {
        Document::parse(REPOSITORY).run(&mut shell, || ());
    }
    // Ports are the machine's, and other tests may use them.
    let document = Document::parse(&read(page).replace("7700", &free_port()));
    let (run, not_run) = document.run(&mut shell, || reboot(&fleet));
    assert_eq!(not_run, left_out, "{page} leaves out commands");
    assert!(run > 0, "{page} has no command");
}

const REPOSITORY: &str = "```sh
git init -q -b main ~/api
git -C ~/api config user.name ann && git -C ~/api config user.email ann@example.com
git -C ~/api commit -q --allow-empty -m begin
```";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

macro_rules! pages {
    ($($test:ident: $page:literal, $start:expr, $left_out:literal;)+) => {
        const FOLLOWED: &[&str] = &[$($page),+];
        $(#[test]
        fn $test() {
            follow($page, &$start, $left_out);
        })+
    };
}

pages! {
    the_readme_can_be_followed: "README.md", Start::Repository, 3;
    getting_started_can_be_followed: "docs/getting-started.md", Start::Nothing, 1;
    sessions_can_be_followed: "docs/sessions.md", Start::Repository, 1;
    messages_can_be_followed: "docs/messages.md", Start::Repository, 0;
    workspaces_can_be_followed: "docs/workspaces.md", Start::Repository, 0;
    handoff_can_be_followed: "docs/handoff.md", Start::Repository, 0;
    crashes_can_be_followed: "docs/crashes.md", Start::Repository, 0;
    events_can_be_followed: "docs/events.md", Start::Repository, 1;
    scripting_can_be_followed: "docs/scripting.md", Start::Repository, 0;
    http_can_be_followed: "docs/http.md", Start::Repository, 1;
    configuration_can_be_followed: "docs/configuration.md", Start::Repository, 0;
    custom_agents_can_be_followed: "docs/custom-agents.md", Start::Repository, 0;
    transcripts_can_be_followed: "docs/transcripts.md", Start::Repository, 0;
}

/// Pages whose commands do not run here, and why.
const NOT_FOLLOWED: &[(&str, &str)] = &[
    (
        "docs/tour.md",
        "`heavy_agents` runs it, with the real agent programs",
    ),
    (
        "docs/benchmarks.md",
        "its commands build a release and measure for minutes",
    ),
];

#[test]
fn every_page_with_commands_is_followed() {
    let pages = fs::read_dir(root().join("docs")).unwrap();
    let pages = pages.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for page in pages.filter(|name| name.ends_with(".md")) {
        let page = format!("docs/{page}");
        let is_known =
            FOLLOWED.contains(&page.as_str()) || NOT_FOLLOWED.iter().any(|(name, _)| *name == page);
        let has_commands = Document::parse(&read(&page)).has_commands();
        assert!(
            is_known || !has_commands,
            "no test runs the commands of {page}"
        );
    }
}

/// Whether a heading of the page has this anchor, as GitHub forms them.
fn has_anchor(page: &str, anchor: &str) -> bool {
    page.lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c })
                .collect::<String>()
                == anchor
        })
}

#[test]
fn every_link_leads_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let decisions = fs::read_dir(root().join("docs/decisions")).unwrap();
    let pages = docs.chain(decisions).map(|entry| entry.unwrap().path());
    let top = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|page| root().join(page));
    for page in pages
        .chain(top)
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
    {
        let text = fs::read_to_string(&page).unwrap();
        for found in link.captures_iter(&text) {
            let target = &found[1];
            if target.starts_with("http") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            assert!(file.exists(), "{}: no {target}", page.display());
            let is_there =
                anchor.is_empty() || has_anchor(&fs::read_to_string(&file).unwrap(), anchor);
            assert!(is_there, "{}: no heading for {target}", page.display());
        }
    }
}
