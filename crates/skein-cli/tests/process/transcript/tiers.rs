//! Hot and cold: by hand, by archiving, encrypted.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::Home;
use crate::transcript::redis::Redis;
use crate::transcript::{append, configure, ids, kinds, say, tier};

/// The part of a cold location that is this home's.
pub(crate) fn own(home: &Home, location: &Path) -> PathBuf {
    let text = std::fs::read_to_string(home.root().join("home-id")).unwrap();
    let form: serde_json::Value = serde_json::from_str(&text).unwrap();
    location.join(format!("home-{}", form["id"].as_str().unwrap()))
}

#[test]
fn flush_and_hydrate_move_a_transcript_and_lose_nothing() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    let kept = home.json(&["transcript", "flush", &session, "--keep-hot"]);
    assert_eq!(
        (&kept["entries"], &kept["kept_hot"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(tier(&home, &session), "hot");
    assert_eq!(home.json(&["transcript", "flush", &session])["entries"], 0);
    assert_eq!(tier(&home, &session), "cold");
    let own = own(&home, &home.root().join("cold"));
    assert!(own.join("default/manifests").join(&session).exists());
    home.kill();
    assert_eq!(ids(&home, &session), ["m1"], "it is read where it is");
    assert_eq!(tier(&home, &session), "cold");
    assert_eq!(
        home.json(&["transcript", "hydrate", &session])["hydrated"],
        true
    );
    assert_eq!(
        home.json(&["transcript", "hydrate", &session])["hydrated"],
        false
    );
    home.json(&["transcript", "flush", &session]);
    // Whoever writes brings it back; forks go on from what is cold.
    let fork = home.json(&["fork", &session])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(ids(&home, &fork), ["m1"]);
    say(&home, &session, "user", "m2", "y");
    assert_eq!(tier(&home, &session), "hot");
    assert_eq!(home.json(&["transcript", "flush", &session])["entries"], 1);
    let told = kinds(&home, &session);
    let flushed = told.iter().filter(|k| *k == "transcript.flushed").count();
    assert_eq!(flushed, 4, "{told:?}");
    assert!(told.contains(&"transcript.hydrated".to_owned()));
    let hits = home.json(&["transcript", "search", "y"]);
    assert_eq!(hits["data"][0]["message"], "m2", "what is cold is found");
}

#[test]
fn archiving_a_thread_flushes_and_reopening_goes_on() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    let thread = home.show(&session)["thread"].as_str().unwrap().to_owned();
    home.json(&["thread", "archive", &thread]);
    assert_eq!(tier(&home, &session), "cold");
    let args = append(&session, "user", "late", "y");
    let error = home.error(5, &args);
    assert_eq!(error["details"]["rule"], "thread_archived");
    assert_eq!(ids(&home, &session), ["m1"]);
    home.json(&["thread", "archive", &thread]);
    home.json(&["thread", "reopen", &thread]);
    say(&home, &session, "user", "m2", "y");
    assert_eq!(ids(&home, &session), ["m1", "m2"]);
    assert_eq!(tier(&home, &session), "hot");
}

#[test]
fn l14_cold_transcripts_are_encrypted_where_keys_are_given() {
    let home = Home::new();
    let key = home.user().join("key");
    std::fs::write(&key, "ab".repeat(32)).unwrap();
    let elsewhere = home.user().join("elsewhere");
    let text = format!(
        "[transcripts]\ncold = {:?}\n[transcripts.keys]\ndefault = \"file:{}\"\n",
        elsewhere,
        key.display()
    );
    configure(&home, &text);
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "unmistakable");
    home.json(&["transcript", "flush", &session]);
    assert_eq!(ids(&home, &session), ["m1"]);
    let mut files = vec![elsewhere.clone()];
    let mut seen = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(12).any(|w| w == b"unmistakable"));
        seen += usize::from(bytes.starts_with(b"skein-object 1 xchacha20poly1305"));
    }
    assert_eq!(seen, 2, "a segment and a manifest");
    // Without its key it is damaged to us, and nothing is written in the clear for another tenant.
    let other = home.json_as("other", &["project", "add", "--no-folder", "--name", "api"]);
    assert_eq!(other["tenant"], "other");
    home.json_as(
        "other",
        &["spawn", "x", "--project", "api", "--agent", "none"],
    );
    let args = append("api-1", "user", "late", "t");
    home.json_as("other", &args);
    let args = [
        "--json",
        "--tenant",
        "other",
        "transcript",
        "flush",
        "api-1",
    ];
    assert_eq!(home.run(&args).code, 6);
    let shown = home.json(&["config", "show"]).to_string();
    assert!(
        shown.contains("file:") && !shown.contains(&"ab".repeat(32)),
        "{shown}"
    );
}

