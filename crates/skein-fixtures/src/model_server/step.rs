//! The steps of a directive or a script, and their syntax.

use std::time::Duration;

/// The syntax of a directive, one step per line, for help texts.
pub const STEPS: &str = "\
say TEXT                        answer with a text
bash COMMAND                    call the agent's shell tool
escalate COMMAND                the same, asking for approval where the agent knows that
write PATH CONTENT              write a file with the agent's tool
ask QUESTION | OPTION | OPTION  ask the user with the agent's tool
both STEP // STEP               several calls in one answer
slow SECONDS TEXT               answer word by word, over so many seconds
think SECONDS                   silence before the next step's first byte
tokens IN OUT                   the usage that the next step reports
error STATUS [MESSAGE]          fail; a retry gets the next step
rate-limit SECONDS              fail with 429 and a wait; a retry gets the next step
drop                            cut the connection in the middle; a retry gets the next step";

const WORDS: &[&str] = &[
    "say",
    "bash",
    "escalate",
    "write",
    "ask",
    "both",
    "slow",
    "think",
    "tokens",
    "error",
    "rate-limit",
    "drop",
];

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Say(String),
    Slow {
        over: Duration,
        text: String,
    },
    Bash(String),
    Escalate(String),
    Write {
        path: String,
        content: String,
    },
    Ask {
        question: String,
        options: Vec<String>,
    },
    Both(Vec<Step>),
    Think(Duration),
    Tokens {
        input: u64,
        output: u64,
    },
    Error {
        status: u16,
        message: String,
    },
    RateLimit {
        seconds: u64,
    },
    Drop,
}

impl Step {
    /// Parses one step; the error is a sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (word, rest) = cut(text);
        match word {
            "say" => Ok(Self::Say(unescape(rest))),
            "bash" => Ok(Self::Bash(needed(rest, "bash COMMAND")?)),
            "escalate" => Ok(Self::Escalate(needed(rest, "escalate COMMAND")?)),
            "write" => write(rest),
            "ask" => ask(rest),
            "both" => both(rest),
            "slow" => {
                let (seconds, text) = cut(rest);
                Ok(Self::Slow {
                    over: duration(seconds, "slow SECONDS TEXT")?,
                    text: unescape(text),
                })
            }
            "think" => Ok(Self::Think(duration(rest, "think SECONDS")?)),
            "tokens" => tokens(rest),
            "error" => error(rest),
            "rate-limit" => match rest.parse() {
                Ok(seconds) => Ok(Self::RateLimit { seconds }),
                Err(_) => Err(form("rate-limit SECONDS")),
            },
            "drop" if rest.is_empty() => Ok(Self::Drop),
            "drop" => Err(form("drop")),
            _ => Err(unknown(word)),
        }
    }

    /// Number of results it causes.
    pub(crate) fn calls(&self) -> usize {
        match self {
            Self::Bash(_) | Self::Escalate(_) | Self::Write { .. } | Self::Ask { .. } => 1,
            Self::Both(steps) => steps.iter().map(Self::calls).sum(),
            Self::Say(_)
            | Self::Slow { .. }
            | Self::Think(_)
            | Self::Tokens { .. }
            | Self::Error { .. }
            | Self::RateLimit { .. }
            | Self::Drop => 0,
        }
    }
}

fn unknown(word: &str) -> String {
    if word.is_empty() {
        return "an empty step".to_owned();
    }
    let near =
        nearest(word, WORDS).map_or(".".to_owned(), |near| format!("; did you mean `{near}`?"));
    let shown: String = word.chars().take(40).collect();
    format!(
        "unknown step `{shown}`{near} The steps are {}.",
        WORDS.join(", ")
    )
}

/// The most similar known word, if any is similar.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (strsim::osa_distance(word, known), *known))
        .filter(|(distance, known)| *distance <= (known.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

fn form(form: &str) -> String {
    format!("a step is written `{form}`")
}

/// The first word and the rest.
fn cut(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim_start()),
        None => (text, ""),
    }
}

fn needed(rest: &str, shape: &str) -> Result<String, String> {
    if rest.is_empty() {
        Err(form(shape))
    } else {
        Ok(rest.to_owned())
    }
}

/// Longer than any test waits, and short enough for every timer.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

fn duration(text: &str, shape: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| form(shape))
}

