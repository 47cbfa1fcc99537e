//! The language of the scripted agent: directives of a prompt, and its behaviour at start.

use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Directive {
    /// A line without a directive.
    Echo(String),
    Say(String),
    Write {
        path: PathBuf,
        text: String,
    },
    Append {
        path: PathBuf,
        text: String,
    },
    Commit(String),
    Ask {
        text: String,
        options: Vec<String>,
    },
    Wait(Duration),
    Crash(i32),
    KillSelf(i32),
    Exit(i32),
    Finish,
    Garbage(usize),
    Flood {
        megabytes: u64,
    },
    Usage {
        input: u64,
        output: u64,
        cost_micros: u64,
    },
    Limit(Duration),
    SpawnChild(Duration),
    SleepForever,
    Wrong(String),
}

/// The first words of all directives.
const WORDS: &[&str] = &[
    "say",
    "write",
    "append",
    "commit",
    "ask",
    "wait",
    "crash",
    "kill-self",
    "exit",
    "finish",
    "garbage",
    "flood",
    "usage",
    "limit",
    "spawn-child",
    "sleep-forever",
];

/// The directives of a prompt, in order.
pub(super) fn parse(prompt: &str) -> Vec<Directive> {
    prompt
        .lines()
        .filter(|line| !line.trim().is_empty())
        .flat_map(split)
        .map(directive)
        .collect()
}

/// Splits a line of directives at each `;` before another one, so that texts may contain `;`.
fn split(line: &str) -> Vec<&str> {
    if !is_directive(line) {
        return vec![line];
    }
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, _) in line.match_indices(';') {
        if is_directive(&line[at + 1..]) {
            pieces.push(&line[start..at]);
            start = at + 1;
        }
    }
    // A final `;` ends the last directive.
    pieces.push(line[start..].trim_end().trim_end_matches(';'));
    pieces
}

fn is_directive(text: &str) -> bool {
    WORDS.contains(&word(text).0)
}

/// The first word and the rest.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim_start()),
        None => (text, ""),
    }
}

fn directive(text: &str) -> Directive {
    let (name, rest) = word(text);
    let wrong = || Directive::Wrong(text.trim().to_owned());
    let or_wrong = |found: Option<Directive>| found.unwrap_or_else(wrong);
    match name {
        "say" => Directive::Say(rest.to_owned()),
        "write" | "append" => {
            let (path, text) = word(rest);
            if path.is_empty() {
                return wrong();
            }
            let (path, text) = (PathBuf::from(path), text.to_owned());
            match name {
                "write" => Directive::Write { path, text },
                _ => Directive::Append { path, text },
            }
        }
        "commit" if rest.is_empty() => wrong(),
        "commit" => Directive::Commit(rest.to_owned()),
        "ask" => or_wrong(ask(rest)),
        "wait" => or_wrong(seconds(rest).map(Directive::Wait)),
        "crash" => or_wrong(code(rest, 101).map(Directive::Crash)),
        "kill-self" => or_wrong(signal(rest).map(Directive::KillSelf)),
        "exit" => or_wrong(code(rest, 0).map(Directive::Exit)),
        "finish" => Directive::Finish,
        "garbage" => or_wrong(rest.parse().ok().map(Directive::Garbage)),
        "flood" => or_wrong(
            rest.parse()
                .ok()
                .map(|megabytes| Directive::Flood { megabytes }),
        ),
        "usage" => or_wrong(usage(rest)),
        "limit" => or_wrong(seconds(rest).map(Directive::Limit)),
        "spawn-child" if rest.is_empty() => Directive::SpawnChild(Duration::from_secs(3600)),
        "spawn-child" => or_wrong(seconds(rest).map(Directive::SpawnChild)),
        "sleep-forever" => Directive::SleepForever,
        _ => Directive::Echo(text.to_owned()),
    }
}

fn ask(rest: &str) -> Option<Directive> {
    let mut parts = rest.split('|').map(|part| part.trim().to_owned());
    let text = parts.next().filter(|text| !text.is_empty())?;
    let options: Vec<String> = parts.filter(|option| !option.is_empty()).collect();
    (options.len() <= 9).then_some(Directive::Ask { text, options })
}

fn usage(rest: &str) -> Option<Directive> {
    let mut words = rest.split_whitespace();
    let input = words.next()?.parse().ok()?;
    let output = words.next()?.parse().ok()?;
    let cost_micros = match words.next() {
        Some(cost) => micros(cost)?,
        None => 0,
    };
    Some(Directive::Usage {
        input,
        output,
        cost_micros,
    })
}