#[test]
fn l13_bad_settings_of_transcripts_are_named() {
    let home = Home::new();
    for (text, named) in [
        ("[transcripts]\nhott = \"sqlite\"\n", "transcripts.hot"),
        ("[transcripts]\nhot = \"mysql\"\n", "transcripts.hot"),
        ("[transcripts]\ncold = \"relative/path\"\n", "cold tier"),
        ("[transcripts]\nidle_flush = \"soon\"\n", "duration"),
        (
            "[transcripts]\nhot = \"redis://127.0.0.1:1\"\nredis_durability = \"wait\"\n",
            "transcripts.redis_durability",
        ),
        (
            "[transcripts]\n[transcripts.keys]\ndefault = \"plain\"\n",
            "`plain`",
        ),
        (
            "[transcripts]\n[transcripts.keys]\ndefault = \"hunter2\"\n",
            "transcripts.keys",
        ),
        (
            "[transcripts]\n[transcripts.keys]\ndefault = \"env:NOT_SET\"\n",
            "NOT_SET",
        ),
    ] {
        configure(&home, text);
        let ran = home.run(&["--json", "ls"]);
        assert_eq!(ran.code, 2, "{text}: {ran:?}");
        assert!(ran.stderr.contains(named), "{text}: {ran:?}");
        assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    }
    configure(&home, "[transcripts]\ncold = \"none\"\n");
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    home.error(6, &["transcript", "flush", &session]);
    let thread = home.show(&session)["thread"].as_str().unwrap().to_owned();
    home.json(&["thread", "archive", &thread]);
    assert_eq!(tier(&home, &session), "hot");
}

#[test]
fn l3_a_cold_tier_that_fails_leaves_the_hot_copy_and_the_thread_open() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    // The folder is made by what is put there first.
    home.json(&["transcript", "flush", &session, "--keep-hot"]);
    say(&home, &session, "user", "m2", "y");
    let cold = home.root().join("cold");
    let away = home.root().join("away");
    std::fs::rename(&cold, &away).unwrap();
    std::fs::write(&cold, "in the way").unwrap();
    let thread = home.show(&session)["thread"].as_str().unwrap().to_owned();
    let ran = home.run(&["--json", "thread", "archive", &thread]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert_eq!(home.json(&["thread", "show", &thread])["state"], "open");
    assert_eq!(ids(&home, &session), ["m1", "m2"]);
    std::fs::remove_file(&cold).unwrap();
    std::fs::rename(&away, &cold).unwrap();
    home.json(&["thread", "archive", &thread]);
    assert_eq!(tier(&home, &session), "cold");
}

#[test]
fn homes_that_share_a_cold_location_keep_apart() {
    let shared = tempfile::tempdir().unwrap();
    let text = format!("[transcripts]\ncold = {:?}\n", shared.path());
    let homes = [Home::new(), Home::new()];
    for (n, home) in homes.iter().enumerate() {
        configure(home, &text);
        home.json(&["project", "add", "--no-folder", "--name", "api"]);
        let session = home.spawn(&["work"]);
        assert_eq!(session, "api-1", "both mean another one by it");
        say(home, &session, "user", &format!("m{n}"), "x");
        home.json(&["transcript", "flush", &session]);
    }
    for (n, home) in homes.iter().enumerate() {
        assert_eq!(ids(home, "api-1"), [format!("m{n}")]);
    }
}

#[test]
fn l3_a_cold_tier_that_went_missing_is_not_an_empty_one() {
    let home = Home::new();
    let (disk, other) = (home.user().join("disk"), home.user().join("other"));
    let settings = |cold: &str| configure(&home, &format!("[transcripts]\ncold = {cold:?}\n"));
    settings(disk.to_str().unwrap());
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    home.json(&["transcript", "flush", &session]);
    home.stop();
    let away = home.user().join("away");
    std::fs::rename(&disk, &away).unwrap();
    let refused = |hint: &str| {
        let append = append(&session, "user", "late", "y");
        for args in [&["transcript", "show", &session][..], &append] {
            let error = home.error(6, args);
            assert!(error["hints"].to_string().contains(hint), "{error}");
        }
        home.json(&["ls"]);
    };
    refused("mount");
    assert!(!disk.exists(), "it is not made anew");
    // An empty folder is no better than none.
    home.stop();
    std::fs::create_dir(&disk).unwrap();
    refused("mount");
    std::fs::remove_dir_all(&disk).unwrap();
    home.stop();
    for elsewhere in [other.to_str().unwrap(), "none"] {
        settings(elsewhere);
        refused("set `transcripts.cold` back");
        home.stop();
    }
    // Moved as a whole it is the same.
    settings(other.to_str().unwrap());
    refused("copy everything");
    std::fs::rename(&away, &other).unwrap();
    // It is looked again, at most once a second.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while home.run(&["transcript", "show", &session]).code != 0 {
        assert!(std::time::Instant::now() < until, "it is not looked again");
    }
    assert_eq!(ids(&home, &session), ["m1"]);
    say(&home, &session, "user", "m2", "y");
    home.json(&["transcript", "flush", &session]);
    home.stop();
    assert_eq!(ids(&home, &session), ["m1", "m2"]);
}

