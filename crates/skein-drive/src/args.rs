//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What to drive, and how.
#[derive(Debug)]
pub(crate) struct DriveArgs {
    pub(crate) protocol: ProtocolKind,
    pub(crate) journal: PathBuf,
    /// The file that prompts, answers and interrupts come in as calls.
    pub(crate) calls: Option<PathBuf>,
    pub(crate) start: ConversationStart,
    pub(crate) permission: Permission,
    pub(crate) model: Option<String>,
    /// Seconds since 1970 before which the program must not be started.
    pub(crate) not_before: Option<u64>,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolKind {
    Acp,
    Claude,
    Codex,
    OpenCode,
}

impl ProtocolKind {
    /// The arguments that make the program speak the protocol.
    fn arguments(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Acp => &[],
            Self::Claude => &[
                &["-p"],
                &["--verbose"],
                &["--input-format", "stream-json"],
                &["--output-format", "stream-json"],
                &["--permission-prompt-tool", "stdio"],
                &["--include-partial-messages"],
                &["--replay-user-messages"],
            ],
            Self::Codex => &[&["app-server"]],
            Self::OpenCode => &[&["serve"], &["--port", "0"], &["--hostname", "127.0.0.1"]],
        }
    }

    /// Adds the arguments of the protocol that are not there already.
    fn add_protocol_arguments(self, arguments: &mut Vec<OsString>) {
        for words in self.arguments() {
            if !arguments.iter().any(|argument| argument == words[0]) {
                arguments.extend(words.iter().map(OsString::from));
            }
        }
    }
}

/// Which conversation it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConversationStart {
    /// A new one, under that name where the program lets others name it.
    New {
        native: Option<String>,
    },
    Resume(String),
}

/// What the program may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    Ask,
    /// Change files below the working folder.
    Edits,
    Full,
}

const USAGE: &str = "usage: skein drive PROTOCOL --journal FILE [--calls FILE] [--resume ID] [--native ID] \
     [--permission ask|edits|full] [--model M] [--not-before SECONDS] -- PROGRAM ARG…";

/// Reads the words after `skein drive`.
pub(crate) fn parse(arguments: &[OsString]) -> Result<DriveArgs, String> {
    let mut words = arguments.iter();
    let protocol = match words.next().and_then(|word| word.to_str()) {
        Some("acp") => ProtocolKind::Acp,
        Some("claude") => ProtocolKind::Claude,
        Some("codex") => ProtocolKind::Codex,
        Some("opencode") => ProtocolKind::OpenCode,
        Some(other) => return Err(format!("no protocol `{other}`; {USAGE}")),
        None => return Err(USAGE.into()),
    };
    let (mut journal, mut calls, mut model, mut native) = (None, None, None, None);
    let mut resume = None;
    let (mut permission, mut not_before) = (Permission::Ask, None);
    loop {
        let word = words.next().ok_or(USAGE)?;
        let name = word.to_str().ok_or(USAGE)?;
        if name == "--" {
            break;
        }
        let value = words
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name {
            "--journal" => journal = Some(PathBuf::from(value)),
            "--calls" => calls = Some(PathBuf::from(value)),
            "--model" => model = Some(text(name, value)?),
            "--native" => native = Some(text(name, value)?),
            "--resume" => resume = Some(text(name, value)?),
            "--permission" => permission = level(value)?,
            "--not-before" => not_before = Some(seconds(value)?),
            _ => return Err(format!("no option `{name}`; {USAGE}")),
        }
    }
    let start = match resume {
        Some(id) => ConversationStart::Resume(id),
        None => ConversationStart::New { native },
    };
    let program = words.next().cloned().ok_or(USAGE)?;
    let mut arguments: Vec<OsString> = words.cloned().collect();
    protocol.add_protocol_arguments(&mut arguments);
    Ok(DriveArgs {
        protocol,
        journal: journal.ok_or("--journal FILE is missing")?,
        calls,
        start,
        permission,
        model,
        not_before,
        program,
        arguments,
    })
}

fn level(value: &OsStr) -> Result<Permission, String> {
    match value.to_str() {
        Some("ask") => Ok(Permission::Ask),
        Some("edits") => Ok(Permission::Edits),
        Some("full") => Ok(Permission::Full),
        _ => Err(format!(
            "--permission is ask, edits or full, not `{}`",
            value.to_string_lossy()
        )),
    }
}

fn seconds(value: &OsStr) -> Result<u64, String> {
    let number = value.to_str().and_then(|value| value.parse().ok());
    number.ok_or_else(|| {
        let value = value.to_string_lossy();
        format!("--not-before is in seconds since 1970, not `{value}`")
    })
}

fn text(name: &str, value: &OsStr) -> Result<String, String> {
    let value = value.to_str().filter(|value| !value.is_empty());
    value
        .map(str::to_owned)
        .ok_or_else(|| format!("the value of {name} is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<DriveArgs, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words)
    }

    #[test]
    fn what_stands_after_the_dashes_is_the_programs() {
        let args = parsed(
            "acp --journal j --permission edits --resume a --not-before 60 -- gemini --acp -- --x",
        )
        .unwrap();
        assert_eq!(args.start, ConversationStart::Resume("a".into()));
        assert_eq!(args.permission, Permission::Edits);
        assert_eq!(args.not_before, Some(60));
        assert_eq!(args.program, "gemini");
        assert_eq!(args.arguments, ["--acp", "--", "--x"]);
    }

    #[test]
    fn the_arguments_of_a_protocol_are_added_once() {
        let args = parsed("codex --journal j -- codex -c a=b").unwrap();
        assert_eq!(args.arguments, ["-c", "a=b", "app-server"]);
        let args = parsed("codex --journal j -- codex app-server --x").unwrap();
        assert_eq!(args.arguments, ["app-server", "--x"]);
        let args = parsed("claude --journal j -- claude -p --resume a").unwrap();
        assert!(args.arguments.iter().filter(|a| *a == "-p").count() == 1);
        assert!(args.arguments.iter().any(|a| a == "--replay-user-messages"));
    }

    #[test]
    fn l13_what_is_wrong_is_said() {
        for (line, why) in [
            ("", "usage"),
            ("morse --journal j -- x", "no protocol `morse`"),
            ("acp -- x", "--journal FILE is missing"),
            ("acp --journal j", "usage"),
            ("acp --journal j --", "usage"),
            ("acp --journal j --permission all -- x", "not `all`"),
            ("acp --journal j --not-before noon -- x", "not `noon`"),
            ("acp --journal", "needs a value"),
        ] {
            let said = parsed(line).unwrap_err();
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}
