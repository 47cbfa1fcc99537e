use std::collections::BTreeMap;

use skein_domain::{Activity, LaunchSettings, Timestamp, Usage};
use tempfile::TempDir;

use super::*;
use crate::agent::{QuotaReset, ReadRange};

fn order(folder: &TempDir) -> LaunchRequest {
    let bin = folder.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    for name in [Codex::NAME, ACP] {
        let _ = std::os::unix::fs::symlink("/bin/sh", bin.join(name));
    }
    let home = folder.path().join("home");
    fs::create_dir_all(home.join(".codex")).unwrap();
    LaunchRequest {
        session: "api-7".parse().unwrap(),
        run: 1,
        task: "fix it".parse().unwrap(),
        settings: LaunchSettings::default(),
        workspace: "/src/a \"b\"".into(),
        private: folder.path().join("private"),
        skein: "/bin/skein".into(),
        path: bin.display().to_string(),
        env: BTreeMap::from([("HOME".to_owned(), home.display().to_string())]),
        native: None,
    }
}

fn settings_file(folder: &TempDir) -> PathBuf {
    let home = folder.path().join("home/.codex");
    fs::create_dir_all(&home).unwrap();
    home.join("config.toml")
}

/// The value of a `-c KEY=VALUE` argument, as Codex reads it.
fn setting(start: &Start, key: &str) -> toml::Value {
    let word = |word: &String| Some(word.strip_prefix(key)?.strip_prefix('=')?.to_owned());
    let value = start.argv.iter().find_map(word).unwrap();
    let table: toml::Table = toml::from_str(&format!("x = {value}")).unwrap();
    table["x"].clone()
}

#[test]
fn l15_only_the_sessions_own_folder_and_hooks_are_trusted() {
    let folder = TempDir::new().unwrap();
    let start = Codex::new().start(&order(&folder)).unwrap();
    let trusted = setting(&start, "projects");
    assert_eq!(
        trusted["/src/a \"b\""]["trust_level"].as_str(),
        Some("trusted")
    );
    let hooks = setting(&start, "hooks");
    for (event, key, _) in HOOKS {
        let command = hooks[*event][0]["hooks"][0]["command"].as_str().unwrap();
        assert_eq!(command, format!("\"$SKEIN_BIN\" hook {event}"));
        let state = format!("/<session-flags>/config.toml:{key}:0:0");
        assert!(hooks["state"][state.as_str()]["trusted_hash"].is_str());
    }
    assert!(!start.argv.iter().any(|word| word.contains("hook-trust")));
}

#[test]
fn the_background_server_is_never_used() {
    let folder = TempDir::new().unwrap();
    let start = Codex::new().start(&order(&folder)).unwrap();
    assert!(start.argv.iter().any(|word| word == "--no-daemon"));
    let auto = setting(&start, "features.daemon_auto_start");
    assert_eq!(auto.as_bool(), Some(false));
}

#[test]
fn settings_with_the_note_are_used_as_they_are() {
    let folder = TempDir::new().unwrap();
    let text = "[tui]\nscreen_reader_detection_done = false\n";
    fs::write(settings_file(&folder), text).unwrap();
    let start = Codex::new().start(&order(&folder)).unwrap();
    assert_eq!(
        start.argv[0],
        folder.path().join("bin/codex").display().to_string()
    );
    assert!(start.files.is_empty() && start.env.is_empty());
}

#[test]
fn settings_without_the_note_are_lent_and_stay_as_they_are() {
    let folder = TempDir::new().unwrap();
    let text = "# mine\nmodel = \"m\"\n[tui]\ntheme = \"t\"\n";
    fs::write(settings_file(&folder), text).unwrap();
    let start = Codex::new().start(&order(&folder)).unwrap();
    let own = folder.path().join("private/codex");
    assert_eq!(start.env["CODEX_HOME"], own.display().to_string());
    let (path, content) = &start.files[0];
    assert_eq!(path.to_str(), Some("codex/config.toml"));
    let lent: toml::Table = toml::from_str(std::str::from_utf8(content).unwrap()).unwrap();
    assert_eq!(lent["model"].as_str(), Some("m"));
    assert_eq!(lent["tui"]["theme"].as_str(), Some("t"));
    let note = &lent["tui"]["screen_reader_detection_done"];
    assert_eq!(note.as_bool(), Some(true));
    assert_eq!(fs::read_to_string(settings_file(&folder)).unwrap(), text);
}

