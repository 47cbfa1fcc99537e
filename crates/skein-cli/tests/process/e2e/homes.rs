//! Homes that cannot be used: read-only, full, damaged, newer, foreign. Told clearly, and left as they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::harness::{Call, Daemon, Home, Ran};

/// Tells of the problem with a hint, and does not make it worse.
fn assert_unusable(home: &Home, says: &str) {
    for args in [
        &["ls"][..],
        &["spawn", "x", "--project", "api"],
        &["daemon", "start"],
        &["daemon", "run"],
    ] {
        let error = home.error(6, args);
        assert_eq!(error["kind"], "unavailable", "{args:?}");
        assert!(
            error["message"].as_str().unwrap().contains(says),
            "{args:?}: {error}"
        );
        assert_ne!(error["hints"], json!([]), "{args:?}");
    }
    let people = home.run(&["ls"]);
    assert_eq!(people.code, 6);
    assert!(
        people.stderr.starts_with("error: ") && people.stderr.contains("\nhint: "),
        "{people:?}"
    );
}

/// The bytes of the database and its neighbours.
fn contents(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    fs::read_dir(home.root())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("skein.db")
        })
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn l13_a_home_that_cannot_be_made_is_told() {
    let file = Home::new().user().join("file");
    for root in ["/dev/null/x", "/proc/nowhere/skein", "/sys/skein"] {
        assert_unusable(&Home::with_root(root), root);
    }
    let home = Home::new();
    let file = home.user().join(file.file_name().unwrap());
    fs::write(&file, "not a folder").unwrap();
    assert_unusable(&Home::with_root(&file), "file");
    assert_unusable(&Home::with_root(file.join("below")), "file");
    assert_eq!(fs::read(&file).unwrap(), b"not a folder");
}

#[test]
fn l13_garbage_in_place_of_the_database_is_kept() {
    for garbage in [
        &b"this is not a database, but somebody's only copy of something"[..],
        &[0; 8192],
        b"S",
    ] {
        let home = Home::new();
        fs::create_dir_all(home.root()).unwrap();
        fs::write(home.database(), garbage).unwrap();
        let before = contents(&home);
        assert_unusable(&home, "skein.db");
        assert_eq!(contents(&home), before);
    }
}

#[test]
fn l13_a_database_of_another_program_is_kept() {
    let home = Home::new();
    fs::create_dir_all(home.root()).unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let other = Connection::open_with_flags(home.database(), flags).unwrap();
    other
        .execute_batch("CREATE TABLE precious (x); INSERT INTO precious VALUES (1)")
        .unwrap();
    drop(other);
    let before = contents(&home);
    assert_unusable(&home, "not a skein database");
    assert_eq!(contents(&home), before);
}

#[test]
fn l13_a_folder_in_place_of_the_database_is_kept() {
    let home = Home::new();
    fs::create_dir_all(home.database()).unwrap();
    assert_unusable(&home, "skein.db");
    assert!(home.database().is_dir());
}

/// A home with enough in it to have pages in the middle.
fn furnished() -> Home {
    let home = Home::with_project();
    for n in 0..60 {
        let body = json!({"project": "api", "task": format!("{n} {}", "x".repeat(2000))});
        home.call(&Call::post("/api/v1/sessions", &body)).ok();
    }
    home.stop();
    home
}

#[test]
fn l13_a_damaged_page_is_found_and_the_file_is_kept() {
    let home = furnished();
    let mut bytes = fs::read(home.database()).unwrap();
    assert!(bytes.len() > 20 * 4096);
    // Every page but the first, so that it does not depend on what a page holds.
    for page in bytes.chunks_mut(4096).skip(1) {
        page[..64].fill(0xA5);
    }
    fs::write(home.database(), &bytes).unwrap();
    let before = contents(&home);
    assert_unusable(&home, "damaged");
    assert_eq!(contents(&home), before);
    let doctor = home.run(&["--json", "doctor"]);
    assert_ne!(doctor.code, 0, "{doctor:?}");
    assert_eq!(contents(&home), before);
}

