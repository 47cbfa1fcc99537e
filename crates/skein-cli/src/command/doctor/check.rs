//! The checks of `skein doctor`, one function each.

use std::fs::Metadata;
use std::ops::RangeInclusive;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use jiff::Timestamp;
use skein_agent::Registry;
use skein_agent::agent::{Agent, InstalledProgram, Profile};
use skein_client::ErrorKind;
use skein_fleet::examine::{Versions, examine, is_tested};
use skein_store_sqlite::{HomeFile, Inspection, OLDEST_SCHEMA, SCHEMA, recorded_home_file};
use skein_wire::DaemonStatus;
use skein_workspace::git::{OLDEST, version};

use super::{Check, Finding, State};
use crate::context::{Context, Running, VERSION};
use crate::error::UserError;
use crate::home::{Home, LEDGER_LOST};
use crate::presence::{self, Presence};
use crate::settings::{Settings, settings_around};
use crate::{text, when};

const CLOCK: Check = Check("clock");
const DAEMON: Check = Check("daemon");
const DATABASE: Check = Check("database");
const DISK: Check = Check("disk");
const EVENTS: Check = Check("events");
const GIT: Check = Check("git");
const HOME: Check = Check("home");
const HOT_TIER: Check = Check("hot tier");
const PROCESSES: Check = Check("processes");
const SETTINGS: Check = Check("settings");
const SOCKET: Check = Check("socket");
const TMUX: Check = Check("tmux");

/// The fix for a home that cannot be used.
const OWN_HOME: &str = "set SKEIN_HOME to a folder that you own";
/// The fix for rows that cannot be decoded.
const RESTORE_ROWS: &str =
    "everything else works; to get these back, restore the file from a backup of the home";
const OLDEST_TMUX: u32 = 3;
const SCARCE: u64 = 1 << 30;
const FULL: u64 = 100 << 20;
/// The clock of a file system is coarse and may be another machine's.
const CLOCK_SLACK: i64 = 5;

pub(super) fn git() -> Finding {
    let fix = format!("install git {}.{} or newer", OLDEST.0, OLDEST.1);
    let output = Command::new("git")
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let text = match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        Ok(output) => {
            return GIT.problem(format!("git failed with {}", output.status), fix);
        }
        Err(error) => return GIT.problem(format!("cannot run git: {error}"), fix),
    };
    match version(&text) {
        Some(found) if found >= OLDEST => GIT.ok(text),
        Some(_) => GIT.problem(format!("{text} is too old"), fix),
        None => GIT.warning(format!("cannot read the version in `{text}`"), fix),
    }
}

/// Only sessions with the runtime `tmux` need it.
pub(super) fn tmux() -> Finding {
    let output = Command::new("tmux").arg("-V").stdin(Stdio::null()).output();
    let text = match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => {
            return TMUX.ok("it is not installed; only `--runtime tmux` needs it");
        }
    };
    let major = text
        .split_whitespace()
        .nth(1)
        .map(|version| version.trim_start_matches(|c: char| !c.is_ascii_digit()))
        .and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match major {
        Some(major) if major >= OLDEST_TMUX => TMUX.ok(text),
        _ => TMUX.warning(
            format!("{text} may be too old for `--runtime tmux`"),
            format!("install tmux {OLDEST_TMUX} or newer, or use the runtime `pty`"),
        ),
    }
}

/// One finding per agent program. A missing one is not a problem, because none is required.
pub(super) fn agents(context: &Context) -> Vec<Finding> {
    let registry = Registry::built_in();
    let agents: Vec<_> = registry
        .list()
        .into_iter()
        .filter(|agent| agent.known().profile.is_some())
        .collect();
    let env = crate::env::for_agents();
    let path = context.search_path().unwrap_or_default();
    let found = examine(&agents, &path, Versions::Ask, |agent| {
        let mut env = env.clone();
        env.extend(crate::env::named(&agent.abilities().inherits));
        env
    });
    let named = |agent: &dyn Agent, found: &InstalledProgram| {
        let profile = agent.known().profile.as_ref()?;
        Some(agent_finding(agent.name().as_str(), profile, found))
    };
    let pairs = agents.iter().zip(&found);
    pairs
        .filter_map(|(agent, found)| named(&**agent, found))
        .collect()
}