#[test]
fn sessions_share_no_database_in_whatever_home_they_are() {
    let folder = TempDir::new().unwrap();
    let own = folder.path().join("private/codex").display().to_string();
    let (codex, order) = (Codex::new(), order(&folder));
    let database = |start: &Start| setting(start, "sqlite_home").as_str().unwrap().to_owned();
    for text in ["", "[tui]\nscreen_reader_detection_done = true\n"] {
        fs::write(settings_file(&folder), text).unwrap();
        assert_eq!(database(&codex.start(&order).unwrap()), own);
    }
    let native = codex.protocol_launch(&order, Via::Native, false).unwrap();
    assert_eq!(database(&native.start), own);
    let acp = codex.protocol_launch(&order, Via::Acp, false).unwrap();
    assert_eq!(acp.start.env["CODEX_SQLITE_HOME"], own);
}

#[test]
fn a_lent_home_leads_to_the_users_login_and_conversations() {
    let folder = TempDir::new().unwrap();
    let user = folder.path().join("home/.codex");
    let start = Codex::new().start(&order(&folder)).unwrap();
    fs::write(user.join("skills"), "mine").unwrap();
    // Twice: a session is launched again and again.
    for _ in 0..2 {
        let status = std::process::Command::new(&start.argv[0])
            .args(&start.argv[1..6])
            .arg("true")
            .status()
            .unwrap();
        assert!(status.success());
    }
    let own = folder.path().join("private/codex");
    assert_eq!(fs::read_to_string(own.join("skills")).unwrap(), "mine");
    fs::write(own.join("auth.json"), "new").unwrap();
    assert_eq!(fs::read_to_string(user.join("auth.json")).unwrap(), "new");
    fs::write(own.join("sessions/one"), "1").unwrap();
    assert!(user.join("sessions/one").exists());
}

#[test]
fn permissions_reach_as_far_as_its_sandbox() {
    let folder = TempDir::new().unwrap();
    for (permission, words, mode) in [
        (Permission::Ask, "-s read-only -a on-request", "read-only"),
        (
            Permission::Edits,
            "-s workspace-write -a on-request",
            "workspace-write",
        ),
        (
            Permission::Full,
            "--dangerously-bypass-approvals-and-sandbox",
            "agent-full-access",
        ),
    ] {
        let mut order = order(&folder);
        order.settings.permission = permission;
        let start = Codex::new().start(&order).unwrap();
        assert!(start.argv.join(" ").contains(words), "{:?}", start.argv);
        let launch = Codex::new()
            .protocol_launch(&order, Via::Acp, false)
            .unwrap();
        assert_eq!(launch.start.env["INITIAL_AGENT_MODE"], mode);
    }
}

#[test]
fn logins_are_seen_where_they_can_be() {
    let folder = TempDir::new().unwrap();
    let mut env = order(&folder).env;
    let find = |env: &BTreeMap<String, String>| Codex::new().find("", env).logged_in;
    assert_eq!(find(&BTreeMap::new()), None);
    assert_eq!(find(&env), Some(false));
    fs::write(settings_file(&folder), "model_provider = \"mine\"").unwrap();
    assert_eq!(find(&env), None, "another provider's login is its own");
    fs::write(folder.path().join("home/.codex/auth.json"), "{}").unwrap();
    assert_eq!(find(&env), Some(true));
    env = BTreeMap::from([("OPENAI_API_KEY".to_owned(), "k".to_owned())]);
    assert_eq!(find(&env), Some(true));
}

