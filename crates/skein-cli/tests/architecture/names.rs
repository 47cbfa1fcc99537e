//! Names of types: words of the field or of the glossary, and one name for one thing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::root;

/// Words that an engineer knows from elsewhere. A word with a meaning of Skein's own belongs into `docs/glossary.md`.
const COMMON: &str = "
    account acp active add address addressing admission allowance amount answer api app append appended arg audit
    backend base batch block board body box branch break bucket cache call caller candidate capacity cause cell
    cgroup chain change chat check checkout child choice cipher claim claude cli client clock clone code collector
    command commit compact completion condition config conflict connection content contents context conversation copy
    cost creation currency cursor custom damage database decision decoder deliverable delivery delta demo derived
    detach detail detection diff dir direction disk display doctor document domain done download drive durability
    edit editor effect end endpoint engine entity entry env envelope environment error escape event eviction evidence
    excerpt exchange exit explanation export extra fact failure fault feed field file filler filter finding flag
    flushed fold folder follower form format fraction frame future garbage git global grace group hash head header
    health history hit http hydrated id idempotency identity image import incoming index init insert inspection interrupt
    invalid item job key kill launch lazy ledger limit line link list listing location lock ls machine mailbox maker
    man manifest match membership memory message method miss mode module name node note notice number object
    operation option order origin outcome output overview owner page pager paint parser part path payload peer
    pending performer permission plan point policy port prefix prepared presence proc process profile program
    progress prompt provider pty purpose query quota range read reader reason record recording redaction redis ref
    refresh refreshed refused registration registry related remote removal renderer repair reply repo report request
    reset response restore result retention rewound ring role rollout room route row rules run scan scope scratch
    script search searchable second secret segment send session setting settings setup show sink size slice snapshot
    sort span spawn spec spent sqlite stage stamp start state statement status stop store stream subscription swap
    system tag target task temp term terminal text threshold ticket time timestamp tmux token tool transaction
    transport tree trial update upload usage user v1 value var verifier verify version versioned view viewer
    visibility wait waiter wakeup watch web weight window word work workspace worktree write writer zone
";

/// Words that say nothing alone, but may qualify another one.
const QUALIFIERS: &str = "
    all asked begin begun built by counting covered created damaged decoded delayed dot driven empty ended endless
    existing explained followed forked found held idle inherited installed known last leaves live locked
    missing more nearest new next observed one open or ordinal packed passed plain pooled positioned prior put queued
    raw real removed requested sealed seen set shown side staged stale strict taken test timed truncated typed
    unclosed unkeyed unmet unrecorded watched with written
";

/// Products whose names are part of types.
const PRODUCTS: &[&str] = &[
    "Aider",
    "ClaudeCode",
    "Codex",
    "Gemini",
    "OpenCode",
    "Scripted",
];

/// Whole names that are clear although one of their words alone would not be.
const CLEAR: &[&str] = &["NotFound", "ForkedFrom"];

/// Types that share a name on purpose, and why.
const SHARED: &[(&str, &str)] = &[
    ("each crate has one of its own", "Error Result"),
    (
        "the same idea in the core and in the API",
        "Abilities AddProject Agent Answer Appended Backup Block Deliverable Delta Event Flushed ForkedFrom Hit Hook
         Hydrated Limits Merge Message Native NewToken Part Project Question Receipt Retention Rewound RuleTrial Runtime
         Saga Screen Session Spawn Summary Task TerminalAddress Thread Token TranscriptUsage Tree Usage Why Window Workspace",
    ),
    ("the same idea in every suite", "Fault Subject"),
];

/// Types whose one word says too little, by crate. This list only shrinks.
const RIDDLES: &[(&str, &str)] = &[
    ("agent", "Installed Latest"),
    ("cli", "Running Settled Waiting"),
    ("client", "Live"),
    ("fleet", "Act Finished Taken"),
    ("ledger", "Recent Unindexed"),
    ("runtime", "Accepted Ended Malformed"),
    ("transcript", "Cut"),
    ("transcript-object", "At Means"),
    ("wire", "Ask Covers Imported Repaired"),
    ("workspace", "Nested Unmerged"),
];

