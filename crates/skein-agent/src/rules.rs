//! Screen rules: what a terminal's content says about its program, as data.
//!
//! A rules file is TOML. Rules are tried from the top; the first that matches decides what the agent does. Rules that
//! say `usage` are read in addition.
//!
//! ```toml
//! [[rule]]
//! name = "permission"              # shown by `skein why`
//! says = "question"                # active, ready, waiting_input, blocked, question or usage
//! in = "bottom 20"                 # any (default), cursor, or the last N rows with text
//! all = ["Do you want to proceed?"]            # every one of these is there
//! any = ["Esc to cancel", { regex = "^ *❯" }]  # and at least one of these
//! not = ["esc to interrupt"]                   # and none of these
//! wants = "permission"             # permission, choice or text
//! text = '(Do you want to .*\?)'   # the last rows that match are the question; a group is the part that counts
//! option = '^[❯ ]*\d+\. (.+)$'     # every row below it that matches is an option
//! # Or, where the options are always the same, with the keys that choose them:
//! # options = ["yes", "no"]
//! # keys = ["y", "n"]
//! # kinds = ["allow_once", "reject_once"]      # their meanings; derived from their words if absent
//!
//! [[rule]]
//! name = "limit"
//! says = "blocked"
//! all = ["limit reached"]
//! detail = 'limit reached.*'       # shown to people
//! resets_in = 'in (\d+) s'         # seconds until it can continue
//!
//! [[rule]]
//! name = "cost"
//! says = "usage"                   # totals of the run
//! input = '(\d+) in'
//! output = '(\d+) out'
//! cost = '\$(\d+\.\d+)'
//!
//! [box]                            # the input box
//! in = "bottom 12"
//! prompt = '^> ?'                  # the last row that begins like this is the box
//! more = '^  '                     # how further rows of the box begin
//! trim = "│"                       # decoration at the ends of a row
//! empty = ["Type your message"]    # texts that mean an empty box
//! hidden_by = ["permission"]       # while one of these rules matches there is no box
//!
//! [answer]
//! by = "number"                    # number, number_enter, arrows or text
//! reject = "esc"                   # the key that rejects a permission, if there is one
//! ```
//!
//! Texts are matched inside a row; a `{ regex = "…" }` is matched against each row. The runtime cuts trailing blanks
//! of a row, but a terminal shows them: in `all`, `any`, `not` and the `prompt` of the box, a row with text continues
//! with blanks. So `'^> '` matches a prompt `> ` as well as `'^>'` does. An end (`$`) is after the last visible
//! character, at the cursor, or after the blanks, whichever makes the pattern match.

mod explain;
mod matching;
mod parse;
mod reader;

pub use explain::{NearestRow, RuleTrial, UnmetCondition};
pub(crate) use reader::nearest;
use regex::Regex;
use skein_domain::{Activity, Message, OptionKind, Question, Reason};

use crate::agent::{AnswerTarget, Reply};

/// The meanings of a program's screens.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    input_box: Option<InputBox>,
    answer: AnswerBy,
    /// The keys that reject a permission, if there are special ones.
    reject: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Rule {
    name: String,
    region: Region,
    all: Vec<Pattern>,
    any: Vec<Pattern>,
    not: Vec<Pattern>,
    says: RuleMeaning,
}

#[derive(Clone, Debug)]
enum RuleMeaning {
    Activity {
        activity: Activity,
        detail: Option<Regex>,
        resets_in: Option<Regex>,
    },
    Question(QuestionPattern),
    Usage {
        input: Option<Regex>,
        output: Option<Regex>,
        cost: Option<Regex>,
    },
}

#[derive(Clone, Debug)]
struct QuestionPattern {
    wants: Option<AnswerTarget>,
    text: Option<Regex>,
    option: Option<Regex>,
    options: Vec<Reason>,
    keys: Vec<String>,
    kinds: Vec<OptionKind>,
}

/// The rows that a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Any,
    Cursor,
    /// The last rows with text: programs that draw inline do not reach the bottom.
    Bottom(usize),
}

#[derive(Clone, Debug)]
enum Pattern {
    Text(String),
    Regex {
        regex: Regex,
        /// Whether it may depend on the end of the row, so that each possible end must be tried.
        sees_end: bool,
    },
}

#[derive(Clone, Debug)]
struct InputBox {
    region: Region,
    prompt: Regex,
    more: Option<Regex>,
    trim: String,
    empty: Vec<Pattern>,
    hidden_by: Vec<String>,
}

/// How to choose one of several options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AnswerBy {
    #[default]
    Number,
    NumberEnter,
    Arrows,
    Text,
}

impl Rules {
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub fn reads_usage(&self) -> bool {
        let usage = |rule: &Rule| matches!(rule.says, RuleMeaning::Usage { .. });
        self.rules.iter().any(usage)
    }

    /// How to give the answer at the terminal. `option` counts from 0; without it `text` may be the text or the
    /// number of an option.
    pub fn answer(&self, question: &Question, option: Option<usize>, text: &Reason) -> Reply {
        let typed = || Reply::Text(Message::from(text));
        if question.options.is_empty() {
            return typed();
        }
        let Some(chosen) = option.or_else(|| option_named(question, text)) else {
            return match self.answer {
                AnswerBy::Text => typed(),
                _ => Reply::Cannot {
                    why: format!(
                        "`{}` is not one of the {} options",
                        short(text.as_str()),
                        question.options.len()
                    ),
                },
            };
        };
        if chosen >= question.options.len() {
            return Reply::Cannot {
                why: format!("there are only {} options", question.options.len()),
            };
        }
        if let Some(keys) = self.fixed_keys(question, chosen) {
            return Reply::Keys(keys);
        }
        let rejects = matches!(
            question.kinds.get(chosen),
            Some(OptionKind::RejectOnce | OptionKind::RejectAlways)
        );
        if let Some(keys) = self.reject.as_ref().filter(|_| rejects) {
            return Reply::Keys(keys.clone());
        }
        match self.answer {
            AnswerBy::Number if chosen < 9 => Reply::Keys((chosen + 1).to_string().into_bytes()),
            AnswerBy::Number | AnswerBy::NumberEnter => {
                Reply::Keys(format!("{}\r", chosen + 1).into_bytes())
            }
            AnswerBy::Arrows => {
                let mut keys = b"\x1b[B".repeat(chosen);
                keys.push(b'\r');
                Reply::Keys(keys)
            }
            AnswerBy::Text => Reply::Text(Message::from(&question.options[chosen])),
        }
    }

    /// The key of an option that a rule defines.
    fn fixed_keys(&self, question: &Question, chosen: usize) -> Option<Vec<u8>> {
        self.rules.iter().find_map(|rule| match &rule.says {
            RuleMeaning::Question(asked) if asked.options == question.options => asked
                .keys
                .get(chosen)
                .filter(|keys| !keys.is_empty())
                .map(|keys| keys.clone().into_bytes()),
            _ => None,
        })
    }
}

/// The option with this text or number.
pub(crate) fn option_named(question: &Question, text: &Reason) -> Option<usize> {
    let text = text.as_str().trim();
    let same = |option: &Reason| option.as_str().trim().eq_ignore_ascii_case(text);
    question.options.iter().position(same).or_else(|| {
        let number: usize = text.parse().ok()?;
        (1..=question.options.len())
            .contains(&number)
            .then(|| number - 1)
    })
}

fn short(text: &str) -> String {
    let mut cut: String = text.chars().take(40).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}
