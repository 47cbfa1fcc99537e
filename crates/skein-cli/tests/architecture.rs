//! The crate graph is the picture of the architecture: this holds it to the allow-list, and the documents
//! to what exists.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "architecture/names.rs"]
mod names;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crate, and the crates of ours it may use. A new arrow is a decision of its own.
const ARROWS: &[(&str, &[&str])] = &[
    ("skein-domain", &[]),
    ("skein-wire", &[]),
    ("skein-store", &["skein-domain"]),
    (
        "skein-store-sqlite",
        &["skein-domain", "skein-store", "skein-transcript"],
    ),
    ("skein-transcript", &["skein-domain"]),
    (
        "skein-transcript-object",
        &["skein-domain", "skein-transcript"],
    ),
    (
        "skein-transcript-redis",
        &["skein-domain", "skein-transcript"],
    ),
    ("skein-workspace", &["skein-domain"]),
    ("skein-runtime", &["skein-domain"]),
    ("skein-terminal", &[]),
    ("skein-drive", &["skein-agent", "skein-terminal"]),
    ("skein-agent", &["skein-domain", "skein-transcript"]),
    (
        "skein-ledger",
        &["skein-domain", "skein-store", "skein-transcript"],
    ),
    (
        "skein-fleet",
        &[
            "skein-agent",
            "skein-domain",
            "skein-ledger",
            "skein-runtime",
            "skein-store",
            "skein-transcript",
            "skein-workspace",
        ],
    ),
    ("skein-client", &["skein-wire"]),
    ("skein-fixtures", &["skein-terminal"]),
    (
        "skein-server",
        &[
            "skein-domain",
            "skein-fleet",
            "skein-ledger",
            "skein-store",
            "skein-transcript",
            "skein-wire",
        ],
    ),
    (
        "skein-cli",
        &[
            "skein-agent",
            "skein-client",
            "skein-domain",
            "skein-drive",
            "skein-fixtures",
            "skein-fleet",
            "skein-ledger",
            "skein-runtime",
            "skein-server",
            "skein-store",
            "skein-store-sqlite",
            "skein-transcript",
            "skein-transcript-object",
            "skein-transcript-redis",
            "skein-wire",
            "skein-workspace",
        ],
    ),
    // Suites; only tests and benchmarks depend on these.
    ("skein-store-conformance", &["skein-domain", "skein-store"]),
    (
        "skein-transcript-conformance",
        &["skein-domain", "skein-transcript"],
    ),
    (
        "skein-workspace-conformance",
        &["skein-domain", "skein-workspace"],
    ),
    (
        "skein-runtime-conformance",
        &["skein-domain", "skein-runtime"],
    ),
    ("skein-agent-conformance", &["skein-agent", "skein-domain"]),
];

/// What the domain may use: nothing that does IO, waits, or reads a clock.
const DOMAIN_MAY_USE: &[&str] = &["serde", "thiserror"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What cargo knows of every workspace crate.
fn packages() -> Vec<Value> {
    metadata(&["--no-deps"])
}

/// What cargo knows of every package that a build on Linux may need.
fn all_packages() -> Vec<Value> {
    metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"])
}

fn metadata(options: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(options)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn name(value: &Value) -> String {
    value["name"].as_str().unwrap().to_owned()
}

/// Every workspace crate with its normal dependencies.
fn graph() -> BTreeMap<String, Vec<String>> {
    packages()
        .iter()
        .map(|package| {
            let normal = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|d| d["kind"].is_null());
            (name(package), normal.map(name).collect())
        })
        .collect()
}

#[test]
fn dependencies_point_down_only() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for (package, dependencies) in graph() {
        // Measures everything, is used by nothing.
        if package == "skein-benches" {
            continue;
        }
        let Some(may) = allowed.get(package.as_str()) else {
            panic!(
                "crate `{package}` has no place in the graph yet; give it one in ARROWS and ARCHITECTURE.md"
            );
        };
        for dependency in dependencies.iter().filter(|d| d.starts_with("skein-")) {
            assert!(
                may.contains(&dependency.as_str()),
                "`{package}` must not use `{dependency}`"
            );
        }
    }
}

/// What serves tests stays out of the program, whatever ARROWS says.
#[test]
fn product_crates_use_no_suite_and_no_fixture() {
    for (package, dependencies) in graph() {
        if package == "skein-benches" {
            continue;
        }
        for dependency in dependencies {
            let suite = dependency.ends_with("-conformance");
            let fixture = dependency == "skein-fixtures" && package != "skein-cli";
            assert!(
                !suite && !fixture,
                "`{package}` must not use `{dependency}`: only tests may"
            );
        }
    }
}

/// With features, the program under test could differ from the one that ships.
#[test]
fn no_crate_has_a_feature() {
    for package in packages() {
        let features = package["features"].as_object().unwrap();
        assert!(features.is_empty(), "{}: {features:?}", name(&package));
    }
}

/// `./test` runs no doc tests, so there must be none.
#[test]
fn examples_are_unit_tests() {
    for package in packages() {
        for target in package["targets"].as_array().unwrap() {
            let place = format!("{}: {}", name(&package), name(target));
            assert_eq!(target["doctest"], false, "{place}: set `doctest = false`");
        }
    }
}

#[test]
fn the_domain_is_pure() {
    let graph = graph();
    for dependency in &graph["skein-domain"] {
        assert!(
            DOMAIN_MAY_USE.contains(&dependency.as_str()),
            "`skein-domain` must not use `{dependency}`"
        );
    }
}

