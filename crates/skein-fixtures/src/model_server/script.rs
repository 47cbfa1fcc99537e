//! The script file: rules for prompts without a directive, and the default answer.

use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use toml::Spanned;

use crate::model_server::reply::{Part, Usage};
use crate::model_server::step::{Step, nearest};

/// How the server answers prompts without a directive. The empty script repeats the prompt's beginning.
#[derive(Clone, Debug, Default)]
pub struct Script {
    rules: Vec<Rule>,
    say: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    pace: Duration,
}

#[derive(Clone, Debug)]
struct Rule {
    when: Regex,
    steps: Vec<Step>,
}

/// An error in a script, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ScriptError {
    pub line: usize,
    pub message: String,
    /// What to write instead, if known.
    pub hint: Option<String>,
}

#[derive(Deserialize)]
struct RawScript {
    #[serde(default)]
    reply: Vec<RawRule>,
    #[serde(default)]
    defaults: RawDefaults,
}

#[derive(Deserialize)]
struct RawRule {
    when: Spanned<String>,
    steps: Vec<Spanned<String>>,
}

#[derive(Default, Deserialize)]
struct RawDefaults {
    say: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    words_per_second: Option<Spanned<f64>>,
}

const TOP: &[&str] = &["reply", "defaults"];
const REPLY: &[&str] = &["when", "steps"];
const DEFAULTS: &[&str] = &["say", "input_tokens", "output_tokens", "words_per_second"];

impl Script {
    /// Parses a script: `[[reply]]` tables with `when` and `steps`, and `[defaults]`.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        check_keys(text)?;
        let raw: RawScript = toml::from_str(text).map_err(|error| unreadable(text, &error))?;
        let rules = raw.reply.into_iter().map(|rule| rule.into_rule(text));
        let pace = match raw.defaults.words_per_second {
            None => Duration::ZERO,
            Some(words) => Duration::try_from_secs_f64(1.0 / words.get_ref()).map_err(|_| {
                at(
                    text,
                    words.span().start,
                    "`words_per_second` must be a number above 0",
                )
            })?,
        };
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
            say: raw.defaults.say,
            input_tokens: raw.defaults.input_tokens,
            output_tokens: raw.defaults.output_tokens,
            pace,
        })
    }

    pub(crate) fn steps_for(&self, prompt: &str) -> Option<Vec<Step>> {
        self.rules
            .iter()
            .find(|rule| rule.when.is_match(prompt))
            .map(|rule| rule.steps.clone())
    }

    pub(crate) fn default_text(&self, prompt: &str) -> String {
        if let Some(say) = &self.say {
            return say.clone();
        }
        let line = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        let begin: String = line.chars().take(40).collect();
        format!("ok: {begin}")
            .trim_end_matches([':', ' '])
            .to_owned()
    }

    /// The reported usage: from the script, else about what a real model would count.
    pub(crate) fn usage(&self, asked: usize, parts: &[Part]) -> Usage {
        let answered: usize = parts
            .iter()
            .map(|part| match part {
                Part::Text { text, .. } => text.len(),
                Part::Call { arguments, .. } => arguments.to_string().len(),
            })
            .sum();
        let estimate = |bytes: usize| u64::try_from(bytes / 4).unwrap_or(u64::MAX).max(1);
        Usage {
            input: self.input_tokens.unwrap_or_else(|| estimate(asked)),
            output: self.output_tokens.unwrap_or_else(|| estimate(answered)),
        }
    }

    pub(crate) fn pace(&self) -> Duration {
        self.pace
    }
}

impl RawRule {
    fn into_rule(self, text: &str) -> Result<Rule, ScriptError> {
        let when = Regex::new(self.when.get_ref()).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or("").trim();
            let message = format!("`when` is not a regular expression: {reason}");
            at(text, self.when.span().start, &message)
        })?;
        let steps = self.steps.iter().map(|step| {
            Step::parse(step.get_ref()).map_err(|wrong| at(text, step.span().start, &wrong))
        });
        Ok(Rule {
            when,
            steps: steps.collect::<Result<_, _>>()?,
        })
    }
}