#[test]
fn hooks_name_the_conversation_and_the_prompt() {
    let payload = r#"{"session_id":"one","transcript_path":"/nowhere/r.jsonl","prompt":"do it"}"#;
    let readings = Codex::new().read_hook("UserPromptSubmit", payload);
    let source = WatchedFile {
        path: "/nowhere/r.jsonl".into(),
        kind: ROLLOUT.into(),
        reach: ReadRange::Added,
    };
    assert_eq!(
        readings,
        [
            Reading::Native("one".parse().unwrap()),
            Reading::Watch(source),
            Reading::PromptTaken {
                text: Some("do it".into())
            }
        ]
    );
    assert_eq!(Codex::new().read_hook("SessionStart", payload).len(), 2);
    let helper = r#"{"session_id":"two","agent_id":"a","prompt":"help"}"#;
    assert_eq!(Codex::new().read_hook("UserPromptSubmit", helper), []);
}

fn event(payload: &str) -> String {
    format!(
        "{{\"timestamp\":\"2026-11-17T03:30:13.263Z\",\"ordinal\":9,\"type\":\"event_msg\",\"payload\":{payload}}}\n"
    )
}

fn does(activity: Activity, kind: &str, detail: Option<&str>) -> Reading {
    Reading::Activity {
        activity,
        rule: format!("rollout {kind}"),
        detail: detail.map(str::to_owned),
    }
}

#[test]
fn rollouts_tell_turns_and_totals() {
    let mut reader = Codex::new().reader(ROLLOUT, None);
    let text = [
        event(r#"{"type":"task_started","turn_id":"t"}"#),
        "{\"timestamp\":\"2026-11-17T03:30:13.263Z\",\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"text\":\"\
         a text as long as it takes to be no header any more: \
         \\\"type\\\":\\\"event_msg\\\"\"}}\n"
            .to_owned(),
        event(
            r#"{"type":"token_count","info":{"total_token_usage":{"input_tokens":12,"cached_input_tokens":3,"output_tokens":5}},"rate_limits":{"primary":null,"secondary":null}}"#,
        ),
        event(r#"{"type":"task_complete","turn_id":"t","last_agent_message":"done"}"#),
    ];
    let total = Usage {
        input_tokens: 12,
        output_tokens: 5,
        cost_micros: 0,
    };
    assert_eq!(
        reader.read(&text.concat()),
        [
            does(Activity::Active, "task_started", None),
            Reading::ConversationTotal(total),
            Reading::TurnEnded,
            does(Activity::Ready, "task_complete", None),
        ]
    );
    let aborted = event(r#"{"type":"turn_aborted","reason":"interrupted"}"#);
    assert_eq!(
        reader.read(&aborted),
        [
            Reading::TurnEnded,
            does(Activity::Ready, "turn_aborted", Some("interrupted")),
        ]
    );
}

#[test]
fn a_turn_that_fails_is_over_and_a_used_up_quota_blocks() {
    let mut reader = Codex::new().reader(ROLLOUT, None);
    let failed = event(
        r#"{"type":"task_complete","error":{"message":"bad things","codex_error_info":"other"}}"#,
    );
    assert_eq!(
        reader.read(&failed)[1],
        does(Activity::Ready, "task_complete", Some("bad things"))
    );
    let limits = event(
        r#"{"type":"token_count","info":null,"rate_limits":{"primary":{"used_percent":100.0,"window_minutes":300,"resets_at":1794886243},"secondary":{"used_percent":3.5,"resets_at":9}}}"#,
    );
    let over = event(
        r#"{"type":"task_complete","error":{"message":"try again at 3:30 AM.","codex_error_info":"usage_limit_exceeded"}}"#,
    );
    assert_eq!(
        reader.read(&(limits + &over)),
        [
            Reading::TurnEnded,
            does(
                Activity::Blocked,
                "task_complete",
                Some("try again at 3:30 AM.")
            ),
            Reading::Limited {
                resets: Some(QuotaReset::At(Timestamp::from_micros(
                    1_794_886_243_000_000
                )))
            },
        ]
    );
}
