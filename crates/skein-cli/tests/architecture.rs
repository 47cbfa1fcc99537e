//! The crate graph is the picture of the architecture: this holds it to the allow-list, and the documents
//! to what exists.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

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
    ("skein-drive", &["skein-terminal"]),
    ("skein-agent", &["skein-domain", "skein-terminal"]),
    (
        "skein-engine",
        &[
            "skein-agent",
            "skein-domain",
            "skein-runtime",
            "skein-store",
            "skein-transcript",
            "skein-workspace",
        ],
    ),
    ("skein-client", &["skein-wire"]),
    ("skein-model-server", &[]),
    (
        "skein-server",
        &[
            "skein-domain",
            "skein-engine",
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
            "skein-engine",
            "skein-model-server",
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
];

/// What the domain may use: nothing that does IO, waits, or reads a clock.
const DOMAIN_MAY_USE: &[&str] = &["thiserror"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every workspace crate with its normal dependencies.
fn graph() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |v: &Value| v["name"].as_str().unwrap().to_owned();
    metadata["packages"]
        .as_array()
        .unwrap()
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
    for document in ["ARCHITECTURE.md", "README.md", "CHANGELOG.md"] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for path in named_paths(&text) {
            assert!(
                root().join(path).exists(),
                "{document} names `{path}`, which does not exist"
            );
        }
    }
    let lines = std::fs::read_to_string(root().join("ARCHITECTURE.md"))
        .unwrap()
        .lines()
        .count();
    assert!(
        lines < 300,
        "ARCHITECTURE.md has {lines} lines; it is meant to be read in one go"
    );
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