/// A path with blanks is in double quotes.
fn write(rest: &str) -> Result<Step, String> {
    let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let (path, content) = match quoted {
        Some((path, content)) => (path, content.trim_start()),
        None => cut(rest),
    };
    Ok(Step::Write {
        path: needed(path, "write PATH CONTENT")?,
        content: unescape(content),
    })
}

fn ask(rest: &str) -> Result<Step, String> {
    let mut parts = rest.split('|').map(str::trim);
    let question = needed(parts.next().unwrap_or(""), "ask QUESTION | OPTION | OPTION")?;
    let mut options: Vec<String> = parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    if options.is_empty() {
        options = vec!["yes".to_owned(), "no".to_owned()];
    }
    Ok(Step::Ask { question, options })
}

fn both(rest: &str) -> Result<Step, String> {
    let steps: Vec<Step> = rest
        .split(" // ")
        .map(Step::parse)
        .collect::<Result<_, _>>()?;
    let fits = |step: &Step| step.calls() == 1 || matches!(step, Step::Say(_) | Step::Slow { .. });
    if steps.iter().all(fits) {
        Ok(Step::Both(steps))
    } else {
        Err("`both` takes texts and calls only".to_owned())
    }
}

fn tokens(rest: &str) -> Result<Step, String> {
    let (input, output) = cut(rest);
    match (input.parse(), output.parse()) {
        (Ok(input), Ok(output)) => Ok(Step::Tokens { input, output }),
        _ => Err(form("tokens IN OUT")),
    }
}

fn error(rest: &str) -> Result<Step, String> {
    let (status, message) = cut(rest);
    match status.parse() {
        Ok(status @ 400..=599) => Ok(Step::Error {
            status,
            message: if message.is_empty() {
                format!("scripted error {status}")
            } else {
                unescape(message)
            },
        }),
        _ => Err(form("error STATUS [MESSAGE]")),
    }
}

/// Decodes `\n`, `\t` and `\\`, because a prompt often has only one line.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, characters.as_str().chars().next()) {
            ('\\', Some(next @ ('n' | 't' | '\\'))) => {
                characters.next();
                out.push(match next {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                });
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Step) {
        assert_eq!(Step::parse(text), Ok(expected), "{text}");
    }

    #[test]
    fn every_step_is_read() {
        check("say  hello\\nyou", Step::Say("hello\nyou".into()));
        check("say", Step::Say(String::new()));
        check("bash echo 'a\\n'", Step::Bash("echo 'a\\n'".into()));
        check("escalate ls", Step::Escalate("ls".into()));
        let write = |path: &str, content: &str| Step::Write {
            path: path.into(),
            content: content.into(),
        };
        check("write a.txt one\\ntwo", write("a.txt", "one\ntwo"));
        check("write \"a b\" c d", write("a b", "c d"));
        check("write a", write("a", ""));
        check(
            "ask Which one? | red | dark blue",
            Step::Ask {
                question: "Which one?".into(),
                options: vec!["red".into(), "dark blue".into()],
            },
        );
        check(
            "both bash a // write b c",
            Step::Both(vec![Step::Bash("a".into()), write("b", "c")]),
        );
        check(
            "slow 1.5 a b",
            Step::Slow {
                over: Duration::from_millis(1500),
                text: "a b".into(),
            },
        );
        check("think 2", Step::Think(Duration::from_secs(2)));
        check(
            "tokens 10 20",
            Step::Tokens {
                input: 10,
                output: 20,
            },
        );
        check(
            "error 529",
            Step::Error {
                status: 529,
                message: "scripted error 529".into(),
            },
        );
        check("rate-limit 60", Step::RateLimit { seconds: 60 });
        check("drop", Step::Drop);
    }

    #[test]
    fn a_step_that_cannot_be_read_says_why() {
        for (text, part) in [
            ("sya hello", "did you mean `say`?"),
            ("frobnicate", "The steps are say, bash"),
            ("", "an empty step"),
            ("bash", "`bash COMMAND`"),
            ("slow x y", "`slow SECONDS TEXT`"),
            ("think -1", "`think SECONDS`"),
            ("think 1e300", "`think SECONDS`"),
            ("tokens 1", "`tokens IN OUT`"),
            ("error 200", "`error STATUS [MESSAGE]`"),
            ("both bash a // drop", "texts and calls only"),
            ("both sya a", "did you mean `say`?"),
        ] {
            let error = Step::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
