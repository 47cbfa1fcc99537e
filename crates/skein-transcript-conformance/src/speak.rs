//! Writes: appends, replies, states, summaries, and which run may write.

use skein_domain::{Kind, Timestamp};
use tokio::task::JoinSet;

use crate::fault::Fault;
use crate::fixture::{by, call, create, id, ids, mid, paged, reply, said, say, talk, user, words};
use crate::{Pair, block_on};
use skein_transcript::error::Error;
use skein_transcript::message::{Block, Message, MessageRole, Part, ToolOutcome, ToolResult};
use skein_transcript::repair::breach;
use skein_transcript::service::{
    Appended, Direction, ForkCreation, HistoryPoint, MessageQuery, OpenCalls,
};
use skein_transcript::state::StateSlice;
use skein_transcript::usage::TokenUsage;

fn counted(appended: Appended) -> (usize, usize) {
    (appended.added, appended.already)
}

pub fn l10_a_message_said_twice_is_there_once(pair: &mut Pair) {
    let t = create(&pair.all(), "t");
    let message = user("a");
    assert_eq!(
        counted(block_on(t.append(by(1), std::slice::from_ref(&message))).unwrap()),
        (1, 0)
    );
    // Later, and by a later run: still the same message.
    let again = Message {
        at: Timestamp::from_micros(77),
        ..message
    };
    assert_eq!(
        counted(block_on(t.append(by(2), &[again])).unwrap()),
        (0, 1)
    );
    let other = block_on(t.append(by(2), &[said("a", "else")])).unwrap_err();
    assert_eq!(
        other,
        Error::Reused {
            transcript: id("t"),
            message: mid("a")
        }
    );
    assert_eq!(words(&t), "a");
}

// The eighth defect of the older system, in part.
pub fn l10_batches_that_overlap_add_what_is_new(pair: &mut Pair) {
    let t = talk(&pair.all(), "t", "a b");
    let batch = ["b", "c", "a", "d", "c"].map(user);
    assert_eq!(counted(block_on(t.append(by(1), &batch)).unwrap()), (2, 3));
    assert_eq!(counted(block_on(t.append(by(1), &[])).unwrap()), (0, 0));
    assert_eq!(words(&t), "a b c d");
    assert_eq!(block_on(t.head()).unwrap().marks.messages, 4);
}

pub fn l10_one_bad_message_keeps_the_batch_out(pair: &mut Pair) {
    let t = talk(&pair.all(), "t", "a");
    for bad in [said("a", "else"), said("c", "else")] {
        let batch = [user("b"), user("c"), bad];
        assert_eq!(
            block_on(t.append(by(1), &batch)).unwrap_err().kind(),
            Kind::Conflict
        );
    }
    assert_eq!(words(&t), "a");
}

pub fn l10_a_stale_run_is_fenced_off(pair: &mut Pair) {
    let t = talk(&pair.all(), "t", "a");
    block_on(t.claim(by(3))).unwrap();
    let fenced = Error::Fenced {
        transcript: id("t"),
        expected: 2,
        actual: 3,
    };
    assert_eq!(block_on(t.append(by(2), &[user("b")])).unwrap_err(), fenced);
    assert_eq!(fenced.kind(), Kind::Conflict);
    for refused in [
        block_on(t.rewind(by(2), &mid("a"))).map(|_| ()),
        block_on(t.begin_reply(by(2), &mid("a"))).map(|_| ()),
        block_on(t.claim(by(2))),
        block_on(t.set_state(by(2), 0, StateSlice::default())).map(|_| ()),
        block_on(t.resume(by(2), OpenCalls::All)).map(|_| ()),
    ] {
        assert_eq!(refused, Err(fenced.clone()));
    }
    block_on(t.append(by(3), &[user("c")])).unwrap();
    assert_eq!(words(&t), "a c");
}

pub fn l10_appends_survive_reopen_and_lost_replies(pair: &mut Pair) {
    create(&pair.all(), "t");
    for (n, fault) in Fault::ALL.into_iter().enumerate() {
        let (all, faults) = pair.faulty();
        let message = user(&format!("m{n}"));
        faults.arm(1, fault);
        let first = block_on(
            all.open(&id("t"))
                .append(by(1), std::slice::from_ref(&message)),
        );
        assert_eq!(first.unwrap_err().kind(), Kind::Unavailable);
        pair.reopen();
        let t = pair.all().open(&id("t"));
        block_on(t.append(by(1), &[message])).unwrap();
        pair.reopen();
    }
    assert_eq!(words(&pair.all().open(&id("t"))), "m0 m1 m2");
}

