//! `[agents.NAME]` of `skein.toml`: any command as an agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How to start and understand a program. Only `command` is required; without further settings the program is
/// started, held and typed to, and its status is `no_signal`.
///
/// ```toml
/// [agents.qwen]
/// command = "qwen --verbose"          # for `sh -c`; `{native}` is a conversation id that Skein chooses
/// prompt = "typed"                    # typed (default), argv or stdin
/// separator = "--"                    # inserted before a prompt in the arguments
/// resume = "qwen --resume {native}"   # continues a conversation
/// model_flag = "--model"              # carries `--model M`
/// rules = "qwen-rules.toml"           # a file beside this one, or a table `[agents.qwen.rules]`
/// hooks = true                        # it calls `$SKEIN_BIN hook EVENT` itself
/// memory_mb = 400                     # expected memory of one agent
/// inherit = ["QWEN_API_KEY"]          # variables of your environment it needs
/// env = { NO_COLOR = "1" }            # additional variables
/// submit = "enter"                    # keys: enter, esc, tab, ctrl-c, alt-enter, or several: ["esc", "enter"]
/// interrupt = "esc"
/// enter_after_ms = 100                # how long after a paste Enter counts as a key
/// install = "npm install -g qwen"     # shown when it is missing
/// ```
///
/// A prompt in the arguments is one separate argument, never part of the command's text. If the program takes a
/// prompt that begins with `-` for an option, set `separator`; without it such a prompt is refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesSource>,
    #[serde(default)]
    pub hooks: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherit: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit: Option<KeyNames>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<KeyNames>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enter_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
}

impl AgentSettings {
    /// Every key, for hints about unknown ones.
    pub const KEYS: &'static [&'static str] = &[
        "command",
        "prompt",
        "separator",
        "resume",
        "model_flag",
        "rules",
        "hooks",
        "memory_mb",
        "inherit",
        "env",
        "submit",
        "interrupt",
        "enter_after_ms",
        "install",
    ];
}

/// The location of screen rules, in the form of [`crate::rules`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RulesSource {
    File(String),
    Inline(toml::Table),
}

/// One key or several, pressed in sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyNames {
    One(String),
    Several(Vec<String>),
}

impl KeyNames {
    /// The bytes that a terminal sends for them; the error is the invalid name.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        let names = match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        };
        let mut bytes = Vec::new();
        for name in names {
            bytes.extend(key(name).ok_or_else(|| name.clone())?);
        }
        if bytes.is_empty() {
            return Err(String::new());
        }
        Ok(bytes)
    }
}

fn key(name: &str) -> Option<Vec<u8>> {
    let name = name.trim().to_ascii_lowercase();
    if let Some(rest) = name.strip_prefix("alt-") {
        let mut bytes = vec![0x1b];
        bytes.extend(key(rest)?);
        return Some(bytes);
    }
    if let Some(letter) = name.strip_prefix("ctrl-") {
        return match letter.as_bytes() {
            [letter] if letter.is_ascii_lowercase() => Some(vec![letter - b'a' + 1]),
            _ => None,
        };
    }
    Some(match name.as_str() {
        "enter" | "return" => b"\r".to_vec(),
        "esc" | "escape" => b"\x1b".to_vec(),
        "tab" => b"\t".to_vec(),
        "space" => b" ".to_vec(),
        "backspace" => b"\x7f".to_vec(),
        "up" => b"\x1b[A".to_vec(),
        "down" => b"\x1b[B".to_vec(),
        "right" => b"\x1b[C".to_vec(),
        "left" => b"\x1b[D".to_vec(),
        one if one.len() == 1 && one.as_bytes()[0].is_ascii_graphic() => one.as_bytes().to_vec(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names() {
        for (name, bytes) in [
            ("enter", &b"\r"[..]),
            ("Esc", b"\x1b"),
            ("ctrl-c", b"\x03"),
            ("alt-enter", b"\x1b\r"),
            ("y", b"y"),
        ] {
            assert_eq!(KeyNames::One(name.into()).bytes().unwrap(), bytes, "{name}");
        }
        let twice = KeyNames::Several(vec!["esc".into(), "esc".into()]);
        assert_eq!(twice.bytes().unwrap(), b"\x1b\x1b");
        for bad in ["", "hyper-x", "ctrl-", "ctrl-ä", "alt-"] {
            assert!(KeyNames::One(bad.into()).bytes().is_err(), "{bad}");
        }
        assert!(KeyNames::Several(vec![]).bytes().is_err());
    }

    #[test]
    fn the_list_of_keys_is_complete() {
        let table: toml::Table = toml::from_str(
            r#"
            command = "x"
            prompt = "argv"
            separator = "--"
            resume = "x {native}"
            model_flag = "-m"
            rules = "f"
            hooks = true
            memory_mb = 1
            inherit = ["A"]
            env = { A = "b" }
            submit = "enter"
            interrupt = ["esc"]
            enter_after_ms = 1
            install = "i"
            "#,
        )
        .unwrap();
        let mut keys: Vec<&str> = table.keys().map(String::as_str).collect();
        let mut known = AgentSettings::KEYS.to_vec();
        keys.sort_unstable();
        known.sort_unstable();
        assert_eq!(keys, known);
        let settings: AgentSettings = table.clone().try_into().unwrap();
        assert_eq!(toml::Table::try_from(&settings).unwrap(), table);
        for unknown in ["comand = 'x'", "command = 'x'\nduring_turn = 'queues'"] {
            assert!(
                toml::from_str::<AgentSettings>(unknown).is_err(),
                "{unknown}"
            );
        }
    }
}