fn agent_finding(name: &str, profile: &Profile, found: &InstalledProgram) -> Finding {
    let check = Check(profile.program);
    if let Some(missing) = &found.missing {
        let install = found.install.as_deref().unwrap_or(profile.install);
        let message = format!("{missing}; agent `{name}` needs it (`{install}`)");
        return check.ok(message);
    }
    let shown = found.version.as_deref().unwrap_or("of unknown version");
    let (oldest, newest) = profile.tested;
    if found
        .version
        .as_deref()
        .and_then(|v| is_tested(v, profile.tested))
        == Some(false)
    {
        let mut message = format!("{shown} is not a tested version");
        let mut fix = match oldest == newest {
            true => format!("tested is {newest}"),
            false => format!("tested are {oldest} to {newest}"),
        };
        if let Some(command) = install_command(profile.install, newest) {
            fix.push_str(&format!("; `{command}` installs {newest}"));
        }
        if found.logged_in == Some(false) {
            message.push_str(", not logged in");
            fix.push_str(&format!("; `{}` logs in", profile.login));
        }
        return check.warning(message, fix);
    }
    match found.logged_in {
        Some(false) => check.warning(
            format!("{shown}, not logged in"),
            format!("`{}`", profile.login),
        ),
        Some(true) => check.ok(format!("{shown}, logged in")),
        None => check.ok(shown.to_owned()),
    }
}

/// The command that installs exactly this version, if the package manager is known to have one.
fn install_command(install: &str, version: &str) -> Option<String> {
    install
        .starts_with("npm install ")
        .then(|| format!("{install}@{version}"))
}

pub(super) fn settings(context: &Context) -> Finding {
    let here = std::env::current_dir().ok();
    let project = here.as_deref().and_then(settings_around);
    match Settings::load(&context.environment, project) {
        Ok(_) if project.is_some() => {
            SETTINGS.ok("the user's and the project's settings can be read")
        }
        Ok(_) => SETTINGS.ok("the user's settings can be read"),
        Err(error) => {
            let body = error.to_body().error;
            let fix = body.hints.first().cloned();
            SETTINGS.problem(
                body.message,
                fix.unwrap_or_else(|| "fix the file".to_owned()),
            )
        }
    }
}

pub(super) fn home(home: &Home) -> Vec<Finding> {
    let root = home.root();
    let shown = root.display();
    let metadata = match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            return vec![HOME.problem(
                format!("{shown} is not a folder"),
                "set SKEIN_HOME to a folder",
            )];
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let place = root.ancestors().find(|folder| folder.is_dir());
            let place = place.unwrap_or(Path::new("/"));
            return vec![fresh(root, place), file_system(place), space(place)];
        }
        Err(error) => {
            return vec![HOME.problem(format!("cannot read {shown}: {error}"), OWN_HOME)];
        }
    };
    vec![
        private(root, &metadata),
        writable(root),
        file_system(root),
        space(root),
    ]
}

/// A home that does not exist yet, but may be created in `place`.
fn fresh(root: &Path, place: &Path) -> Finding {
    let shown = root.display();
    // access(2) is wrong about /proc, where no folder can be made; only an attempt shows it.
    let attempt = place.join(format!(".skein-doctor-{}", std::process::id()));
    match std::fs::create_dir(&attempt).and_then(|()| std::fs::remove_dir(&attempt)) {
        Ok(_) => HOME.ok(format!(
            "{shown} does not exist yet; the first command creates it"
        )),
        Err(error) => HOME.problem(
            format!(
                "{shown} does not exist and cannot be created in {}: {error}",
                place.display()
            ),
            OWN_HOME,
        ),
    }
}