pub fn l10_many_writers_at_one_transcript_all_get_their_turn(pair: &mut Pair) {
    create(&pair.all(), "t");
    let sharing = pair.all();
    block_on(async {
        let mut writers = JoinSet::new();
        for writer in 0..40 {
            // Most are of one process; some are of others.
            let all = if writer % 8 == 0 {
                pair.all()
            } else {
                sharing.clone()
            };
            writers.spawn(async move {
                let t = all.open(&id("t"));
                for n in 0..5 {
                    let batch = [
                        user(&format!("w{writer}-{n}")),
                        user(&format!("w{writer}-{n}b")),
                    ];
                    // A writer that loses too many races gets `Unavailable`, and repeats the call.
                    while let Err(e) = t.append(by(1), &batch).await {
                        assert_eq!(e.kind(), Kind::Unavailable, "{e}");
                    }
                }
            });
        }
        writers.join_all().await
    });
    pair.reopen();
    let all = words(&pair.all().open(&id("t")));
    for writer in 0..40 {
        let own = format!("w{writer}-");
        let said: Vec<&str> = all.split(' ').filter(|w| w.starts_with(&own)).collect();
        let expected: Vec<String> = (0..5)
            .flat_map(|n| [format!("{own}{n}"), format!("{own}{n}b")])
            .collect();
        assert_eq!(said, expected);
    }
    assert_eq!(all.split(' ').count(), 400);
}

pub fn l10_writers_of_one_process_lose_no_races(pair: &mut Pair) {
    create(&pair.all(), "t");
    let all = pair.all();
    let said = block_on(async {
        let mut writers = JoinSet::new();
        for writer in 0..100 {
            let t = all.open(&id("t"));
            writers.spawn(async move { t.append(by(1), &[user(&format!("m{writer}"))]).await });
        }
        writers.join_all().await
    });
    assert!(said.iter().all(|s| counted(s.clone().unwrap()) == (1, 0)));
    assert_eq!(
        block_on(all.open(&id("t")).head()).unwrap().marks.messages,
        100
    );
}

/// A writer that continues from a commit that another sent and that failed continues from what is stored.
pub fn l10_a_writer_behind_one_that_failed_stands_where_it_should(pair: &mut Pair) {
    for (n, fault) in Fault::ALL.into_iter().enumerate() {
        let name = format!("t{n}");
        talk(&pair.all(), &name, "a");
        let (all, faults) = pair.faulty();
        let t = all.open(&id(&name));
        say(&t, "b");
        faults.arm(1, fault);
        let results = block_on(async {
            let mut writers = JoinSet::new();
            for word in ["c", "d", "e"] {
                let t = t.clone();
                // `b` was said before: nothing of that batch is sent as it is.
                writers.spawn(async move { t.append(by(1), &[user(word), user("b")]).await });
            }
            writers.join_all().await
        });
        faults.revive();
        assert!(results.iter().any(std::result::Result::is_err));
        say(&t, "c d e");
        pair.reopen();
        let said = words(&pair.all().open(&id(&name)));
        let mut sorted: Vec<&str> = said.split(' ').collect();
        sorted.sort_unstable();
        assert_eq!(sorted, ["a", "b", "c", "d", "e"], "{fault:?}");
    }
}

fn result(name: &str, call: &str) -> Message {
    let result = ToolResult {
        call: call.to_owned(),
        content: vec![Part::Text("done".into())],
        outcome: ToolOutcome::Done,
    };
    let blocks = vec![Block::ToolResult(result)];
    Message::new(
        mid(name),
        MessageRole::Tool,
        blocks,
        Timestamp::from_micros(1),
    )
}