/// Words in back quotes that look like paths of ours.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|word| {
        (word.starts_with("crates/") || word.starts_with("docs/") || word.starts_with("benches/"))
            && !word.contains(['*', '{', ' '])
    })
}

#[test]
fn documents_name_only_what_exists() {
    let pages = std::fs::read_dir(root().join("docs")).unwrap();
    let pages = pages.map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|e| e == "md"));
    let top = ["ARCHITECTURE.md", "README.md", "CHANGELOG.md"].map(|page| root().join(page));
    for document in pages.chain(top) {
        let text = std::fs::read_to_string(&document).unwrap();
        for path in named_paths(&text) {
            assert!(
                root().join(path).exists(),
                "{} names `{path}`, which does not exist",
                document.display()
            );
        }
    }
}

/// Pages that are read in one go, and how many lines they may have.
const SHORT: &[(&str, usize)] = &[("ARCHITECTURE.md", 300), ("README.md", 60)];

#[test]
fn the_first_pages_are_short() {
    for (page, most) in SHORT {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let lines = text.lines().count();
        assert!(lines <= *most, "{page} has {lines} lines, more than {most}");
    }
}

/// Files past this size want a seam.
const LONGEST: usize = 800;

#[test]
fn files_have_one_subject() {
    let listed = Command::new("git")
        .args(["ls-files", "*.rs"])
        .current_dir(root())
        .output()
        .unwrap();
    for path in String::from_utf8(listed.stdout).unwrap().lines() {
        let Ok(text) = std::fs::read_to_string(root().join(path)) else {
            continue;
        };
        let lines = text.lines().count();
        assert!(
            lines <= LONGEST,
            "{path} has {lines} lines; where is its seam?"
        );
    }
}

/// Licences a dependency may have.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Zlib",
];

/// TLS comes from rustls; linking OpenSSL would break the single binary.
const BANNED: &[&str] = &["openssl-sys", "native-tls", "aws-lc-sys"];

/// All packages of the workspace on Linux. A new one is a decision: say in the commit what it is for, and change
/// the number. Every machine builds all of them from nothing.
const PACKAGES: usize = 303;

/// Whether one way to read the SPDX expression needs nothing but licences on the list.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ");
    let spaced = spaced.replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let allowed = any(&mut words);
    assert_eq!(words.next(), None, "cannot read licence `{expression}`");
    allowed
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>) -> bool {
    let mut allowed = all(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all(words);
    }
    allowed
}

fn all(words: &mut Words<'_>) -> bool {
    let mut allowed = one(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one(words: &mut Words<'_>) -> bool {
    let word = words.next().unwrap_or_default();
    if word == "(" {
        let allowed = any(words);
        assert_eq!(words.next(), Some(")"));
        return allowed;
    }
    let mut name = word.to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        name = format!("{name} WITH {}", words.next().unwrap_or_default());
    }
    LICENCES.contains(&name.as_str())
}

#[test]
fn dependencies_come_from_the_registry_under_licences_on_the_list() {
    assert!(is_allowed("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(!is_allowed("MIT AND GPL-3.0"));
    assert!(!is_allowed("Apache-2.0 WITH Something-else"));
    for package in all_packages() {
        let name = package["name"].as_str().unwrap();
        assert!(!BANNED.contains(&name), "`{name}` must not be used");
        let Some(source) = package["source"].as_str() else {
            assert!(name.starts_with("skein-"), "`{name}` is of no registry");
            continue;
        };
        assert!(source.starts_with("registry+"), "`{name}` is from {source}");
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(is_allowed(licence), "`{name}` has licence `{licence}`");
    }
}

#[test]
fn no_package_comes_in_unnoticed() {
    assert_eq!(all_packages().len(), PACKAGES);
}

/// How many laws there are.
const LAWS: usize = 15;

/// How many promises the README makes.
const PROMISES: usize = 10;

/// The rows of a table in `docs/laws.md` that begin with `key`, with the tests they name; every test exists.
fn tests_of_row(page: &str, functions: &str, key: &str) -> Vec<String> {
    let start = format!("| {key} |");
    let row = page.lines().find(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("docs/laws.md has no row for {key}"));
    let named = row.split('`').skip(1).step_by(2).map(str::to_owned);
    let named: Vec<String> = named.collect();
    assert!(named.len() >= 2, "docs/laws.md: {key} names too few tests");
    for test in &named {
        let exists = functions
            .lines()
            .any(|line| line.strip_prefix("fn ") == Some(test));
        assert!(exists, "docs/laws.md names `{test}`, which does not exist");
    }
    named
}

#[test]
fn every_law_and_every_promise_names_tests_that_exist() {
    let page = std::fs::read_to_string(root().join("docs/laws.md")).unwrap();
    let functions = Command::new("git")
        .args(["grep", "-hoE", "fn [a-z0-9_]+", "--", "*.rs"])
        .current_dir(root())
        .output()
        .unwrap();
    let functions = String::from_utf8(functions.stdout).unwrap();
    for law in 1..=LAWS {
        for test in tests_of_row(&page, &functions, &format!("L{law}")) {
            let of_law = test.contains(&format!("l{law}_"));
            assert!(of_law, "`{test}` is no test of L{law}");
        }
    }
    for promise in 1..=PROMISES {
        tests_of_row(&page, &functions, &promise.to_string());
    }
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let is_promise = |line: &&str| {
        line.split_once(". **")
            .is_some_and(|(n, _)| n.parse::<u8>().is_ok())
    };
    assert_eq!(readme.lines().filter(is_promise).count(), PROMISES);
}
