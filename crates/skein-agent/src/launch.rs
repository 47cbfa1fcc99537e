//! Common parts of launches.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use skein_domain::{AgentName, Message, NativeId, PromptVia, Via};

use crate::agent::{Abilities, LaunchRequest, Reader, Reading, Result, Start};
use crate::error::Error;

/// Longest argument of the system: 128 KiB with its terminator.
pub const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;
/// Most bytes of arguments and variables together. Systems accept 1 MiB to 6 MiB, depending on the stack limit; some
/// room is left for the rest.
pub const LONGEST_TOGETHER: usize = 1024 * 1024 - 64 * 1024;

/// The file in the private folder with a prompt for standard input.
const PROMPT_FILE: &str = "prompt.txt";

/// How to pass the task: as ordered, else the agent's default.
pub fn via(agent: &AgentName, abilities: &Abilities, order: &LaunchRequest) -> Result<PromptVia> {
    let asked = order.settings.prompt_via;
    choose(agent, abilities, asked, &order.task, room_of(&order.env))
}

/// The same without an order. `env` is the size of the variables. If the agent's default way cannot carry the task,
/// another one replaces it; a requested way is used or refused.
pub fn choose(
    agent: &AgentName,
    abilities: &Abilities,
    asked: Option<PromptVia>,
    task: &Message,
    env: usize,
) -> Result<PromptVia> {
    let can = &abilities.prompt;
    let via = asked.or(can.first().copied()).unwrap_or(PromptVia::Typed);
    if !can.contains(&via) {
        return Err(Error::NoPrompt {
            agent: agent.to_string(),
            via,
            can: can.clone(),
        });
    }
    let bytes = task.as_str().len();
    let too_long = || {
        let can = can.iter().copied().filter(|via| *via != PromptVia::Argv);
        Error::PromptTooLong {
            agent: agent.to_string(),
            bytes,
            can: can.collect(),
        }
    };
    match (via, asked) {
        (PromptVia::Typed | PromptVia::Stdin, _) => Ok(via),
        (PromptVia::Argv, Some(_)) if bytes > LONGEST_ARGUMENT => Err(too_long()),
        // The system may accept a total size that is above our limit.
        (PromptVia::Argv, Some(_)) => Ok(via),
        (PromptVia::Argv, None) if bytes <= LONGEST_ARGUMENT && bytes + env <= LONGEST_TOGETHER => {
            Ok(via)
        }
        // A program that takes an argument uses a terminal, which a file as standard input would replace.
        (PromptVia::Argv, None) => [PromptVia::Typed, PromptVia::Stdin]
            .into_iter()
            .find(|other| can.contains(other))
            .ok_or_else(too_long),
    }
}

/// The size of variables when a program is started.
pub fn room_of(env: &BTreeMap<String, String>) -> usize {
    // `NAME=VALUE`, its terminator, and a pointer to it.
    let each = |(name, value): (&String, &String)| {
        name.len() + value.len() + 2 + std::mem::size_of::<usize>()
    };
    env.iter().map(each).sum()
}

/// Adds the task: as the last argument, as a file for standard input, or not at all if it is typed later. `via` comes
/// from [`via`] or [`choose`]. Never inserts it into a shell command.
pub fn deliver(start: &mut Start, via: PromptVia, task: &Message) {
    let text = task.as_str();
    match via {
        PromptVia::Typed => {}
        PromptVia::Argv => start.argv.push(text.to_owned()),
        PromptVia::Stdin => {
            let file = PathBuf::from(PROMPT_FILE);
            start.files.push((file.clone(), text.as_bytes().to_vec()));
            start.stdin = Some(file);
        }
    }
    start.prompt = Some(via);
}

/// An id for the conversation: a UUID that is the same for the same run, and different for the same session id of
/// another home or tenant, whose programs may store conversations in the same folder.
pub fn native_of(order: &LaunchRequest) -> NativeId {
    let private = order.private.as_os_str().as_bytes();
    let seed = format!("{}/{}/", order.session, order.run).into_bytes();
    // FNV-1a of 128 bits: stable for ever, and not security-relevant.
    let hash = seed.iter().chain(private).fold(
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
        |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b),
    );
    // Programs that check the form require a known UUID version.
    let version = 0x4000_u128 << 64;
    let variant = 0x8000_u128 << 48;
    let hash = hash & !(0xf000_u128 << 64) & !(0xc000_u128 << 48) | version | variant;
    let hex = format!("{hash:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    NativeId::from_str(&parts.join("-")).expect("hex digits and dashes")
}