pub fn l10_a_call_that_is_answered_meanwhile_is_not_closed(pair: &mut Pair) {
    for n in 0..20 {
        let name = format!("t{n}");
        let t = talk(&pair.all(), &name, "u");
        block_on(t.append(by(1), &[call("a", &["x"])])).unwrap();
        let (all, _) = pair.faulty();
        let (one, other) = (all.open(&id(&name)), pair.all().open(&id(&name)));
        block_on(async {
            let mut both = JoinSet::new();
            both.spawn(async move { other.append(by(1), &[result("r", "x")]).await.map(drop) });
            both.spawn(async move { one.resume(by(1), OpenCalls::All).await.map(drop) });
            for done in both.join_all().await {
                done.unwrap();
            }
        });
        // A resume that read before the result came may close the call; a later one does not.
        let said = words(&t);
        assert!(
            ["u a r", "u a closed:a:0 r"].contains(&said.as_str()),
            "{said}"
        );
    }
}

pub fn calls_of_the_run_that_goes_on_are_its_own(pair: &mut Pair) {
    let t = talk(&pair.all(), "t", "u");
    let closed = |calls| counted(block_on(t.resume(by(2), calls)).unwrap());
    block_on(t.append(by(2), &[call("a", &["x"])])).unwrap();
    assert_eq!(closed(OpenCalls::OfEarlierRuns), (0, 0));
    assert_eq!(closed(OpenCalls::All), (1, 0));
    block_on(t.append(by(2), &[call("b", &["x"])])).unwrap();
    let closed = block_on(t.resume(by(3), OpenCalls::OfEarlierRuns)).unwrap();
    assert_eq!(counted(closed), (1, 0));
    assert_eq!(words(&t), "u a closed:a:0 b closed:b:0");
}

// The fifth, sixth and seventh defect of the older system.
pub fn l10_open_calls_are_closed_once_when_a_session_goes_on(pair: &mut Pair) {
    let t = talk(&pair.all(), "t", "u");
    let result = result("r", "y");
    block_on(t.append(by(1), &[call("a", &["x", "y"]), user("v"), result])).unwrap();
    let shown = block_on(t.context()).unwrap();
    assert_eq!(ids(&shown), "u a closed:a:0 r v");
    assert_eq!(breach(&shown), None);
    assert_eq!(
        counted(block_on(t.resume(by(2), OpenCalls::All)).unwrap()),
        (1, 0)
    );
    assert_eq!(
        counted(block_on(t.resume(by(3), OpenCalls::All)).unwrap()),
        (0, 0)
    );
    // On record in the order in which it happened; shown in the order models take.
    assert_eq!(words(&t), "u a v r closed:a:0");
    assert_eq!(ids(&block_on(t.context()).unwrap()), "u a closed:a:0 r v");
}

// The first defect of the older system.
pub fn a_repeated_beginning_empties_nothing(pair: &mut Pair) {
    let all = pair.all();
    let t = create(&all, "t");
    let system = Message {
        role: MessageRole::System,
        ..user("system")
    };
    for _ in 0..3 {
        block_on(all.create(&id("t"), by(1))).unwrap();
        block_on(t.append(by(1), std::slice::from_ref(&system))).unwrap();
        say(&t, "a");
    }
    assert_eq!(words(&t), "system a");
    assert_eq!(
        block_on(all.create(&id("t"), by(1))),
        Ok(ForkCreation::Already)
    );
}

pub fn pages_go_both_ways_and_stay_good_while_it_grows(pair: &mut Pair) {
    let all = pair.all();
    let names: Vec<String> = (0..25).map(|n| format!("m{n}")).collect();
    let t = talk(&all, "t", &names[..10].join(" "));
    block_on(t.set_state(by(1), 0, StateSlice::default())).unwrap();
    say(&t, &names[10..].join(" "));
    let mut backward = names.clone();
    backward.reverse();
    for limit in [1, 3, 10, 24, 25, 26, 1_000] {
        assert_eq!(
            ids(&paged(&t, Direction::OldestFirst, limit)),
            names.join(" ")
        );
        assert_eq!(
            ids(&paged(&t, Direction::NewestFirst, limit)),
            backward.join(" ")
        );
    }
    let page = |direction, cursor| {
        block_on(t.page(MessageQuery {
            direction,
            cursor,
            limit: 20,
        }))
        .unwrap()
    };
    let (first, last) = (
        page(Direction::OldestFirst, None),
        page(Direction::NewestFirst, None),
    );
    say(&t, "later");
    assert_eq!(page(Direction::OldestFirst, first.next).messages.len(), 6);
    let older = page(Direction::NewestFirst, last.next);
    assert_eq!(older.messages.first().unwrap().message.id, mid("m4"));
    assert_eq!(page(Direction::OldestFirst, Some(u64::MAX)).messages, []);
    assert_eq!(page(Direction::NewestFirst, Some(0)).messages, []);
}