/// Types that a crate does not export and whose name another crate uses too. This list only shrinks.
const PRIVATE: &[(&str, &str)] = &[
    (
        "the driver has its own form of what the core and the API have",
        "Answer Block Draft Event Kind Permission Question Screen Setting Size Step Transcript Usage",
    ),
    (
        "the driver and another crate each write or read a journal, speak a protocol, or draw a view",
        "Journal Protocol View",
    ),
    (
        "each adapter of an agent reads its own program's files",
        "History Messages State",
    ),
    (
        "each backend has its own form of what its contract has",
        "Access Cursor Failure Folder Name Node Pool Result Writer",
    ),
    (
        "the command line has its own form of what it prints or is set to",
        "Agent Facts Format Settings Stage Table",
    ),
    (
        "a step of one subsystem, never used beside its namesake",
        "CommandError Files Inspection Interrupt Process Snapshot Start Transport Tree",
    ),
];

/// Exported types that share a name by mistake: crate, name, proposal. This list only shrinks.
const RENAMES: &[(&str, &str, &str)] = &[("agent", "Reader", "SourceReader")];

/// Crates that only tests use. Their private types are not read.
fn is_for_tests(package: &str) -> bool {
    package == "fixtures" || package.ends_with("-conformance")
}

/// A type or trait that others than its module can use.
struct Declared {
    name: String,
    is_exported: bool,
}

/// The type or trait that a line declares, unless only its module can use it.
fn declared(line: &str) -> Option<Declared> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let (is_exported, rest) = match rest.strip_prefix('(') {
        Some(rest) => (false, rest.split_once(')')?.1),
        None => (true, rest),
    };
    let (kind, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    let is_type = matches!(kind, "struct" | "enum" | "trait" | "type");
    (is_type && name.starts_with(char::is_uppercase)).then(|| Declared {
        name: name.to_owned(),
        is_exported,
    })
}

/// Crate, without `skein-`, and its types and traits.
fn types() -> BTreeMap<String, Vec<Declared>> {
    let listed = Command::new("git")
        .args(["ls-files", "crates/*/src/*.rs"])
        .current_dir(root())
        .output()
        .unwrap();
    let mut types: BTreeMap<String, Vec<Declared>> = BTreeMap::new();
    for path in String::from_utf8(listed.stdout).unwrap().lines() {
        let Ok(text) = std::fs::read_to_string(root().join(path)) else {
            continue;
        };
        let package = Path::new(path).components().nth(1).unwrap().as_os_str();
        let package = package.to_str().unwrap().trim_start_matches("skein-");
        let found = text.lines().filter_map(declared);
        let found = found.filter(|found| found.is_exported || !is_for_tests(package));
        types.entry(package.to_owned()).or_default().extend(found);
    }
    types
}

fn is_riddle(package: &str, name: &str) -> bool {
    let of_package = RIDDLES.iter().filter(|(p, _)| *p == package);
    of_package
        .flat_map(|(_, names)| names.split(' '))
        .any(|n| n == name)
}

fn is_in(list: &[(&str, &str)], name: &str) -> bool {
    let names = list.iter().flat_map(|(_, names)| names.split_whitespace());
    names.into_iter().any(|n| n == name)
}

/// The words of a name, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![];
    for c in name.chars() {
        match words.last_mut() {
            Some(word) if !c.is_uppercase() => word.push(c),
            _ => words.push(c.to_lowercase().collect()),
        }
    }
    words
}

/// The words that the glossary explains: those of its first column.
fn glossary() -> BTreeSet<String> {
    let page = std::fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let terms = rows.filter_map(|row| row.split(" |").next());
    let separators = |c: char| !c.is_alphabetic();
    let words = terms.flat_map(|term| term.split(separators));
    words.map(str::to_lowercase).collect()
}

