//! How Claude Code is started.

use std::fs;

use serde_json::Value;
use skein_domain::LaunchSettings;
use tempfile::TempDir;

use super::*;
use crate::error::Error;

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["bin", "home/.claude", "work", "private"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink("/bin/true", folder.path().join("bin/claude")).unwrap();
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn order(&self, permission: Permission) -> LaunchRequest {
        LaunchRequest {
            session: "api-7".parse().unwrap(),
            run: 1,
            task: "fix it".parse().unwrap(),
            settings: LaunchSettings {
                permission,
                ..LaunchSettings::default()
            },
            workspace: self.at("work"),
            private: self.at("private"),
            skein: "/skein".into(),
            path: self.at("bin").display().to_string(),
            env: [("HOME".to_owned(), self.at("home").display().to_string())].into(),
            native: None,
        }
    }
}

fn settings(start: &Start) -> Value {
    serde_json::from_slice(&start.files[0].1).unwrap()
}

#[test]
fn a_launch_names_its_conversation_its_settings_and_its_mode() {
    let place = Place::new();
    for (permission, mode) in [
        (Permission::Ask, "default"),
        (Permission::Edits, "acceptEdits"),
        (Permission::Full, "bypassPermissions"),
    ] {
        let start = ClaudeCode::new().start(&place.order(permission)).unwrap();
        let native = start.native.clone().unwrap();
        let program = place.at("bin/claude").display().to_string();
        let file = place.at("private").join(settings::FILE);
        let file = file.display().to_string();
        let expected = [
            program.as_str(),
            "--session-id",
            native.as_str(),
            "--settings",
            &file,
            "--permission-mode",
            mode,
            "--",
            "fix it",
        ];
        assert_eq!(start.argv, expected);
        let full = permission == Permission::Full;
        let skips = &settings(&start)["skipDangerousModePermissionPrompt"];
        assert_eq!(skips.as_bool().unwrap_or(false), full);
        let root = rustix::process::geteuid().is_root();
        assert_eq!(start.env.contains_key("IS_SANDBOX"), full && root);
    }
}

#[test]
fn a_conversation_without_messages_is_not_resumed() {
    let place = Place::new();
    let mut order = place.order(Permission::Ask);
    order.native = Some("a-1".parse().unwrap());
    let agent = ClaudeCode::new();
    let folder = place.at("home/.claude/projects/-somewhere");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("a-1.jsonl");
    for text in [None, Some("{\"type\":\"mode\"}\n")] {
        text.inspect(|text| fs::write(&file, text).unwrap());
        let error = agent.resume(&order).unwrap_err();
        assert!(matches!(error, Error::CannotResume { .. }), "{error}");
    }
    fs::write(&file, "{\"type\":\"user\",\"message\":{}}\n").unwrap();
    let start = agent.resume(&order).unwrap();
    assert_eq!(start.argv[1..3], ["--resume", "a-1"]);
}

#[test]
fn a_status_line_of_the_users_is_shown_and_theirs_stays_as_it_is() {
    let place = Place::new();
    let order = place.order(Permission::Ask);
    let line = |order: &LaunchRequest| {
        let start = ClaudeCode::new().start(order).unwrap();
        settings(&start)["statusLine"].clone()
    };
    assert_eq!(
        line(&order)["command"],
        "\"$SKEIN_BIN\" hook StatusLine || true"
    );
    let theirs = place.at("home/.claude/settings.json");
    let text = r#"{"statusLine":{"type":"command","command":"sed s/in/out/ # mine","padding":2}}"#;
    fs::write(&theirs, text).unwrap();
    let wrapped = line(&order);
    assert_eq!(wrapped["padding"], 2);
    let output = std::process::Command::new("sh")
        .args(["-c", "printf 'what comes in' | sh -c \"$1\"", "sh"])
        .arg(wrapped["command"].as_str().unwrap())
        .env("SKEIN_BIN", "/bin/false")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "what comes out");
    assert_eq!(fs::read_to_string(theirs).unwrap(), text);
}

#[test]
fn a_login_is_found_in_files_and_variables() {
    let place = Place::new();
    let agent = ClaudeCode::new();
    let mut env = place.order(Permission::Ask).env;
    let logged_in = |env: &BTreeMap<String, String>| agent.find("/bin", env).logged_in;
    assert_eq!(logged_in(&BTreeMap::new()), None);
    assert_eq!(logged_in(&env), Some(false));
    fs::write(place.at("home/.claude.json"), r#"{"oauthAccount":{}}"#).unwrap();
    assert_eq!(logged_in(&env), Some(true));
    fs::remove_file(place.at("home/.claude.json")).unwrap();
    env.insert("ANTHROPIC_API_KEY".into(), "x".into());
    assert_eq!(logged_in(&env), Some(true));
}

#[test]
fn its_files_are_where_its_config_folder_is() {
    let place = Place::new();
    let mut order = place.order(Permission::Ask);
    let agent = ClaudeCode::new();
    let state = place.at("home/.claude/sessions/{pid}.json");
    assert_eq!(agent.sources(&order)[0].path, state);
    order.env.insert("CLAUDE_CONFIG_DIR".into(), "/c".into());
    order.native = Some("a-1".parse().unwrap());
    let sources = agent.sources(&order);
    assert_eq!(sources[0].path, PathBuf::from("/c/sessions/{pid}.json"));
    assert!(sources[1].path.starts_with("/c/projects"));
    assert!(sources[1].path.ends_with("a-1.jsonl"));
}

#[test]
fn l6_a_prompt_of_before_is_not_the_input_box() {
    let rows = ["❯ earlier", "● done", "", "❯ fix it", ""].map(str::to_owned);
    let picture = ScreenView {
        rows: &rows,
        cursor: (0, 0),
        title: None,
    };
    let agent = ClaudeCode::new();
    assert_eq!(agent.read_screen(picture), []);
    assert_eq!(agent.draft(picture), Draft::Unseen);
}
