//! Hot and cold: by hand, by archiving, encrypted.

use serde_json::json;

use crate::base::Home;
use crate::{ids, kinds, say};

fn tier(home: &Home, session: &str) -> String {
    home.show(session)["transcript"]["tier"]
        .as_str()
        .unwrap()
        .to_owned()
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
    assert!(
        home.root()
            .join("cold/default/manifests")
            .join(&session)
            .exists()
    );
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
    let args = [
        "transcript",
        "append",
        &session,
        "--role",
        "user",
        "--text",
        "y",
    ];
    let error = home.error(5, &args);
    assert_eq!(error["details"]["rule"], "thread_archived");
    assert_eq!(ids(&home, &session), ["m1"]);
    home.json(&["thread", "archive", &thread]);
    home.json(&["thread", "reopen", &thread]);
    say(&home, &session, "user", "m2", "y");
    assert_eq!(ids(&home, &session), ["m1", "m2"]);
    assert_eq!(tier(&home, &session), "hot");
}

fn configure(home: &Home, text: &str) {
    let folder = home.user().join(".config/skein");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
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
    let args = [
        "transcript",
        "append",
        "api-1",
        "--role",
        "user",
        "--text",
        "t",
    ];
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
    let cold = home.root().join("cold");
    let away = home.root().join("away");
    std::fs::rename(&cold, &away).unwrap();
    std::fs::write(&cold, "in the way").unwrap();
    let thread = home.show(&session)["thread"].as_str().unwrap().to_owned();
    let ran = home.run(&["--json", "thread", "archive", &thread]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert_eq!(home.json(&["thread", "show", &thread])["state"], "open");
    assert_eq!(ids(&home, &session), ["m1"]);
    std::fs::remove_file(&cold).unwrap();
    std::fs::rename(&away, &cold).unwrap();
    home.json(&["thread", "archive", &thread]);
    assert_eq!(tier(&home, &session), "cold");
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
    let segments = home.root().join("cold/default/segments").join(&session);
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
    assert!(ran.stderr.contains("are not all of it"), "{}", ran.stderr);
    std::fs::rename(&away, &newest).unwrap();
    assert_eq!(home.run(&args).code, 0);
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 9);
}
