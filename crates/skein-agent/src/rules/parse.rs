//! Parses rules from TOML. Errors name the place, and for an unknown key the nearest known one.

use std::str::FromStr;

use skein_domain::{Activity, OptionKind, Reason};
use toml::{Table, Value};

use super::reader::Reader;
use super::{AnswerBy, InputBox, QuestionPattern, Region, Rule, RuleMeaning, Rules};
use crate::agent::AnswerTarget;
use crate::error::Error;
use crate::settings::KeyNames;

impl Rules {
    /// `place` is the name of the file or table in errors.
    pub fn parse(place: &str, text: &str) -> Result<Self, Error> {
        let table = Table::from_str(text).map_err(|error| Error::BadSettings {
            place: place.to_owned(),
            why: error.message().to_owned(),
            hints: vec![],
        })?;
        Self::from_table(place, table)
    }

    pub fn from_table(place: &str, table: Table) -> Result<Self, Error> {
        let mut reader = Reader::new(place, table);
        let mut rules: Vec<Rule> = Vec::new();
        for (index, value) in reader.list("rule")?.into_iter().enumerate() {
            let Value::Table(table) = value else {
                return Err(reader.bad("rule", "expected `[[rule]]` tables"));
            };
            let rule = rule(&format!("{}.rule[{}]", reader.place(), index + 1), table)?;
            if rules.iter().any(|other| other.name == rule.name) {
                return Err(reader.bad("rule", format!("two rules are named `{}`", rule.name)));
            }
            rules.push(rule);
        }
        let input_box = match reader.table("box")? {
            Some(table) => Some(input_box(&format!("{place}.box"), table, &rules)?),
            None => None,
        };
        let (answer, reject) = match reader.table("answer")? {
            Some(table) => answer(&format!("{place}.answer"), table)?,
            None => (AnswerBy::default(), None),
        };
        reader.finish()?;
        Ok(Self {
            rules,
            input_box,
            answer,
            reject,
        })
    }
}

fn rule(place: &str, table: Table) -> Result<Rule, Error> {
    let mut reader = Reader::new(place, table);
    let name = reader
        .text("name")?
        .filter(|name| !name.trim().is_empty())
        .ok_or_else(|| reader.bad("name", "a rule needs a name"))?;
    let region = region(&mut reader)?;
    let all = reader.patterns("all")?;
    let any = reader.patterns("any")?;
    let not = reader.patterns("not")?;
    let says = meaning(&mut reader)?;
    if all.is_empty() && any.is_empty() && !matches!(says, RuleMeaning::Usage { .. }) {
        return Err(reader.bad("all", "a rule needs a pattern in `all` or `any`"));
    }
    reader.finish()?;
    Ok(Rule {
        name,
        region,
        all,
        any,
        not,
        says,
    })
}

fn meaning(reader: &mut Reader) -> Result<RuleMeaning, Error> {
    let says = reader
        .text("says")?
        .ok_or_else(|| reader.bad("says", "a rule needs `says`"))?;
    match says.as_str() {
        "question" => Ok(RuleMeaning::Question(question_pattern(reader)?)),
        "usage" => Ok(RuleMeaning::Usage {
            input: reader.regex("input")?,
            output: reader.regex("output")?,
            cost: reader.regex("cost")?,
        }),
        other => match Activity::parse(other) {
            Some(activity) if activity != Activity::Unknown => Ok(RuleMeaning::Activity {
                activity,
                detail: reader.regex("detail")?,
                resets_in: reader.regex("resets_in")?,
            }),
            _ => Err(reader.bad(
                "says",
                "expected active, ready, waiting_input, blocked, question or usage",
            )),
        },
    }
}

fn question_pattern(reader: &mut Reader) -> Result<QuestionPattern, Error> {
    let wants = match reader.text("wants")?.as_deref() {
        None => None,
        Some("permission") => Some(AnswerTarget::Permission),
        Some("choice") => Some(AnswerTarget::Choice),
        Some("text") => Some(AnswerTarget::Text),
        Some(_) => return Err(reader.bad("wants", "expected permission, choice or text")),
    };
    let text = reader.regex("text")?;
    let option = reader.regex("option")?;
    let mut options = Vec::new();
    for text in reader.texts("options")? {
        let option = Reason::from_str(&text).map_err(|e| reader.bad("options", e.to_string()))?;
        options.push(option);
    }
    let keys = reader.texts("keys")?;
    let mut kinds = Vec::new();
    for text in reader.texts("kinds")? {
        let kind = OptionKind::parse(&text).ok_or_else(|| {
            reader.bad(
                "kinds",
                "expected allow_once, allow_always, reject_once, reject_always or other",
            )
        })?;
        kinds.push(kind);
    }
    if !kinds.is_empty() && !options.is_empty() && kinds.len() != options.len() {
        return Err(reader.bad("kinds", "expected as many kinds as options"));
    }
    if option.is_some() && !options.is_empty() {
        return Err(reader.bad("option", "expected either `option` or `options`, not both"));
    }
    if !keys.is_empty() && keys.len() != options.len() {
        return Err(reader.bad("keys", "expected as many keys as options"));
    }
    Ok(QuestionPattern {
        wants,
        text,
        option,
        options,
        keys,
        kinds,
    })
}

fn input_box(place: &str, table: Table, rules: &[Rule]) -> Result<InputBox, Error> {
    let mut reader = Reader::new(place, table);
    let region = region(&mut reader)?;
    let prompt = reader
        .regex("prompt")?
        .ok_or_else(|| reader.bad("prompt", "expected a pattern for the beginning of the box"))?;
    let more = reader.regex("more")?;
    let trim = reader.text("trim")?.unwrap_or_default();
    let empty = reader.patterns("empty")?;
    let hidden_by = reader.texts("hidden_by")?;
    if let Some(name) = hidden_by
        .iter()
        .find(|name| !rules.iter().any(|rule| rule.name == **name))
    {
        return Err(reader.bad("hidden_by", format!("no rule is named `{name}`")));
    }
    reader.finish()?;
    Ok(InputBox {
        region,
        prompt,
        more,
        trim,
        empty,
        hidden_by,
    })
}

fn answer(place: &str, table: Table) -> Result<(AnswerBy, Option<Vec<u8>>), Error> {
    let mut reader = Reader::new(place, table);
    let by = match reader.text("by")?.as_deref() {
        None | Some("number") => AnswerBy::Number,
        Some("number_enter") => AnswerBy::NumberEnter,
        Some("arrows") => AnswerBy::Arrows,
        Some("text") => AnswerBy::Text,
        Some(_) => return Err(reader.bad("by", "expected number, number_enter, arrows or text")),
    };
    let reject = match reader.text("reject")? {
        Some(name) => match KeyNames::One(name).bytes() {
            Ok(keys) => Some(keys),
            Err(name) => return Err(reader.bad("reject", format!("`{name}` is not a key"))),
        },
        None => None,
    };
    reader.finish()?;
    Ok((by, reject))
}

fn region(reader: &mut Reader) -> Result<Region, Error> {
    let Some(text) = reader.text("in")? else {
        return Ok(Region::Any);
    };
    match text.as_str() {
        "any" => Ok(Region::Any),
        "cursor" => Ok(Region::Cursor),
        other => other
            .strip_prefix("bottom ")
            .and_then(|n| n.parse().ok())
            .filter(|n| *n > 0)
            .map(Region::Bottom)
            .ok_or_else(|| reader.bad("in", "expected any, cursor or `bottom N`")),
    }
}