fn private(root: &Path, metadata: &Metadata) -> Finding {
    let shown = root.display();
    if metadata.uid() != rustix::process::getuid().as_raw() {
        return HOME.problem(format!("{shown} belongs to another user"), OWN_HOME);
    }
    match metadata.permissions().mode() & 0o777 {
        0o700 => HOME.ok(format!("{shown} is private")),
        mode if mode & 0o077 != 0 => HOME.warning(
            format!("{shown} is open to other users (mode {mode:03o})"),
            format!("chmod 700 {shown}"),
        ),
        mode => HOME.warning(
            format!("{shown} has the unusual mode {mode:03o}"),
            format!("chmod 700 {shown}"),
        ),
    }
}

fn writable(root: &Path) -> Finding {
    match tempfile::Builder::new()
        .prefix(".doctor-")
        .tempfile_in(root)
    {
        Ok(_) => HOME.ok("it can be written to"),
        Err(error) => HOME.problem(
            format!("it cannot be written to: {error}"),
            "make it writable, or set SKEIN_HOME to another folder",
        ),
    }
}

fn file_system(root: &Path) -> Finding {
    let found = match rustix::fs::statfs(root) {
        Ok(found) => found,
        Err(error) => {
            return DISK.warning(
                format!("cannot find out the file system: {error}"),
                "check that SKEIN_HOME is on a local disk",
            );
        }
    };
    // The numbers are those of statfs(2); some have the sign bit set, so compare only the low 32 bits.
    let network = match found.f_type as u32 {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9P"),
        0x00c3_6400 => Some("Ceph"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x6b41_4653 | 0x5346_414f => Some("AFS"),
        _ => None,
    };
    if let Some(name) = network {
        return DISK.problem(
            format!("SKEIN_HOME is on {name}, where SQLite is not reliable"),
            "set SKEIN_HOME to a folder on a local disk",
        );
    }
    let memory = matches!(found.f_type as u32, 0x0102_1994 | 0x8584_58f6);
    if memory {
        return DISK.warning(
            "SKEIN_HOME is in memory and is lost at the next restart",
            "set SKEIN_HOME to a folder on a disk",
        );
    }
    DISK.ok("SKEIN_HOME is on a local file system")
}

fn space(root: &Path) -> Finding {
    let Ok(found) = rustix::fs::statvfs(root) else {
        return DISK.warning("cannot find out the free space", "check it with `df`");
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let shown = format!("{} MiB free", text::number(free >> 20));
    let fix =
        "free some space; once the disk is full, nothing new is recorded (recorded data is safe)";
    match free {
        ..FULL => DISK.problem(shown, fix),
        FULL..SCARCE => DISK.warning(shown, fix),
        _ => DISK.ok(shown),
    }
}

pub(super) fn socket(home: &Home) -> Finding {
    let folder = home.socket_folder();
    if folder != home.root()
        && folder.exists()
        && let Err(error) = crate::home::check_owner(&folder)
    {
        let body = error.to_body().error;
        return SOCKET.problem(body.message, body.hints.join("; "));
    }
    let path = home.socket();
    let Ok(metadata) = std::fs::symlink_metadata(&path) else {
        return SOCKET.ok("there is none; the daemon creates it");
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode == 0o600 {
        SOCKET.ok(format!("{} is private", path.display()))
    } else {
        SOCKET.problem(
            format!("{} has mode {mode:03o}, not 600", path.display()),
            "run `skein daemon stop`; the next start creates it again",
        )
    }
}

pub(super) fn database(home: &Home) -> Vec<Finding> {
    let path = home.database();
    if let Some(other) = home.without_ledger() {
        let (path, other) = (path.display(), other.display());
        let message =
            format!("{path} is missing or empty, but this home was in use: it has {other}");
        return vec![DATABASE.problem(message, LEDGER_LOST)];
    }
    if !path.exists() {
        return vec![DATABASE.ok("there is none yet")];
    }
    let found = skein_store_sqlite::inspect(&path);
    let is_current = matches!(&found, Ok(found) if found.schema == SCHEMA);
    let finding = file(DATABASE, &path, found, OLDEST_SCHEMA..=SCHEMA);
    if finding.state != State::Ok || !is_current {
        return vec![finding];
    }
    let faults = match skein_store_sqlite::row_faults(&path) {
        Ok(faults) => faults,
        Err(error) => return vec![DATABASE.problem(error.to_string(), RESTORE_ROWS)],
    };
    let problems = [
        damaged_rows(DATABASE, &path, &faults.damaged),
        side_rows(&path, &faults.side_rows),
    ];
    let problems: Vec<Finding> = problems.into_iter().flatten().collect();
    if problems.is_empty() {
        return vec![finding];
    }
    problems
}

/// The hot tier, if it is a file of the home.
pub(super) fn transcripts(home: &Home) -> Option<Finding> {
    use skein_store_sqlite::transcript;
    let path = home.transcripts();
    if !path.exists() {
        return None;
    }
    let found = transcript::inspect(&path);
    let is_current = matches!(&found, Ok(found) if found.schema == transcript::SCHEMA);
    let finding = file(HOT_TIER, &path, found, 1..=transcript::SCHEMA);
    if finding.state != State::Ok || !is_current {
        return Some(finding);
    }
    Some(match transcript::damaged_entries(&path) {
        Ok(damaged) => damaged_rows(HOT_TIER, &path, &damaged).unwrap_or(finding),
        Err(error) => HOT_TIER.problem(error.to_string(), RESTORE_ROWS),
    })
}

/// Whether the files that the ledger has recorded exist, and are the recorded ones.
pub(super) fn home_files(home: &Home) -> Vec<Finding> {
    let files = [HomeFile::Identity, HomeFile::Transcripts];
    files
        .into_iter()
        .filter_map(|file| home_file(home, file))
        .collect()
}

fn home_file(home: &Home, file: HomeFile) -> Option<Finding> {
    let ledger = home.database();
    // The ledger's own check reports a ledger that cannot be read.
    let recorded = ledger.exists().then(|| recorded_home_file(&ledger, file));
    let recorded = recorded?.ok().flatten()?;
    let path = home.root().join(file.name());
    let found = match file {
        HomeFile::Identity => identity_of(&path),
        HomeFile::Transcripts => {
            skein_store_sqlite::transcript::file_id(&path).map_err(|e| e.to_string())
        }
    };
    let how = match found {
        _ if !path.exists() => "is missing".to_owned(),
        Ok(Some(id)) if id == recorded => return None,
        Ok(_) => "is not the one that this home has used".to_owned(),
        Err(why) => format!("cannot be read: {why}"),
    };
    Some(HOME.problem(
        format!("{} {how}; transcripts are unavailable", path.display()),
        "`skein daemon stop` and put it back from a backup of the home; if it is lost, \
         `skein daemon start --adopt-files` continues without what it held",
    ))
}

fn identity_of(path: &Path) -> Result<Option<String>, String> {
    let text = std::fs::read(path).map_err(|e| e.to_string())?;
    let form: serde_json::Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
    Ok(form["id"].as_str().map(str::to_owned))
}

/// A problem if some rows of an intact file cannot be decoded.
fn damaged_rows(check: Check, path: &Path, damaged: &[String]) -> Option<Finding> {
    let message = named_rows("damaged row", path, damaged)?;
    Some(check.problem(message, RESTORE_ROWS))
}

/// A problem if the lists of running and of ended sessions do not match the sessions.
fn side_rows(path: &Path, faults: &[String]) -> Option<Finding> {
    let message = named_rows("missing or left-over row", path, faults)?;
    let fix = "the sessions themselves are intact, but a new daemon does not continue a session that is missing from \
               the running ones: `skein kill` ends it, `skein restore` continues it; restoring the file from a \
               backup of the home repairs the rest";
    Some(DATABASE.problem(message, fix))
}

/// Counts the rows and describes the first ones.
fn named_rows(what: &str, path: &Path, rows: &[String]) -> Option<String> {
    const NAMED: usize = 20;
    if rows.is_empty() {
        return None;
    }
    let more = match rows.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let named: Vec<&str> = rows.iter().take(NAMED).map(String::as_str).collect();
    Some(format!(
        "{} in {}: {}{more}",
        text::count(rows.len(), what),
        path.display(),
        named.join("; ")
    ))
}

fn file(
    check: Check,
    path: &Path,
    found: Result<Inspection, skein_store::Error>,
    known: RangeInclusive<u32>,
) -> Finding {
    let keep = "copy the file first; then put a backup in its place, or remove it to start without it (no command overwrites it)";
    match found {
        Ok(found) if !found.findings.is_empty() => check.problem(
            format!(
                "{} in {}: {}",
                text::count(found.findings.len(), "fault"),
                path.display(),
                found.findings[0]
            ),
            keep,
        ),
        Ok(found) if found.schema > *known.end() => check.problem(
            format!(
                "it has schema {}, this build knows up to {}",
                found.schema,
                known.end()
            ),
            "use the newer build of skein that wrote it",
        ),
        Ok(found) if found.schema < *known.start() => check.problem(
            format!(
                "it has schema {}, of a build from before the first release; this build reads {} and later",
                found.schema,
                known.start()
            ),
            "set SKEIN_HOME to a new folder, or move this home away",
        ),
        Ok(found) => check.ok(format!(
            "{} KiB, schema {}, no faults",
            text::number((found.bytes + journal(path)) >> 10),
            found.schema
        )),
        Err(error) => check.problem(error.to_string(), keep),
    }
}

/// The write-ahead log, which is not yet in the database file.
fn journal(database: &Path) -> u64 {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    std::fs::metadata(name).map_or(0, |found| found.len())
}

pub(super) async fn daemon(context: &Context) -> Finding {
    let client = match context.running().await {
        Ok(Running::Here(client)) => client,
        Ok(Running::Not(Presence::Serving(pid))) => {
            return DAEMON.problem(
                format!("{} runs but its socket is gone", presence::named(pid)),
                "`skein daemon stop` stops it; the next command starts a new one",
            );
        }
        Ok(Running::Not(Presence::Passing(pid))) => {
            return DAEMON.warning(
                format!("{} is starting or stopping", presence::named(pid)),
                "run `skein doctor` again in a moment",
            );
        }
        Ok(Running::Not(Presence::Absent)) => {
            return match std::fs::symlink_metadata(context.home.socket()) {
                Ok(_) => DAEMON.warning(
                    "it is not running, but its socket is still there",
                    "`skein daemon start` starts it and replaces the socket",
                ),
                Err(_) => DAEMON.ok("it is not running; the next command starts it"),
            };
        }
        Err(error) => return faulty(&context.explain(error)),
    };
    match client.daemon_status().await {
        Ok(found) => status(&found),
        Err(error) => faulty(&context.explain(error.into())),
    }
}

fn faulty(error: &UserError) -> Finding {
    let body = error.to_body().error;
    let fix = if body.hints.is_empty() {
        "`skein daemon stop`, then try again".to_owned()
    } else {
        body.hints.join("; ")
    };
    DAEMON.problem(body.message, fix)
}

fn status(status: &DaemonStatus) -> Finding {
    if status.version == VERSION {
        DAEMON.ok(format!(
            "running as pid {} for {}",
            status.pid,
            when::span(status.uptime_s)
        ))
    } else {
        DAEMON.warning(
            format!(
                "it runs version {}, this is version {VERSION}",
                status.version
            ),
            "`skein daemon stop`; the next command starts the new one",
        )
    }
}

/// Whether the tenant's events are unchanged; checked only if a daemon answers.
pub(super) async fn events(context: &Context) -> Option<Finding> {
    let Ok(Running::Here(_)) = context.running().await else {
        return None;
    };
    let client = context.new_client();
    let tenant = &context.identity.tenant;
    Some(match client.verify_events().await {
        Ok(report) if report.ok => EVENTS.ok(format!(
            "all {} of tenant {tenant} are unchanged",
            text::number(report.events)
        )),
        Ok(report) => EVENTS.problem(
            format!(
                "the chain of tenant {tenant} is broken{}{}",
                report
                    .broken_at
                    .map_or_else(String::new, |seq| format!(" at event {seq}")),
                report
                    .why
                    .map_or_else(String::new, |why| format!(": {why}"))
            ),
            "events before that one are intact; compare the rest with a backup",
        ),
        Err(error) if error.kind() == ErrorKind::Refused => return None,
        Err(error) => EVENTS.warning(
            format!("cannot check them: {error}"),
            "`skein events verify` checks them",
        ),
    })
}

/// How the processes of a run are found after its holder was killed; none while the settings cannot be read.
pub(super) fn process_control(context: &Context) -> Option<Finding> {
    let settings = Settings::load(&context.environment, None).ok()?;
    let groups = skein_runtime::Groups::parse(&settings.cgroup.value).ok()?;
    let rest = "a guard process ends them, and after the guard the daemon finds them by their environment and an \
                inherited file";
    Some(match groups.find() {
        Ok(parent) => PROCESSES.ok(format!(
                "each run has a cgroup below {}; a process escapes only by moving to another cgroup",
                parent.display()
            ),
        ),
        Err(why) => PROCESSES.ok(format!(
                "runs have no cgroup ({why}): {rest}; a process that dropped both escapes if holder and guard are \
                 killed"
            ),
        ),
    })
}

pub(super) fn clock(home: &Home) -> Finding {
    let now = when::now();
    let first: Timestamp = "2025-01-01T00:00:00Z".parse().expect("a constant");
    let fix = "set the clock, e.g. with `timedatectl set-ntp true`";
    if now < first {
        return CLOCK.problem(
            format!("it shows {now}, which is before this program was built"),
            fix,
        );
    }
    let written = ["skein.db", "skein.db-wal"]
        .iter()
        .filter_map(|name| std::fs::metadata(home.root().join(name)).ok())
        .map(|metadata| metadata.mtime())
        .max();
    match written {
        Some(written) if written > now.as_second() + CLOCK_SLACK => CLOCK.warning(
            format!(
                "it is {} behind the last write to the database",
                when::span(written.abs_diff(now.as_second()))
            ),
            fix,
        ),
        _ => CLOCK.ok(format!("{now:.0}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_cannot_be_made_is_a_problem() {
        let found = home(&Home::at("/proc/nope"));
        assert_eq!(found[0].state, super::super::State::Problem, "{found:?}");
        let temp = tempfile::tempdir().unwrap();
        let found = home(&Home::at(temp.path().join("a/b")));
        assert_eq!(found[0].state, super::super::State::Ok, "{found:?}");
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_untested_version_is_reported_with_the_tested_one_and_the_login() {
        let mut profile = Profile {
            program: "codex",
            install: "npm install -g @openai/codex",
            version: &["--version"],
            tested: ("0.166.0", "0.166.0"),
            login: "codex login",
        };
        let mut found = InstalledProgram {
            program: None,
            version: Some("0.200.0".to_owned()),
            built_in: false,
            logged_in: Some(false),
            missing: None,
            install: None,
        };
        let finding = agent_finding("codex", &profile, &found);
        assert_eq!(
            finding.message,
            "0.200.0 is not a tested version, not logged in"
        );
        assert_eq!(
            finding.fix.as_deref(),
            Some(
                "tested is 0.166.0; `npm install -g @openai/codex@0.166.0` installs 0.166.0; `codex login` logs in"
            )
        );
        profile.tested.0 = "0.160.0";
        profile.install = "pip install codex";
        found.logged_in = None;
        let finding = agent_finding("codex", &profile, &found);
        assert_eq!(finding.message, "0.200.0 is not a tested version");
        assert_eq!(
            finding.fix.as_deref(),
            Some("tested are 0.160.0 to 0.166.0")
        );
    }

    #[test]
    fn versions_are_found_in_what_git_says() {
        assert_eq!(version("git version 2.43.0"), Some((2, 43)));
        assert_eq!(version("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(version("git version 2.24.windows.1"), Some((2, 24)));
        assert_eq!(version("nothing"), None);
    }
}