#[test]
fn types_use_words_of_the_field_or_of_the_glossary() {
    let common: BTreeSet<&str> = COMMON.split_whitespace().collect();
    let qualifiers: BTreeSet<&str> = QUALIFIERS.split_whitespace().collect();
    let glossary = glossary();
    let is_known = |word: &str| {
        let singular = word.strip_suffix('s').unwrap_or(word);
        let entity = word.strip_suffix("ies").map(|stem| format!("{stem}y"));
        let forms = [Some(word), Some(singular), entity.as_deref()];
        forms
            .into_iter()
            .flatten()
            .any(|form| common.contains(form) || glossary.contains(form))
    };
    let mut riddles = vec![];
    for (package, declared) in types() {
        if is_for_tests(&package) {
            continue;
        }
        for Declared { name, .. } in &declared {
            let is_exempt = PRODUCTS.contains(&name.as_str()) || CLEAR.contains(&name.as_str());
            if is_exempt || is_riddle(&package, name) {
                continue;
            }
            let words = words(name);
            let qualifies = |word: &str| words.len() > 1 && qualifiers.contains(word);
            let unknown = words
                .iter()
                .filter(|word| !is_known(word) && !qualifies(word));
            riddles.extend(unknown.map(|word| format!("`{word}` in skein-{package} `{name}`")));
        }
    }
    assert!(
        riddles.is_empty(),
        "neither common words of the field nor in docs/glossary.md:\n{}",
        riddles.join("\n")
    );
}

/// By name: the crates that export such a type, and those that have one of their own.
fn namesakes() -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
    let mut found: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    for (package, declared) in types() {
        for Declared { name, is_exported } in declared {
            if RENAMES.iter().any(|(p, n, _)| *p == package && *n == name) {
                continue;
            }
            let (exported, private) = found.entry(name).or_default();
            match is_exported {
                true => exported.insert(package.clone()),
                false => private.insert(package.clone()),
            };
        }
    }
    found
}

fn is_shared(exported: &BTreeSet<String>) -> bool {
    exported.len() > 1
}

fn is_shared_in_private(exported: &BTreeSet<String>, private: &BTreeSet<String>) -> bool {
    !private.is_empty() && exported.union(private).count() > 1
}

#[test]
fn a_name_means_one_thing() {
    let mut found = namesakes();
    found.retain(|name, (exported, private)| {
        (is_shared(exported) && !is_in(SHARED, name))
            || (is_shared_in_private(exported, private) && !is_in(PRIVATE, name))
    });
    assert!(found.is_empty(), "two types of one name: {found:#?}");
}

#[test]
fn lists_of_names_have_no_entry_too_many() {
    let (types, namesakes) = (types(), namesakes());
    let declares = |package: &str, name: &str| {
        let declared = types.get(package).into_iter().flatten();
        declared.into_iter().any(|found| found.name == name)
    };
    let mut too_many = vec![];
    for (package, name, _) in RENAMES.iter().filter(|(p, n, _)| !declares(p, n)) {
        too_many.push(format!("RENAMES: {package} {name}"));
    }
    for (package, names) in RIDDLES {
        for name in names.split(' ').filter(|name| !declares(package, name)) {
            too_many.push(format!("RIDDLES: {package} {name}"));
        }
    }
    for (_, names) in SHARED {
        let alone = |name: &&str| !namesakes.get(*name).is_some_and(|(e, _)| is_shared(e));
        too_many.extend(
            names
                .split_whitespace()
                .filter(alone)
                .map(|n| format!("SHARED: {n}")),
        );
    }
    for (_, names) in PRIVATE {
        let alone = |name: &&str| {
            let found = namesakes.get(*name);
            !found.is_some_and(|(e, p)| is_shared_in_private(e, p))
        };
        too_many.extend(
            names
                .split_whitespace()
                .filter(alone)
                .map(|n| format!("PRIVATE: {n}")),
        );
    }
    assert!(
        too_many.is_empty(),
        "remove from the lists:\n{}",
        too_many.join("\n")
    );
}
