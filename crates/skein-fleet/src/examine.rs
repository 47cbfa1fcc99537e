//! Which agents' programs are on this machine, and in which versions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use skein_agent::agent::{Agent, InstalledProgram, Profile};
use skein_workspace::process::printed;

use super::lock;

/// How long a program may take to print its version; some start a whole language first.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of what it prints is read.
const MOST: usize = 4096;

/// Versions that programs printed; asked again when the file is another one.
type Known = Mutex<BTreeMap<PathBuf, (SystemTime, Option<String>)>>;

/// Whether programs are started to learn their versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// Each program whose version is not known is asked for it.
    Ask,
    /// Only versions that an earlier call learned.
    Remembered,
}

/// Looks for every agent's program and its version, all at once. Takes as long as the slowest.
pub fn examine(
    agents: &[Arc<dyn Agent>],
    path: &str,
    versions: Versions,
    env: impl Fn(&dyn Agent) -> BTreeMap<String, String>,
) -> Vec<InstalledProgram> {
    let looks: Vec<_> = agents
        .iter()
        .map(|agent| {
            let (agent, path, env) = (agent.clone(), path.to_owned(), env(&**agent));
            thread::spawn(move || {
                let mut found = agent.find(&path, &env);
                if let (Some(program), Some(profile)) = (&found.program, &agent.known().profile) {
                    found.version = version(program, profile, versions, &path, &env);
                }
                found
            })
        })
        .collect();
    looks
        .into_iter()
        .map(|look| look.join().unwrap_or_default())
        .collect()
}

fn version(
    program: &Path,
    profile: &Profile,
    versions: Versions,
    path: &str,
    env: &BTreeMap<String, String>,
) -> Option<String> {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    let known = KNOWN.get_or_init(Known::default);
    let changed = program.metadata().and_then(|m| m.modified()).ok()?;
    if let Some((at, version)) = lock(known).get(program)
        && *at == changed
    {
        return version.clone();
    }
    if versions == Versions::Remembered {
        return None;
    }
    let version = ask(program, profile, path, env);
    // A program that was too slow this time may answer the next time.
    if version.is_some() {
        lock(known).insert(program.to_owned(), (changed, version.clone()));
    }
    version
}

fn ask(
    program: &Path,
    profile: &Profile,
    path: &str,
    env: &BTreeMap<String, String>,
) -> Option<String> {
    let mut command = Command::new(program);
    command
        .args(profile.version)
        .env_clear()
        .envs(env)
        .env("PATH", path)
        .stdin(Stdio::null());
    // What it starts may outlive it and hold on to its output: neither may hold up the caller.
    let text = printed(&mut command, PATIENCE, MOST)?;
    numbers(&String::from_utf8_lossy(&text))
}

/// The first thing in a text that looks like a version: `2.1.325` of `2.1.325 (Claude Code)`.
fn numbers(text: &str) -> Option<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+')))
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .map(|word| word.trim_end_matches(['.', '-', '+']).to_owned())
}

/// Whether a version lies between the oldest and the newest that were tried; none if it cannot be read.
pub fn is_tested(version: &str, (oldest, newest): (&str, &str)) -> Option<bool> {
    let version = parts(version)?;
    Some(parts(oldest)? <= version && version <= parts(newest)?)
}

fn parts(version: &str) -> Option<Vec<u64>> {
    let plain = version.split(['-', '+']).next()?;
    plain.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, version) in [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("aider 0.86.2", Some("0.86.2")),
            (
                "WARNING: something\ntool v1.2.3-beta.1.",
                Some("1.2.3-beta.1"),
            ),
            ("no version", None),
            ("", None),
        ] {
            assert_eq!(numbers(text).as_deref(), version, "{text}");
        }
    }

    #[test]
    fn a_program_that_leaves_a_child_with_its_output_holds_nobody() {
        let profile = Profile {
            program: "sh",
            install: "",
            version: &["-c", "sleep 600 & echo aider 1.0.$!"],
            tested: ("1.0.0", "1.0.0"),
            login: "",
        };
        let told = ask(
            Path::new("/bin/sh"),
            &profile,
            "/usr/bin:/bin",
            &BTreeMap::new(),
        )
        .unwrap();
        let left = told.rsplit('.').next().unwrap();
        let lives = || {
            std::fs::read_to_string(format!("/proc/{left}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z "))
        };
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while lives() {
            assert!(std::time::Instant::now() < deadline, "still there");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn the_range_that_was_tested_is_compared_number_by_number() {
        let range = ("0.9.0", "0.166.0");
        for (version, tested) in [
            ("0.9.0", Some(true)),
            ("0.10.1", Some(true)),
            ("0.166.0", Some(true)),
            ("0.166.1", Some(false)),
            ("0.8.9", Some(false)),
            ("1.0", Some(false)),
            ("0.166.0-beta.2", Some(true)),
            ("nonsense", None),
        ] {
            assert_eq!(is_tested(version, range), tested, "{version}");
        }
    }
}