pub fn a_reply_begun_again_takes_the_place_of_the_first(pair: &mut Pair) {
    let t = talk(&pair.all(), "t", "u");
    for attempt in 0..3 {
        block_on(t.begin_reply(by(1), &mid("reply"))).unwrap();
        assert_eq!(words(&t), "u");
        let said = reply("reply", &format!("attempt {attempt}"));
        block_on(t.append(by(1), &[said.clone(), user("tool")])).unwrap();
        let all = paged(&t, Direction::OldestFirst, 9);
        assert_eq!(all[1].blocks, said.blocks);
        assert_eq!(ids(&all), "u reply tool");
    }
    // Making way where nothing is changes nothing.
    let before = block_on(t.head()).unwrap();
    block_on(t.begin_reply(by(1), &mid("other"))).unwrap();
    // What was asked is not taken for an answer.
    let asked = block_on(t.begin_reply(by(1), &mid("u"))).unwrap_err();
    assert_eq!(asked.kind(), Kind::Misuse);
    assert_eq!(block_on(t.head()).unwrap(), before);
}

// The eighth defect of the older system.
pub fn rewound_ids_can_be_said_again(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a b c d");
    block_on(t.rewind(by(1), &mid("b"))).unwrap();
    block_on(t.rewind(by(1), &mid("b"))).unwrap();
    assert_eq!(words(&t), "a b");
    block_on(t.append(by(1), &[said("c", "new"), user("d")])).unwrap();
    assert_eq!(words(&t), "a b c d");
    // Ids belong to their transcript.
    assert_eq!(words(&talk(&all, "other", "d c b a")), "d c b a");
    assert_eq!(words(&t), "a b c d");
}

pub fn states_are_compared_and_go_with_the_messages(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a");
    let state = |n: u64| {
        let mut state = StateSlice::default();
        state.custom.insert("n".into(), n.into());
        state
    };
    let first = block_on(t.set_state(by(1), 0, state(1))).unwrap();
    // The answer was lost and the call repeated.
    assert_eq!(block_on(t.set_state(by(1), 0, state(1))), Ok(first));
    let stale = block_on(t.set_state(by(1), 0, state(2))).unwrap_err();
    assert_eq!(stale.kind(), Kind::Conflict);
    say(&t, "b");
    let second = block_on(t.set_state(by(1), first, state(2))).unwrap();
    say(&t, "c");
    assert!(second > first);
    let at_b = HistoryPoint::After(mid("b"));
    block_on(all.fork(&id("t"), &at_b, &id("f"), by(1))).unwrap();
    let f = all.open(&id("f"));
    assert_eq!(block_on(f.state()).unwrap().state, state(1));
    let forked = block_on(f.set_state(by(1), first, state(9))).unwrap();
    assert!(forked > second);
    assert_eq!(block_on(t.state()).unwrap().state, state(2));
    block_on(t.rewind(by(1), &mid("b"))).unwrap();
    assert_eq!(block_on(t.state()).unwrap().state, state(1));
    assert_eq!(block_on(f.state()).unwrap().state, state(9));
}

pub fn summaries_hide_and_never_delete(pair: &mut Pair) {
    let t = talk(&pair.all(), "t", "system a b c d");
    for _ in 0..2 {
        block_on(t.compact(by(1), &mid("a"), &mid("c"), &user("sum"))).unwrap();
    }
    say(&t, "e");
    let shown = |t: &skein_transcript::Transcript| ids(&block_on(t.context()).unwrap());
    assert_eq!(shown(&t), "system sum d e");
    assert_eq!(words(&t), "system a b c d sum e");
    block_on(t.compact(by(1), &mid("a"), &mid("sum"), &user("more"))).unwrap();
    assert_eq!(shown(&t), "system more e");
    // Going back to before a summary shows again what it hid.
    block_on(t.rewind(by(1), &mid("d"))).unwrap();
    assert_eq!(shown(&t), "system a b c d");
    let swapped = block_on(t.compact(by(1), &mid("c"), &mid("a"), &user("x"))).unwrap_err();
    assert_eq!(swapped.kind(), Kind::Misuse);
}