/// Adds the ordered model, as the value of a flag.
pub(crate) fn add_model(argv: &mut Vec<String>, flag: &str, order: &LaunchRequest) {
    if let Some(model) = &order.settings.model {
        argv.extend([flag.to_owned(), model.to_string()]);
    }
}

pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// A path as an argument.
pub(crate) fn text(path: &Path, what: &str) -> Result<String> {
    let text = path.to_str().ok_or_else(|| Error::BadSettings {
        place: what.to_owned(),
        why: format!("`{}` is not text", path.display()),
        hints: vec![],
    })?;
    Ok(text.to_owned())
}

pub(crate) fn no_protocol(agent: &AgentName, via: Via) -> Error {
    Error::NoProtocol {
        agent: agent.to_string(),
        protocol: via.as_str().to_owned(),
    }
}

/// Reads nothing, for unknown kinds.
pub(crate) fn no_reader() -> Box<dyn Reader> {
    #[derive(Debug)]
    struct Nothing;
    impl Reader for Nothing {
        fn read(&mut self, _text: &str) -> Vec<Reading> {
            vec![]
        }
    }
    Box::new(Nothing)
}

#[cfg(test)]
mod tests {
    use skein_domain::LaunchSettings;

    use super::*;

    #[test]
    fn a_task_too_long_for_an_argument_goes_another_way_unless_asked_for() {
        use PromptVia::{Argv, Stdin, Typed};
        let agent: AgentName = "codex".parse().unwrap();
        let check = |can: &[PromptVia], asked, length: usize, env, expected: Option<PromptVia>| {
            let abilities = Abilities {
                prompt: can.to_vec(),
                ..Abilities::default()
            };
            let task: Message = "x".repeat(length).parse().unwrap();
            let chosen = choose(&agent, &abilities, asked, &task, env);
            assert_eq!(chosen.ok(), expected, "{can:?} {asked:?} {length} {env}");
        };
        let (longest, long) = (LONGEST_ARGUMENT, LONGEST_ARGUMENT + 1);
        check(&[Argv, Typed], None, longest, 0, Some(Argv));
        check(&[Argv, Typed], None, long, 0, Some(Typed));
        check(&[Argv, Stdin, Typed], None, long, 0, Some(Typed));
        check(&[Argv, Stdin], None, long, 0, Some(Stdin));
        check(&[Argv], None, long, 0, None);
        check(&[Stdin, Typed], None, long, 0, Some(Stdin));
        check(&[Argv, Typed], Some(Argv), long, 0, None);
        check(&[Argv, Typed], Some(Argv), 10, LONGEST_TOGETHER, Some(Argv));
        check(&[Argv, Typed], None, 10, LONGEST_TOGETHER - 10, Some(Argv));
        check(&[Argv, Typed], None, 10, LONGEST_TOGETHER - 9, Some(Typed));
    }

    #[test]
    fn variables_take_room_with_their_names() {
        let env = BTreeMap::from([("A".to_owned(), "bc".to_owned())]);
        assert_eq!(room_of(&env), 5 + 8);
    }

    #[test]
    fn conversation_names_stay_the_same() {
        let order = |run| LaunchRequest {
            session: "api-7".parse().unwrap(),
            run,
            task: "x".parse().unwrap(),
            settings: LaunchSettings::default(),
            workspace: PathBuf::from("/"),
            private: PathBuf::from("/"),
            skein: PathBuf::from("/"),
            path: String::new(),
            env: BTreeMap::new(),
            native: None,
        };
        assert_eq!(
            native_of(&order(1)).as_str(),
            "d0a9a4f9-3d06-48b4-b768-ede5ae45068d"
        );
        assert_ne!(native_of(&order(1)), native_of(&order(2)));
    }
}