fn check_keys(text: &str) -> Result<(), ScriptError> {
    let table = toml::de::DeTable::parse(text).map_err(|error| unreadable(text, &error))?;
    let table = table.get_ref();
    check_table(text, table, TOP)?;
    if let Some(defaults) = table.get("defaults").and_then(|v| v.get_ref().as_table()) {
        check_table(text, defaults, DEFAULTS)?;
    }
    let rules = table.get("reply").and_then(|v| v.get_ref().as_array());
    for rule in rules.into_iter().flat_map(|rules| rules.iter()) {
        if let Some(rule) = rule.get_ref().as_table() {
            check_table(text, rule, REPLY)?;
        }
    }
    Ok(())
}

fn check_table(
    text: &str,
    table: &toml::de::DeTable<'_>,
    known: &[&str],
) -> Result<(), ScriptError> {
    for key in table.keys() {
        let name: &str = key.get_ref();
        if known.contains(&name) {
            continue;
        }
        let shown: String = name.chars().take(40).collect();
        let mut error = at(text, key.span().start, &format!("unknown key `{shown}`"));
        error.hint = Some(match nearest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the keys here are {}", known.join(", ")),
        });
        return Err(error);
    }
    Ok(())
}

fn unreadable(text: &str, error: &toml::de::Error) -> ScriptError {
    let start = error.span().map_or(0, |span| span.start);
    at(text, start, error.message())
}

fn at(text: &str, byte: usize, message: &str) -> ScriptError {
    let before = &text.as_bytes()[..byte.min(text.len())];
    ScriptError {
        line: before.iter().filter(|b| **b == b'\n').count() + 1,
        message: message.to_owned(),
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let script = Script::parse(
            "[[reply]]\nwhen = \"tests?\"\nsteps = [\"bash true\", \"say a\"]\n\
             [[reply]]\nwhen = \".\"\nsteps = [\"say b\"]\n",
        )
        .unwrap();
        assert_eq!(
            script.steps_for("run the tests"),
            Some(vec![Step::Bash("true".into()), Step::Say("a".into())])
        );
        assert_eq!(script.steps_for("hello"), Some(vec![Step::Say("b".into())]));
        assert_eq!(script.steps_for(""), None);
    }

    #[test]
    fn a_script_has_rules_and_defaults() {
        let script = Script::parse(
            r#"
            [[reply]]
            when = "(?i)tests"
            steps = ["bash cargo test", "say All is well."]

            [defaults]
            say = "I am only a script."
            "#,
        )
        .unwrap();
        assert_eq!(script.rules.len(), 1);
        assert_eq!(script.say.as_deref(), Some("I am only a script."));
    }

    #[test]
    fn a_script_that_is_wrong_says_where() {
        for (text, line, message, hint) in [
            (
                "\n[default]\nsay = \"a\"",
                2,
                "unknown key `default`",
                Some("did you mean `defaults`?"),
            ),
            (
                "[defaults]\nsya = \"a\"",
                2,
                "unknown key `sya`",
                Some("did you mean `say`?"),
            ),
            (
                "[[reply]]\nwhen = \"a\"\nzzz = 1\nsteps = []",
                3,
                "unknown key `zzz`",
                Some("the keys here are when, steps"),
            ),
            (
                "[[reply]]\nwhen = \"(\"\nsteps = []",
                2,
                "unclosed group",
                None,
            ),
            (
                "[[reply]]\nwhen = \"a\"\nsteps = [\n\"say a\",\n\"bahs b\"]",
                5,
                "did you mean `bash`?",
                None,
            ),
            ("[[reply]]\nwhen = \"a\"", 1, "missing field `steps`", None),
            ("[defaults]\nwords_per_second = 0.0", 2, "above 0", None),
            ("[defaults]\nsay = 5", 2, "expected a string", None),
            ("a = ", 1, "", None),
        ] {
            let error = Script::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.message.contains(message), "{text}: {error}");
            assert_eq!(error.hint.as_deref(), hint, "{text}");
        }
    }

    #[test]
    fn without_a_script_the_prompt_is_repeated() {
        let script = Script::default();
        assert_eq!(script.default_text("a\n b"), "ok: a b");
        assert_eq!(script.default_text(""), "ok");
        assert_eq!(script.default_text(&"é".repeat(50)).chars().count(), 44);
    }
}