// The twentieth defect of the older system: what tools and hidden replies cost counts too.
pub fn what_was_hidden_was_paid_for(pair: &mut Pair) {
    let all = pair.all();
    let t = create(&all, "t");
    let costing = |name: &str, role, input| Message {
        role,
        usage: TokenUsage {
            input,
            ..TokenUsage::default()
        },
        ..user(name)
    };
    block_on(t.append(
        by(1),
        &[user("u"), costing("reply", MessageRole::Assistant, 10)],
    ))
    .unwrap();
    block_on(t.append(by(1), &[costing("tool", MessageRole::Tool, 5)])).unwrap();
    block_on(t.begin_reply(by(1), &mid("reply"))).unwrap();
    let again = costing("reply", MessageRole::Assistant, 100);
    block_on(t.append(by(1), std::slice::from_ref(&again))).unwrap();
    block_on(t.append(by(1), &[again])).unwrap();
    assert_eq!(block_on(t.head()).unwrap().spent.input, 115);
    // A fork pays for what it says itself.
    block_on(all.fork(&id("t"), &HistoryPoint::Head, &id("f"), by(1))).unwrap();
    assert_eq!(
        block_on(all.open(&id("f")).head()).unwrap().spent,
        TokenUsage::default()
    );
}

pub fn time_never_goes_back(pair: &mut Pair) {
    let t = create(&pair.all(), "t");
    for (n, at) in [50, 40, -7, 60].into_iter().enumerate() {
        let message = Message {
            at: Timestamp::from_micros(at),
            ..user(&format!("m{n}"))
        };
        block_on(t.append(by(1), &[message])).unwrap();
    }
    let times: Vec<i64> = paged(&t, Direction::OldestFirst, 9)
        .iter()
        .map(|m| m.at.as_micros())
        .collect();
    assert_eq!(times, [50, 50, 50, 60]);
}

pub fn l13_bad_input_changes_nothing(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a b");
    let before = block_on(t.head()).unwrap();
    let huge = said("huge", &"x".repeat((16 << 20) + 1));
    let refused = block_on(t.append(by(1), &[user("c"), huge])).unwrap_err();
    assert_eq!(refused.kind(), Kind::Refused);
    assert!(
        refused.hints()[0].contains("16 MiB"),
        "{:?}",
        refused.hints()
    );
    let mut state = StateSlice::default();
    state.custom.insert("x".into(), "y".repeat(2 << 20).into());
    let refused = block_on(t.set_state(by(1), 0, state)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Refused);
    let at_x = HistoryPoint::After(mid("x"));
    for (missing, what) in [
        (
            block_on(t.rewind(by(1), &mid("x"))).map(|_| ()),
            "message `x`",
        ),
        (
            block_on(all.fork(&id("t"), &at_x, &id("f"), by(1))).map(|_| ()),
            "message `x`",
        ),
        (
            block_on(all.fork(&id("no"), &HistoryPoint::Head, &id("f"), by(1))).map(|_| ()),
            "transcript `no`",
        ),
        (
            block_on(all.open(&id("no")).claim(by(1))),
            "transcript `no`",
        ),
        (
            block_on(all.open(&id("no")).head()).map(|_| ()),
            "transcript `no`",
        ),
    ] {
        let missing = missing.unwrap_err();
        assert_eq!(missing.kind(), Kind::NotFound);
        assert_eq!(missing.to_string(), format!("{what} not found"));
    }
    assert_eq!(block_on(t.head()).unwrap(), before);
    assert_eq!(block_on(all.find(&id("f"))), Ok(None));
}

pub fn l7_a_foreign_transcript_is_not_found(pair: &mut Pair) {
    talk(&pair.all(), "t", "a");
    let tiers = skein_transcript::Tiers::new(pair.hot.tier.clone(), pair.cold.tier.clone());
    let theirs = tiers.tenant("other".parse().unwrap());
    let missing = block_on(theirs.open(&id("t")).append(by(1), &[user("b")])).unwrap_err();
    assert_eq!(missing, block_on(theirs.open(&id("t")).head()).unwrap_err());
    assert_eq!(missing.kind(), Kind::NotFound);
    let fork = block_on(theirs.fork(&id("t"), &HistoryPoint::Head, &id("f"), by(1)));
    assert_eq!(fork.unwrap_err(), missing);
}