#[test]
fn l13_a_truncated_file_is_found_and_kept() {
    let home = furnished();
    let bytes = fs::read(home.database()).unwrap();
    fs::write(home.database(), &bytes[..bytes.len() / 2]).unwrap();
    let before = contents(&home);
    assert_unusable(&home, "damaged");
    assert_eq!(contents(&home), before);
}

#[test]
fn l13_a_newer_or_unreleased_schema_is_refused_and_left_byte_for_byte() {
    let home = furnished();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    for schema in [99, 2] {
        let other = Connection::open_with_flags(home.database(), flags).unwrap();
        other.pragma_update(None, "user_version", schema).unwrap();
        drop(other);
        let before = contents(&home);
        let wanted = format!("schema {schema}");
        assert_unusable(&home, &wanted);
        let doctor = home.run(&["doctor"]);
        assert_ne!(doctor.code, 0, "{doctor:?}");
        assert!(doctor.stdout.contains(&wanted), "{doctor:?}");
        assert_eq!(contents(&home), before);
    }
}

/// Runs a script in a mount namespace of its own, where a disk can be as small or as read-only as we like.
fn on_a_disk(home: &Home, script: &str) -> Option<Ran> {
    fs::create_dir_all(home.root()).unwrap();
    let may_mount = |unshare: &str| {
        let mut probe = home.program("unshare");
        probe
            .args([unshare, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(home.root());
        probe.output().is_ok_and(|out| out.status.success())
    };
    let unshare = ["-m", "-Urm"].into_iter().find(|how| may_mount(how))?;
    let mut command = home.program("unshare");
    command
        .args([unshare, "bash", "-euc", script])
        .env("SKEIN", env!("CARGO_BIN_EXE_skein"));
    Some(Ran::from(command.output().unwrap()))
}

fn last_error(ran: &Ran) -> Value {
    let line = ran
        .stderr
        .lines()
        .last()
        .unwrap_or_else(|| panic!("{ran:?}"));
    serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {ran:?}"))["error"].clone()
}

#[test]
fn l13_a_read_only_disk_is_told_and_nothing_is_lost() {
    let home = furnished();
    let before = contents(&home);
    let script = r#"
        mount --bind "$SKEIN_HOME" "$SKEIN_HOME"
        mount -o remount,bind,ro "$SKEIN_HOME"
        code=0; "$SKEIN" --json ls || code=$?
        exit $code
    "#;
    let Some(ran) = on_a_disk(&home, script) else {
        return read_only_without_mounts();
    };
    assert_eq!(ran.code, 6, "{ran:?}");
    let error = last_error(&ran);
    assert_eq!(error["kind"], "unavailable");
    assert!(
        error["message"].as_str().unwrap().contains("Read-only"),
        "{error}"
    );
    assert!(
        error["hints"][0].as_str().unwrap().contains("SKEIN_HOME"),
        "{error}"
    );
    assert_eq!(contents(&home), before);
    assert_eq!(
        home.json(&["ls", "--limit", "1000"])["data"]
            .as_array()
            .unwrap()
            .len(),
        60
    );
}

fn read_only_without_mounts() {
    assert_unusable(&Home::with_root("/proc/self/skein"), "/proc");
}

#[test]
fn l13_a_full_disk_is_told_and_nothing_acknowledged_is_lost() {
    let home = Home::new();
    let script = r#"
        mount -t tmpfs -o size=3m tmpfs "$SKEIN_HOME"
        cd /
        "$SKEIN" --json project add --no-folder --name api >&2
        made=0
        task=$(head -c 60000 /dev/zero | tr '\0' x)
        while "$SKEIN" --json spawn "$task" --project api >/dev/null 2>"$HOME/last"; do made=$((made+1)); done
        cat "$HOME/last" >&2
        [ "$made" -gt 3 ]
        # What was acknowledged is there, and can be read while the disk is full.
        "$SKEIN" --json events verify >"$HOME/verify"
        "$SKEIN" --json ls --limit 1000 >"$HOME/list"
        echo "$made" >"$HOME/made"
        pid=$(cat "$SKEIN_HOME/daemon.lock")
        mount -o remount,size=30m "$SKEIN_HOME"
        # And it goes on when there is room again, without a restart.
        "$SKEIN" --json spawn "after" --project api >/dev/null
        [ "$pid" = "$(cat "$SKEIN_HOME/daemon.lock")" ]
        "$SKEIN" --json events verify >"$HOME/verify2"
        "$SKEIN" daemon stop >/dev/null
    "#;
    let Some(ran) = on_a_disk(&home, script) else {
        return full_without_mounts();
    };
    assert_eq!(ran.code, 0, "{ran:?}");
    let error = last_error(&ran);
    assert_eq!(error["kind"], "unavailable", "{error}");
    assert!(error["hints"].to_string().contains("full"), "{error}");
    let read = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(home.user().join(name)).unwrap()).unwrap()
    };
    assert_eq!(read("verify")["ok"], true);
    assert_eq!(read("verify2")["ok"], true);
    assert_eq!(
        json!(read("list")["data"].as_array().unwrap().len()),
        read("made")
    );
}

