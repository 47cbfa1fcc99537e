//! Names of public types: words of the field or of the glossary, and one name for one thing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::root;

/// Crates whose public types use the words of the glossary.
const CORE: &[&str] = &[
    "domain",
    "store",
    "transcript",
    "workspace",
    "runtime",
    "agent",
    "engine",
    "ledger",
    "fleet",
];

/// Words that an engineer knows from elsewhere. A word with a meaning of Skein's own belongs into `docs/glossary.md`.
const COMMON: &str = "
    performer prepared progress setup waiter
    account active add address allowance answer append appended backend batch block board box break bucket call
    caller cgroup chain change cipher claim clock clone code command commit condition conflict contents context copy
    creation currency custom damage database decision deliverable delivery delta derived detach detail detection
    diff dir direction document domain edit engine entity entry env error escape event eviction evidence excerpt exchange exit
    fact failure fault feed file filter flushed follower future git grace group hash head history hit hydrated id
    idempotency identity image index insert invalid job key kill launch ledger limit link list listing location
    machine match memory message mode name node number object option order origin outcome overview page parser part
    path pending permission plan point policy process profile program prompt provider pty purpose query quota range
    read reader reason record redaction redis ref refreshed refused registry removal reply report request reset
    result retention rewound ring role row rules run scan scope search searchable session settings size slice
    snapshot sort spawn spent start state status store subscription swap system tag target task term terminal text
    threshold time timestamp tmux token tool transaction tree trial update usage user value var verifier verify
    version versioned view visibility weight window word work workspace worktree write writer zone
";

/// Words that say nothing alone, but may qualify another one.
const QUALIFIERS: &str = "
    all counting covered created damaged driven existing explained followed forked found inherited installed known
    live nearest new next open ordinal plain positioned prior put raw removed side staged stale test unmet watched
    written
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
         Saga Screen Session Spawn Summary Task Thread Token TranscriptUsage Tree Usage Why Window Workspace",
    ),
    ("the same idea in every suite", "Fault Subject"),
];

/// Names that are to change: crate, name, proposal. Each is a riddle, or the name of two things. This list only shrinks.
const RENAMES: &[(&str, &str, &str)] = &[
    ("agent", "Reader", "SourceReader"),
    ("engine", "Settings", "SettingsSource"),
    ("wire", "Terminal", "TerminalAddress"),
];

/// The name of the public type or trait that a line declares.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let (kind, rest) = rest.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    let is_type = matches!(kind, "struct" | "enum" | "trait" | "type");
    (is_type && name.starts_with(char::is_uppercase)).then_some(name)
}

/// Crate, without `skein-`, and names of its public types and traits.
fn public_types() -> BTreeMap<String, Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "crates/*/src/*.rs"])
        .current_dir(root())
        .output()
        .unwrap();
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in String::from_utf8(listed.stdout).unwrap().lines() {
        let Ok(text) = std::fs::read_to_string(root().join(path)) else {
            continue;
        };
        let package = Path::new(path).components().nth(1).unwrap().as_os_str();
        let package = package.to_str().unwrap().trim_start_matches("skein-");
        let names = types.entry(package.to_owned()).or_default();
        names.extend(text.lines().filter_map(declared).map(str::to_owned));
    }
    types
}

/// The crates into which `engine` is being split count as one here.
fn is_in(list: &[(&str, &str, &str)], package: &str, name: &str) -> bool {
    let package = match package {
        "ledger" | "fleet" => "engine",
        other => other,
    };
    list.iter().any(|(p, n, _)| *p == package && *n == name)
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
fn public_types_use_words_of_the_field_or_of_the_glossary() {
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
    for (package, names) in public_types() {
        for name in names.iter().filter(|_| CORE.contains(&package.as_str())) {
            let is_exempt = PRODUCTS.contains(&name.as_str()) || CLEAR.contains(&name.as_str());
            if is_exempt || is_in(RENAMES, &package, name) {
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

#[test]
fn a_name_means_one_thing() {
    let is_shared = |name: &str| {
        let lists = SHARED.iter().map(|(_, names)| names);
        lists
            .flat_map(|names| names.split_whitespace())
            .any(|n| n == name)
    };
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (package, names) in public_types() {
        for name in names {
            if !is_shared(&name) && !is_in(RENAMES, &package, &name) {
                places.entry(name).or_default().push(package.clone());
            }
        }
    }
    places.retain(|_, packages| packages.len() > 1);
    assert!(places.is_empty(), "two types of one name: {places:#?}");
}

#[test]
fn lists_of_names_have_no_entry_too_many() {
    let types = public_types();
    let counts = |name: &str| types.values().flatten().filter(|n| *n == name).count();
    let renamed = RENAMES.iter().filter(|(package, name, _)| {
        let declares = |(p, names): (&String, &Vec<String>)| {
            names
                .iter()
                .any(|n| n == name && is_in(&[(*package, *name, "")], p, n))
        };
        !types.iter().any(declares)
    });
    let renamed = renamed.map(|(package, name, _)| format!("RENAMES: {package} {name}"));
    let names = SHARED
        .iter()
        .flat_map(|(_, names)| names.split_whitespace());
    let alone = names.filter(|name| counts(name) < 2);
    let alone = alone.map(|name| format!("SHARED: {name}"));
    let too_many: Vec<String> = renamed.chain(alone).collect();
    assert!(
        too_many.is_empty(),
        "remove from the lists:\n{}",
        too_many.join("\n")
    );
}
