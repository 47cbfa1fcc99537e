//! The folder Codex keeps its settings, its login and its conversations in.
//!
//! On its first start on a terminal Codex looks for a screen reader, and writes to the user's `config.toml` that
//! it did; a setting from elsewhere does not keep it from that. So unless the note is there already, the session
//! gets a folder of its own: a copy of the settings with the note, and links to everything else, so that logins,
//! refreshed tokens and conversations stay where they were.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::agent::{Order, Result, Start};
use crate::{installed, launch};

const SETTINGS: &str = "config.toml";
/// The lent folder, below the private one; with a lent home or without, its databases are there. Codexes that are
/// started at the same time fall over each other's new tables, and what is in these can be made anew.
const LENT: &str = "codex";
const NOTE: &str = "screen_reader_detection_done";

/// Links what the user's folder holds into the lent one, and becomes the program. What is written through a link
/// to a login that is not there yet lands in the user's folder.
const LINK: &str = r#"own=$1 user=$2; shift 2
mkdir -p "$own" "$user/sessions"
for entry in "$user/auth.json" "$user"/* "$user"/.[!.]*; do
  name=${entry##*/}
  case $name in config.toml|*.sqlite*|'*'|'.[!.]*') continue;; esac
  [ -e "$own/$name" ] || [ -L "$own/$name" ] || ln -s "$entry" "$own/$name"
done
exec "$@""#;

/// Where the session's Codex keeps its databases.
pub(super) fn databases(order: &Order) -> Result<String> {
    launch::text(&order.private.join(LENT), "private")
}

/// A start of `argv` with the user's folder, or with a lent one.
pub(super) fn lend(order: &Order, argv: Vec<String>) -> Result<Start> {
    let plain = |argv| Start {
        argv,
        ..Start::default()
    };
    let Some(user) = installed::folder(&order.env, "CODEX_HOME", ".codex") else {
        return Ok(plain(argv));
    };
    let Some(settings) = noted(&user) else {
        return Ok(plain(argv));
    };
    let own = databases(order)?;
    let user = launch::text(&user, "CODEX_HOME")?;
    let env = BTreeMap::from([("CODEX_HOME".to_owned(), own.clone())]);
    let before = ["sh", "-c", LINK, "sh", &own, &user];
    let words = before.into_iter().map(str::to_owned).chain(argv);
    Ok(Start {
        argv: words.collect(),
        env,
        files: vec![(PathBuf::from(LENT).join(SETTINGS), settings.into_bytes())],
        ..Start::default()
    })
}

/// The user's settings with the note in them; `None` when it is there, or when they cannot be read, of which
/// Codex itself says more.
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

/// Whether somebody has logged in: by a variable, or by the file that `codex login` leaves. Other providers
/// have logins of their own, which only they know of.
pub(super) fn logged_in(env: &BTreeMap<String, String>, variables: &[&str]) -> Option<bool> {
    if installed::has_any(env, variables) {
        return Some(true);
    }
    let folder = installed::folder(env, "CODEX_HOME", ".codex")?;
    if folder.join("auth.json").exists() {
        return Some(true);
    }
    let text = fs::read_to_string(folder.join(SETTINGS)).unwrap_or_default();
    let settings: Table = toml::from_str(&text).ok()?;
    // A keyring tells nothing to those who do not ask it, and another provider is not asked for a login.
    let own = |key: &str| settings.contains_key(key);
    (!own("model_provider") && !own("cli_auth_credentials_store")).then_some(false)
}
