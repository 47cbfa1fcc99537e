use proptest::prelude::*;
use skein_domain::Timestamp;

use super::*;

/// `u1` says something, `a2:xy` calls tools x and y, `t3:x` gives x's result, `m4:x` gives it and says more.
fn message(text: &str) -> Message {
    let (id, calls) = text.split_once(':').unwrap_or((text, ""));
    let result = |c: char| {
        Block::ToolResult(ToolResult {
            call: c.into(),
            content: vec![Part::Text(id.into())],
            outcome: ToolOutcome::Done,
        })
    };
    let call = |c: char| {
        Block::ToolCall(ToolCall {
            id: c.into(),
            name: "tool".into(),
            input: serde_json::Value::Null,
        })
    };
    let said = Block::Text(id.into());
    let (role, blocks) = match &text[..1] {
        "a" => (
            MessageRole::Assistant,
            std::iter::once(said)
                .chain(calls.chars().map(call))
                .collect(),
        ),
        "t" => (MessageRole::Tool, calls.chars().map(result).collect()),
        "m" => (
            MessageRole::User,
            calls.chars().map(result).chain([said]).collect(),
        ),
        _ => (MessageRole::User, vec![said]),
    };
    Message::new(id.parse().unwrap(), role, blocks, Timestamp::from_micros(0))
}

fn conversation(text: &str) -> Vec<Message> {
    text.split_whitespace().map(message).collect()
}

fn shown(messages: &[Message]) -> String {
    let show = |m: &Message| {
        let calls: String = m.calls().map(|c| c.id.as_str()).collect();
        let results: String = m.results().map(|r| r.call.as_str()).collect();
        match (calls + &results).as_str() {
            "" => m.id.to_string(),
            calls => format!("{}:{calls}", m.id),
        }
    };
    messages.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn check(before: &str, after: &str) {
    let repaired = repair(conversation(before));
    assert_eq!(shown(&repaired), after, "{before}");
    assert_eq!(breach(&repaired), None, "{before}");
}

#[test]
fn l10_every_call_is_followed_by_exactly_one_result_in_call_order() {
    check("u1 a2 u3", "u1 a2 u3");
    check("a1:xy t2:x t3:y u4", "a1:xy t2:x t3:y u4");
    check("a1:xy t2:xy", "a1:xy t2:xy");
    check("a1:xy t2:y t3:x", "a1:xy t3:x t2:y");
    check("a1:xy t2:yx", "a1:xy t2:x t2:y");
    check("a1:x t2:x t3:x", "a1:x t2:x");
    check("a1:x t2:z u3", "a1:x closed:a1:0:x u3");
    check("t1:x u2 m3:x", "u2 m3");
    check("a1:xx t2:x t3:x", "a1:xx t2:x t3:x");
    // The same id again in a later batch is another call.
    check("a1:x t2:x a3:x t4:x", "a1:x t2:x a3:x t4:x");
}

// The fifth, sixth and seventh defect of the older system.
#[test]
fn l10_open_calls_are_closed_and_what_people_say_waits_for_the_batch() {
    check("u1 a2:xy", "u1 a2:xy closed:a2:0:x closed:a2:1:y");
    check("a1:xy t2:y u3", "a1:xy closed:a1:0:x t2:y u3");
    check("a1:xy t2:x u3 t4:y", "a1:xy t2:x t4:y u3");
    check("a1:xy u2 u3 t4:y t5:x a6", "a1:xy t5:x t4:y u2 u3 a6");
    check("a1:x m2:x u3", "a1:x m2:x u3");
    check("a1:xy m2:x t3:y", "a1:xy m2:x t3:y m2");
}

#[test]
fn l10_closing_names_all_that_is_open_and_nothing_else() {
    let ids = |text: &str| shown(&closing(&conversation(text)));
    assert_eq!(ids("u1"), "");
    assert_eq!(ids("a1:x t2:x"), "");
    assert_eq!(ids("a1:x a2 u3"), "");
    assert_eq!(ids("a1:xy u2 t3:y"), "closed:a1:0:x");
    assert_eq!(ids("a1:xyz t2:y"), "closed:a1:0:x closed:a1:2:z");
    let long = Message {
        id: "a".repeat(255).parse().unwrap(),
        ..message("a1:x")
    };
    assert_eq!(closing(&[long]).len(), 1);
}

#[test]
fn a_part_of_a_message_costs_nothing_and_is_not_native() {
    let mut both = message("t2:yx");
    both.usage.input = 7;
    let repaired = repair(vec![message("a1:xy"), both]);
    assert!(
        repaired
            .iter()
            .all(|m| m.usage.input == 0 && m.native.is_none())
    );
}

proptest! {
    #[test]
    fn l10_any_conversation_is_repaired_once_and_for_all(
        kinds in prop::collection::vec(("[uatm]", "[xyz]{0,3}"), 0..14)
    ) {
        let text = |(n, (kind, calls)): (usize, &(String, String))| match (kind.as_str(), calls.as_str()) {
            ("u", _) | (_, "") => format!("u{n}"),
            (kind, calls) => format!("{kind}{n}:{calls}"),
        };
        let before: Vec<String> = kinds.iter().enumerate().map(text).collect();
        let before = conversation(&before.join(" "));
        let after = repair(before.clone());
        prop_assert_eq!(breach(&after), None);
        prop_assert_eq!(&repair(after.clone()), &after);
        // What people and models said is all there, in its order.
        let said = |messages: &[Message]| -> Vec<Block> {
            let blocks = messages.iter().flat_map(|m| m.blocks.clone());
            blocks.filter(|b| !matches!(b, Block::ToolResult(_))).collect()
        };
        prop_assert_eq!(said(&after), said(&before));
        if breach(&before).is_none() {
            prop_assert_eq!(after, before);
        }
    }
}
