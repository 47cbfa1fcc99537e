//! The folder of Codex's settings, login and conversations.
//!
//! On its first start in a terminal Codex looks for a screen reader, and records that in the user's `config.toml`,
//! even if the setting is passed in another way. So unless the record exists, the session gets its own folder: a copy
//! of the settings with the record, and links to everything else, so that logins, refreshed tokens and conversations
//! stay in place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::agent::{LaunchRequest, Result, Start};
use crate::{installed, launch};

const SETTINGS: &str = "config.toml";
/// The session's own folder, below the private one; its databases are always there. Concurrently started Codex
/// processes conflict when they create tables, and the databases can be rebuilt.
const LENT: &str = "codex";
const NOTE: &str = "screen_reader_detection_done";

/// Links the content of the user's folder into the session's, and runs the program. Writing through the link to a
/// missing login creates it in the user's folder.
const LINK: &str = r#"own=$1 user=$2; shift 2
mkdir -p "$own" "$user/sessions"
for entry in "$user/auth.json" "$user"/* "$user"/.[!.]*; do
  name=${entry##*/}
  case $name in config.toml|*.sqlite*|'*'|'.[!.]*') continue;; esac
  [ -e "$own/$name" ] || [ -L "$own/$name" ] || ln -s "$entry" "$own/$name"
done
exec "$@""#;

/// The folder of the session's databases.
pub(super) fn databases(order: &LaunchRequest) -> Result<String> {
    launch::text(&order.private.join(LENT), "private")
}

/// Starts `argv` with the user's folder, or with the session's own.
pub(super) fn lend(order: &LaunchRequest, argv: Vec<String>) -> Result<Start> {
    let user = installed::folder(&order.env, "CODEX_HOME", ".codex");
    let lent = user.and_then(|user| Some((noted(&user)?, user)));
    let Some((settings, user)) = lent else {
        return Ok(Start::of(argv, BTreeMap::new()));
    };
    let own = databases(order)?;
    let user = launch::text(&user, "CODEX_HOME")?;
    let env = BTreeMap::from([("CODEX_HOME".to_owned(), own.clone())]);
    let before = ["sh", "-c", LINK, "sh", &own, &user];
    let words = before.into_iter().map(str::to_owned).chain(argv);
    Ok(Start {
        files: vec![(PathBuf::from(LENT).join(SETTINGS), settings.into_bytes())],
        ..Start::of(words.collect(), env)
    })
}

/// The user's settings with the record added; `None` if it exists, or if the settings are unreadable, which Codex
/// itself reports.
fn noted(user: &Path) -> Option<String> {
    let text = match fs::read_to_string(user.join(SETTINGS)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(_) => return None,
    };
    let mut settings: Table = toml::from_str(&text).ok()?;
    let tui = settings
        .entry("tui")
        .or_insert_with(|| Value::Table(Table::new()))
        .as_table_mut()?;
    if tui.contains_key(NOTE) {
        return None;
    }
    tui.insert(NOTE.into(), Value::Boolean(true));
    toml::to_string(&settings).ok()
}

/// Whether the user has logged in by the file of `codex login`. Logins of other providers are unknown.
pub(super) fn logged_in(env: &BTreeMap<String, String>) -> Option<bool> {
    let folder = installed::folder(env, "CODEX_HOME", ".codex")?;
    if folder.join("auth.json").exists() {
        return Some(true);
    }
    let text = fs::read_to_string(folder.join(SETTINGS)).unwrap_or_default();
    let settings: Table = toml::from_str(&text).ok()?;
    // A keyring cannot be checked, and another provider may need no login.
    let own = |key: &str| settings.contains_key(key);
    (!own("model_provider") && !own("cli_auth_credentials_store")).then_some(false)
}
