//! Finds the directive in a text, and groups its steps into answers.

use std::time::Duration;

use crate::model_server::step::Step;

/// The steps between the first `[[` and its `]]`; an invalid step becomes a text with the error. None without a
/// directive.
///
/// Brackets may be nested, so that a command can contain `[[ … ]]`. `;;` separates steps unless it is inside double
/// quotes or written `\;;`.
pub(crate) fn find(text: &str) -> Option<Vec<Step>> {
    let inside = inside(text)?;
    Some(
        split(inside)
            .iter()
            .map(|step| Step::parse(step).unwrap_or_else(Step::Say))
            .collect(),
    )
}

/// The text between the brackets. If they do not balance, the last `]]` ends it.
fn inside(text: &str) -> Option<&str> {
    let from = text.find("[[")? + 2;
    let rest = &text[from..];
    let mut depth = 1;
    let mut at = 0;
    while at < rest.len() {
        match rest.as_bytes().get(at..at + 2) {
            Some(b"[[") => {
                depth += 1;
                at += 2;
            }
            Some(b"]]") => {
                depth -= 1;
                if depth == 0 {
                    // Of more than two closing brackets the first ones belong to the content.
                    let extra = rest[at + 2..].bytes().take_while(|b| *b == b']').count();
                    return Some(&rest[..at + extra]);
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
    rest.rfind("]]").map(|end| &rest[..end])
}

fn split(text: &str) -> Vec<String> {
    let mut steps = vec![String::new()];
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let step = steps.last_mut().expect("there is always a last step");
        let mut width = c.len_utf8();
        if rest.starts_with("\\;;") {
            step.push_str(";;");
            width = 3;
        } else if rest.starts_with(";;") {
            steps.push(String::new());
            width = 2;
        } else if let Some(end) = rest.strip_prefix('"').and_then(|rest| rest.find('"')) {
            width = end + 2;
            step.push_str(&rest[..width]);
        } else {
            step.push(c);
        }
        rest = &rest[width..];
    }
    steps
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Ending {
    #[default]
    Whole,
    Cut,
    Error {
        status: u16,
        message: String,
    },
    RateLimit {
        seconds: u64,
    },
}

/// One answer of the model: texts, then at most one batch of calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) think: Duration,
    pub(crate) tokens: Option<(u64, u64)>,
    /// Only steps that say or call something.
    pub(crate) acts: Vec<Step>,
    pub(crate) ending: Ending,
}

impl Reply {
    pub(crate) fn calls(&self) -> usize {
        self.acts.iter().map(Step::calls).sum()
    }

    /// Whether it leaves no trace in the conversation, so that only the server knows about it.
    pub(crate) fn fails(&self) -> bool {
        self.ending != Ending::Whole
    }
}

/// A turn continues only after a call, so texts belong to the same answer as the call after them.
pub(crate) fn replies(steps: Vec<Step>) -> Vec<Reply> {
    let mut replies = vec![];
    let mut open = Reply::default();
    for step in steps {
        match step {
            Step::Think(time) => open.think += time,
            Step::Tokens { input, output } => open.tokens = Some((input, output)),
            Step::Both(acts) => {
                open.acts.extend(acts);
                replies.push(std::mem::take(&mut open));
            }
            Step::Bash(_) | Step::Escalate(_) | Step::Write { .. } | Step::Ask { .. } => {
                open.acts.push(step);
                replies.push(std::mem::take(&mut open));
            }
            Step::Say(_) | Step::Slow { .. } => open.acts.push(step),
            Step::Drop => end(&mut replies, &mut open, Ending::Cut),
            Step::Error { status, message } => {
                end(&mut replies, &mut open, Ending::Error { status, message });
            }
            Step::RateLimit { seconds } => {
                end(&mut replies, &mut open, Ending::RateLimit { seconds });
            }
        }
    }
    if open != Reply::default() {
        replies.push(open);
    }
    replies
}

/// A cut includes the texts before it; an error has none, so they end the turn before it.
fn end(replies: &mut Vec<Reply>, open: &mut Reply, ending: Ending) {
    let mut reply = std::mem::take(open);
    if ending != Ending::Cut && !reply.acts.is_empty() {
        replies.push(std::mem::take(&mut reply));
    }
    reply.ending = ending;
    replies.push(reply);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bash(command: &str) -> Step {
        Step::Bash(command.into())
    }

    fn say(text: &str) -> Step {
        Step::Say(text.into())
    }

    #[test]
    fn a_directive_is_found_in_any_text() {
        for (text, steps) in [
            ("[[say a]]", vec![say("a")]),
            (
                "\"[[bash touch a ;; say done]]\"\n",
                vec![bash("touch a"), say("done")],
            ),
            (
                "do this:\n[[bash a\nb;;say c]] please",
                vec![bash("a\nb"), say("c")],
            ),
            (
                "[[bash if [[ -f a ]]; then b; fi ;; say c]]",
                vec![bash("if [[ -f a ]]; then b; fi"), say("c")],
            ),
            ("[[bash echo ${a[0]}]]", vec![bash("echo ${a[0]}")]),
            ("[[bash echo $[a[0]]]]", vec![bash("echo $[a[0]]")]),
            (
                "[[bash [[ a ]] [[ ;; say b]]",
                vec![bash("[[ a ]] [["), say("b")],
            ),
            (
                "[[bash echo \"a ;; b\" ;; say c]]",
                vec![bash("echo \"a ;; b\""), say("c")],
            ),
            (
                "[[bash case a in a) b \\;; esac]]",
                vec![bash("case a in a) b ;; esac")],
            ),
            (
                "[[say don't ;; say 5\" tall]]",
                vec![say("don't"), say("5\" tall")],
            ),
            ("[[say a]] and [[say b]]", vec![say("a")]),
        ] {
            assert_eq!(find(text), Some(steps), "{text}");
        }
        for text in ["", "no", "[[say a", "say a]]", "[say a]"] {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn an_unknown_step_is_answered_with_a_text_about_it() {
        let Some(steps) = find("[[bahs ls]]") else {
            panic!("no directive");
        };
        let [Step::Say(text)] = steps.as_slice() else {
            panic!("{steps:?}");
        };
        assert!(
            text.contains("unknown step `bahs`; did you mean `bash`?"),
            "{text}"
        );
    }

    #[test]
    fn steps_become_answers() {
        let plan = |text: &str| replies(find(text).unwrap());
        let of = |acts: Vec<Step>| Reply {
            acts,
            ..Reply::default()
        };
        assert_eq!(
            plan("[[bash a ;; say b]]"),
            [of(vec![bash("a")]), of(vec![say("b")])]
        );
        assert_eq!(
            plan("[[say a ;; bash b ;; both bash c // bash d]]"),
            [
                of(vec![say("a"), bash("b")]),
                of(vec![bash("c"), bash("d")])
            ]
        );
        assert_eq!(
            plan("[[think 1 ;; tokens 2 3 ;; error 500 x ;; say a ;; drop ;; rate-limit 4]]"),
            [
                Reply {
                    think: Duration::from_secs(1),
                    tokens: Some((2, 3)),
                    acts: vec![],
                    ending: Ending::Error {
                        status: 500,
                        message: "x".into()
                    },
                },
                Reply {
                    ending: Ending::Cut,
                    ..of(vec![say("a")])
                },
                Reply {
                    ending: Ending::RateLimit { seconds: 4 },
                    ..Reply::default()
                },
            ]
        );
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[\\[\\];\"\\\\ a-z0-9é|/.]{0,80}") {
            if let Some(steps) = find(&format!("[[{text}]]")) {
                for reply in replies(steps) {
                    prop_assert!(reply.acts.iter().all(|act| !matches!(act, Step::Both(_))));
                }
            }
        }

        #[test]
        fn plain_texts_are_said_as_they_are(texts in proptest::collection::vec("[a-z]{1,5}( [a-z'.,]{1,5}){0,3}", 1..5)) {
            let steps: Vec<String> = texts.iter().map(|text| format!("say {text}")).collect();
            let found = find(&format!("x [[{}]] y", steps.join(" ;; ")));
            prop_assert_eq!(found, Some(texts.iter().map(|text| say(text)).collect()));
        }
    }
}