#[test]
fn the_fleet_goes_on_without_its_redis() {
    let home = Home::new();
    configure(&home, "[transcripts]\nhot = \"redis://127.0.0.1:1\"\n");
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    home.json(&["ls"]);
    home.error(6, &["transcript", "show", &session]);
    home.error(6, &["fork", &session]);
    home.stop();
    home.json(&["ls"]);
}

#[test]
fn what_was_flushed_before_there_were_keys_is_read_as_plain() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    say(&home, &session, "user", "m1", "x");
    home.json(&["transcript", "flush", &session]);
    home.stop();
    let key = home.user().join("key");
    std::fs::write(&key, "ab".repeat(32)).unwrap();
    let keys = |more: &str| {
        let list = format!("[\"file:{}\"{more}]", key.display());
        configure(&home, &format!("[transcripts.keys]\ndefault = {list}\n"));
    };
    keys("");
    let error = home.error(6, &["transcript", "show", &session]);
    assert!(error["hints"].to_string().contains("`plain`"), "{error}");
    home.stop();
    keys(", \"plain\"");
    assert_eq!(ids(&home, &session), ["m1"]);
    say(&home, &session, "user", "m2", "y");
    home.json(&["transcript", "flush", &session]);
    assert_eq!(ids(&home, &session), ["m1", "m2"]);
}

#[test]
fn homes_that_share_a_redis_keep_apart() {
    let redis = Redis::start();
    let text = redis.settings();
    let homes = [Home::new(), Home::new()];
    for (n, home) in homes.iter().enumerate() {
        configure(home, &text);
        home.json(&["project", "add", "--no-folder", "--name", "api"]);
        assert_eq!(home.spawn(&["work"]), "api-1");
        say(home, "api-1", "user", &format!("m{n}"), "x");
    }
    for (n, home) in homes.iter().enumerate() {
        assert_eq!(ids(home, "api-1"), [format!("m{n}")]);
    }
}

#[test]
fn an_export_that_breaks_off_tells_why_and_leaves_no_file() {
    let home = Home::with_project();
    let session = home.spawn(&["work"]);
    let mut lines = String::new();
    for n in 0..9 {
        let text = format!("{n}").repeat(3 << 20);
        lines += &json!({"id": format!("m{n}"), "role": "user", "text": text}).to_string();
        lines.push('\n');
    }
    let args = ["--json", "transcript", "append", &session];
    assert_eq!(home.run_with_input(&args, lines.as_bytes()).code, 0);
    home.json(&["transcript", "flush", &session]);
    let place = own(&home, &home.root().join("cold"));
    let segments = place.join("default/segments").join(&session);
    let newest = std::fs::read_dir(&segments)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap())
        .unwrap();
    let away = home.root().join("away");
    std::fs::rename(&newest, &away).unwrap();
    let out = home.user().join("out.jsonl");
    let args = [
        "transcript",
        "export",
        &session,
        "--out",
        out.to_str().unwrap(),
    ];
    let ran = home.run(&args);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.stderr.contains("the export broke off"), "{ran:?}");
    assert!(ran.stderr.contains("it is missing"), "{ran:?}");
    assert!(!out.exists());
    let ran = home.run(&["transcript", "export", &session]);
    assert_eq!(ran.code, 6);
    assert!(ran.stderr.contains("are incomplete"), "{}", ran.stderr);
    std::fs::rename(&away, &newest).unwrap();
    assert_eq!(home.run(&args).code, 0);
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 9);
}

/// What is in one hot tier is not "nothing" for a daemon that is told to use another.
#[test]
fn l3_another_hot_tier_is_not_taken_for_an_empty_one() {
    let (home, redis) = (Home::new(), Redis::start());
    home.json(&["project", "add", "--no-folder", "--name", "api"]);
    let session = home.spawn(&["work"]);
    let with = |settings: &str| {
        configure(&home, settings);
        home.stop();
    };
    let refusal = |args: &[&str]| home.error(6, args)["message"].to_string();
    let show = ["transcript", "show", &session];
    // One that was never reached holds nothing, nor does the first, so there is nothing to miss.
    with("[transcripts]\nhot = \"redis://:hunter2@127.0.0.1:1/0\"\n");
    assert!(refusal(&append(&session, "user", "m1", "x")).contains("connected"));
    with(&redis.settings());
    say(&home, &session, "user", "m1", "hello");
    with("");
    let told = refusal(&show);
    assert!(told.contains("are in `redis"), "{told}");
    with(&redis.settings());
    assert_eq!(ids(&home, &session), ["m1"]);
}
