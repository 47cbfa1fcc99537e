//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What to drive, and how.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) speaks: Speaks,
    pub(crate) journal: PathBuf,
    /// The file that prompts, answers and interrupts come in as calls.
    pub(crate) calls: Option<PathBuf>,
    pub(crate) begin: Begin,
    pub(crate) permission: Permission,
    pub(crate) model: Option<String>,
    /// Seconds since 1970 before which the program must not be started.
    pub(crate) not_before: Option<u64>,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Acp,
    Claude,
    Codex,
    OpenCode,
}

impl Speaks {
    /// What the program must be told so that it speaks the protocol.
    fn words(self) -> &'static [&'static [&'static str]] {
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

    /// Adds the words that are not there already.
    fn tell(self, arguments: &mut Vec<OsString>) {
        for words in self.words() {
            if !arguments.iter().any(|argument| argument == words[0]) {
                arguments.extend(words.iter().map(OsString::from));
            }
        }
    }
}

/// Which conversation it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
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
pub(crate) fn parse(arguments: &[OsString]) -> Result<Order, String> {
    let mut words = arguments.iter();
    let speaks = match words.next().and_then(|word| word.to_str()) {
        Some("acp") => Speaks::Acp,
        Some("claude") => Speaks::Claude,
        Some("codex") => Speaks::Codex,
        Some("opencode") => Speaks::OpenCode,
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
    let begin = match resume {
        Some(id) => Begin::Resume(id),
        None => Begin::New { native },
    };
    let program = words.next().cloned().ok_or(USAGE)?;
    let mut arguments: Vec<OsString> = words.cloned().collect();
    speaks.tell(&mut arguments);
    Ok(Order {
        speaks,
        journal: journal.ok_or("--journal FILE is missing")?,
        calls,
        begin,
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

    fn parsed(line: &str) -> Result<Order, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words)
    }

    #[test]
    fn what_stands_after_the_dashes_is_the_programs() {
        let order = parsed(
            "acp --journal j --permission edits --resume a --not-before 60 -- gemini --acp -- --x",
        )
        .unwrap();
        assert_eq!(order.begin, Begin::Resume("a".into()));
        assert_eq!(order.permission, Permission::Edits);
        assert_eq!(order.not_before, Some(60));
        assert_eq!(order.program, "gemini");
        assert_eq!(order.arguments, ["--acp", "--", "--x"]);
    }

    #[test]
    fn a_program_is_told_to_speak_once() {
        let order = parsed("codex --journal j -- codex -c a=b").unwrap();
        assert_eq!(order.arguments, ["-c", "a=b", "app-server"]);
        let order = parsed("codex --journal j -- codex app-server --x").unwrap();
        assert_eq!(order.arguments, ["app-server", "--x"]);
        let order = parsed("claude --journal j -- claude -p --resume a").unwrap();
        assert!(order.arguments.iter().filter(|a| *a == "-p").count() == 1);
        assert!(
            order
                .arguments
                .iter()
                .any(|a| a == "--replay-user-messages")
        );
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