#[test]
fn l13_a_disk_without_any_room_is_told_at_the_start() {
    let home = Home::new();
    let script = r#"
        mount -t tmpfs -o size=64k tmpfs "$SKEIN_HOME"
        cd /
        head -c 1000000 /dev/zero >"$SKEIN_HOME/filler" 2>/dev/null || true
        code=0; "$SKEIN" --json ls || code=$?
        # With room again it starts, whatever the attempt has left behind.
        rm "$SKEIN_HOME/filler"
        mount -o remount,size=10m "$SKEIN_HOME"
        "$SKEIN" --json events verify >"$HOME/verify"
        "$SKEIN" daemon stop >/dev/null
        exit $code
    "#;
    let Some(ran) = on_a_disk(&home, script) else {
        return full_without_mounts();
    };
    assert_eq!(ran.code, 6, "{ran:?}");
    assert_eq!(last_error(&ran)["kind"], "unavailable");
    assert!(
        last_error(&ran)["message"]
            .as_str()
            .unwrap()
            .contains("No space"),
        "{ran:?}"
    );
}

/// Where nothing can be mounted, a limit on the size of files stands in for the disk's.
#[test]
fn l13_a_file_that_may_not_grow_is_told() {
    full_without_mounts();
}

fn full_without_mounts() {
    let home = Home::with_project();
    home.stop();
    let mut command = home.program("prlimit");
    command.arg("--fsize=1500000").args([
        "env",
        "-u",
        "SIGXFSZ",
        env!("CARGO_BIN_EXE_skein"),
        "daemon",
        "run",
        "--announce",
    ]);
    // The kernel's signal for such a file ends whoever does not ignore it.
    let mut shell = home.program("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    let daemon = Daemon::announced(shell).unwrap();
    let task = "x".repeat(60_000);
    let spawn = Call::post("/api/v1/sessions", &json!({"project": "api", "task": task}));
    let mut made = 0;
    let error = loop {
        let answer = home.call(&spawn);
        if answer.status != 201 {
            break answer.error(503);
        }
        made += 1;
        assert!(made < 1000, "the limit was never reached");
    };
    assert_eq!(error["kind"], "unavailable");
    assert_ne!(error["hints"], json!([]), "{error}");
    assert_eq!(home.json(&["events", "verify"])["ok"], true);
    daemon.kill();
    let list = home.json(&["ls", "--limit", "1000"]);
    assert_eq!(list["data"].as_array().unwrap().len(), made);
    home.assert_verified();
}

#[test]
fn doctor_tells_of_each_broken_home() {
    let sound = Home::with_project();
    assert_eq!(sound.run(&["doctor"]).code, 0);
    let garbage = Home::new();
    fs::create_dir_all(garbage.root()).unwrap();
    fs::write(garbage.database(), "garbage").unwrap();
    for home in [&garbage, &Home::with_root("/dev/null/x")] {
        let ran = home.run(&["--json", "doctor"]);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert_ne!(ran.code, 101);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        let name = home
            .root()
            .file_name()
            .and_then(|n| Path::new(n).to_str())
            .unwrap()
            .to_owned();
        assert!(told.contains(&name) || told.contains("database"), "{ran:?}");
        assert!(
            home.pid().is_none(),
            "doctor starts nothing that cannot start"
        );
    }
    assert_eq!(fs::read(garbage.database()).unwrap(), b"garbage");
}