/// Dollars in millionths, rounded. `None` for an invalid amount.
fn micros(dollars: &str) -> Option<u64> {
    let amount: f64 = dollars.parse().ok().filter(|_| !dollars.contains('+'))?;
    format!("{amount:.6}").replace('.', "").parse().ok()
}

pub(super) fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn code(text: &str, default: i32) -> Option<i32> {
    match text {
        "" => Some(default),
        _ => text.parse::<u8>().ok().map(i32::from),
    }
}

/// By number, or by name with or without `SIG`.
fn signal(text: &str) -> Option<i32> {
    let name = text.trim().to_ascii_uppercase();
    Some(match name.strip_prefix("SIG").unwrap_or(&name) {
        "HUP" => 1,
        "INT" => 2,
        "QUIT" => 3,
        "ABRT" => 6,
        "KILL" => 9,
        "USR1" => 10,
        "SEGV" => 11,
        "TERM" => 15,
        "STOP" => 19,
        number => number.parse().ok().filter(|n| (1..=31).contains(n))?,
    })
}

/// Its behaviour, from `SCRIPTED_START`, with parts separated by `;`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Behaviour {
    pub(super) swallow_enter: u32,
    pub(super) echo_late: Option<Duration>,
    pub(super) redraw: Option<Duration>,
    pub(super) dialog: Option<String>,
    pub(super) no_paste: bool,
    pub(super) slow_read: Option<Duration>,
    pub(super) die_on_paste: Option<usize>,
    pub(super) slow_start: Option<Duration>,
    pub(super) busy: Option<Duration>,
    pub(super) deaf: bool,
}

impl Behaviour {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut behaviour = Self::default();
        for piece in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            behaviour
                .add(piece)
                .ok_or_else(|| format!("cannot start with `{piece}`"))?;
        }
        Ok(behaviour)
    }

    fn add(&mut self, piece: &str) -> Option<()> {
        let (name, rest) = word(piece);
        let millis = || rest.parse().ok().map(Duration::from_millis);
        match name {
            "swallow-enter" => self.swallow_enter = rest.parse().ok()?,
            "echo-late" => self.echo_late = Some(millis()?),
            "redraw" => self.redraw = Some(millis()?.max(Duration::from_millis(1))),
            "dialog" if !rest.is_empty() => self.dialog = Some(rest.to_owned()),
            "no-paste" => self.no_paste = true,
            "slow-read" => self.slow_read = Some(millis()?),
            "die-on-paste" => self.die_on_paste = Some(rest.parse().ok()?),
            "slow-start" => self.slow_start = Some(millis()?),
            "busy" => self.busy = Some(seconds(rest)?),
            "deaf" => self.deaf = true,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_in_order_from_lines_and_pieces() {
        assert_eq!(
            parse("say hello; write a/b.txt one; two\n\nwait 0.5;commit done;\nhello; say what"),
            [
                Directive::Say("hello".into()),
                Directive::Write {
                    path: "a/b.txt".into(),
                    text: "one; two".into()
                },
                Directive::Wait(Duration::from_millis(500)),
                Directive::Commit("done".into()),
                Directive::Echo("hello; say what".into()),
            ]
        );
    }

    #[test]
    fn questions_have_options() {
        assert_eq!(
            parse("ask Which one? | red | green"),
            [Directive::Ask {
                text: "Which one?".into(),
                options: vec!["red".into(), "green".into()]
            }]
        );
    }

    #[test]
    fn l13_arguments_that_cannot_be_are_told() {
        for bad in [
            "wait -1",
            "wait nan",
            "wait 1e300",
            "write",
            "commit",
            "crash 300",
            "kill-self NOPE",
            "kill-self 99",
            "flood x",
            "usage 1",
            "ask",
            "ask | a",
        ] {
            assert_eq!(parse(bad), [Directive::Wrong(bad.into())], "{bad}");
        }
    }

    #[test]
    fn starts_are_read() {
        let behaviour =
            Behaviour::parse("swallow-enter 2; echo-late 50 ;dialog Trust this folder?;deaf")
                .unwrap();
        assert_eq!(
            behaviour,
            Behaviour {
                swallow_enter: 2,
                echo_late: Some(Duration::from_millis(50)),
                dialog: Some("Trust this folder?".into()),
                deaf: true,
                ..Behaviour::default()
            }
        );
        assert!(Behaviour::parse("fly").is_err());
    }

    proptest::proptest! {
        #[test]
        fn l13_any_text_is_read(
            text in "((say|write|wait|ask|usage|limit|flood|commit|kill-self|;|\\||\n| |[0-9.-]{1,8}|.{0,5}) ?){0,12}",
        ) {
            parse(&text);
            let _ = Behaviour::parse(&text);
        }
    }
}
