//! Flush and hydrate: nothing is lost, even if a fault or another writer comes in between.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use skein_domain::{Kind, TenantId, Timestamp};
use tokio::task::JoinSet;

use crate::fault::Fault;
use crate::fixture::{by, create, id, mid, reply, say, talk, tenant, user, words};
use crate::memory::MemoryHot;
use crate::{Pair, block_on};
use skein_transcript::cipher::{KeyRing, TenantKey};
use skein_transcript::cold::{Name, PutCondition, PutResult};
use skein_transcript::error::Error;
use skein_transcript::message::Message;
use skein_transcript::service::{Flushed, HistoryPoint, HotCopy, Hydrated, Tiers, Transcript};
use skein_transcript::state::StateSlice;

/// A transcript with some of everything: strands, a state, a summary.
fn eventful(pair: &Pair, name: &str) -> Transcript {
    let t = talk(&pair.all(), name, "a b");
    block_on(t.append(by(1), &[reply("c", "c"), user("d")])).unwrap();
    let mut state = StateSlice::default();
    state.custom.insert("key".into(), "value".into());
    block_on(t.set_state(by(1), 0, state)).unwrap();
    block_on(t.rewind(by(1), &mid("c"))).unwrap();
    block_on(t.begin_reply(by(2), &mid("c"))).unwrap();
    block_on(t.append(by(2), &[reply("c", "again"), user("e")])).unwrap();
    block_on(t.compact(by(2), &mid("a"), &mid("b"), &user("sum"))).unwrap();
    t
}

/// Spelled out here, because objects that older builds put have these names.
fn manifest(id: &str) -> Name {
    Name::from_stored(format!("{}/manifests/{id}", tenant()))
}

/// What the names of all segments of a transcript begin with.
fn segments(id: &str) -> Name {
    Name::from_stored(format!("{}/segments/{id}/", tenant()))
}

/// All that can be seen of a transcript.
fn seen(
    t: &Transcript,
) -> (
    skein_transcript::chain::TranscriptHead,
    Vec<Message>,
    Vec<Message>,
    StateSlice,
) {
    let all = crate::fixture::paged(t, skein_transcript::service::Direction::OldestFirst, 7);
    let context = block_on(t.context()).unwrap();
    (
        block_on(t.head()).unwrap(),
        all,
        context,
        block_on(t.state()).unwrap().state,
    )
}

pub fn flush_and_hydrate_give_back_everything(pair: &mut Pair) {
    let t = eventful(pair, "t");
    let before = seen(&t);
    block_on(t.flush(HotCopy::Hot)).unwrap();
    assert!(pair.is_hot("t"));
    block_on(t.flush(HotCopy::ColdOnly)).unwrap();
    assert!(!pair.is_hot("t"));
    // Read where it is, without being brought back.
    assert_eq!(seen(&t), before);
    assert!(!pair.is_hot("t"));
    assert_eq!(block_on(t.hydrate()), Ok(Hydrated::Done));
    assert_eq!(block_on(t.hydrate()), Ok(Hydrated::Already));
    pair.reopen();
    let t = pair.all().open(&id("t"));
    assert_eq!(seen(&t), before);
    // Ids and fences came back too.
    let again = block_on(t.append(by(2), &[user("e"), user("f")])).unwrap();
    assert_eq!((again.added, again.already), (1, 1));
    assert_eq!(
        block_on(t.append(by(1), &[user("g")])).unwrap_err().kind(),
        Kind::Conflict
    );
    block_on(t.append(by(2), &[user("d")])).unwrap();
    // Writing brings a cold one back by itself.
    block_on(t.flush(HotCopy::ColdOnly)).unwrap();
    block_on(t.append(by(2), &[user("h")])).unwrap();
    assert_eq!(words(&t), "a b c e sum f d h");
}

pub fn flushing_again_writes_only_what_is_new(pair: &mut Pair) {
    let (all, faults) = pair.faulty();
    let t = all.open(&id("t"));
    talk(
        &pair.all(),
        "t",
        &(0..3_000).map(|n| format!("m{n} ")).collect::<String>(),
    );
    let first = block_on(t.flush(HotCopy::Hot)).unwrap();
    assert_eq!((first.entries, first.segments), (3_000, 1));
    let (writes, bytes) = (faults.writes(), faults.bytes());
    assert_eq!(block_on(t.flush(HotCopy::Hot)), Ok(Flushed::default()));
    assert_eq!((faults.writes(), faults.bytes()), (writes, bytes));
    say(&t, "one");
    let bytes = faults.bytes();
    assert_eq!(
        block_on(t.flush(HotCopy::ColdOnly)),
        Ok(Flushed {
            entries: 1,
            segments: 1
        })
    );
    assert!(faults.bytes() - bytes < 4_000);
    block_on(t.hydrate()).unwrap();
    assert_eq!(block_on(t.flush(HotCopy::ColdOnly)), Ok(Flushed::default()));
    assert_eq!(block_on(t.head()).unwrap().marks.messages, 3_001);
}

pub fn l4_a_crash_anywhere_in_flush_or_hydrate_loses_nothing(pair: &mut Pair) {
    let mut round = 0;
    for fault in Fault::ALL {
        for nth in 1.. {
            let name = format!("t{round}");
            round += 1;
            let before = seen(&eventful(pair, &name));
            let (all, faults) = pair.faulty();
            let t = all.open(&id(&name));
            faults.arm(nth, fault);
            let first = block_on(t.flush(HotCopy::ColdOnly));
            let second = block_on(t.hydrate());
            let met = first.is_err() || second.is_err();
            faults.revive();
            pair.reopen();
            let t = pair.all().open(&id(&name));
            assert_eq!(seen(&t), before, "{fault:?} at write {nth}");
            block_on(t.flush(HotCopy::ColdOnly)).unwrap();
            block_on(t.hydrate()).unwrap();
            assert_eq!(seen(&t), before, "{fault:?} at write {nth}");
            if !met {
                assert!(nth > 4, "there are several writes to fail");
                break;
            }
        }
    }
}

// The third defect of the older system.
pub fn a_newer_hot_copy_is_never_overwritten(pair: &mut Pair) {
    let t = talk(&pair.all(), "t", "a b");
    block_on(t.flush(HotCopy::Hot)).unwrap();
    say(&t, "c");
    assert_eq!(block_on(t.hydrate()), Ok(Hydrated::Already));
    assert_eq!(words(&t), "a b c");
    // Nor a newer cold copy by an older hot one, here of another machine.
    let theirs = Tiers::new(Arc::new(MemoryHot::default()), pair.cold.tier.clone());
    let theirs = theirs.tenant(tenant()).open(&id("t"));
    block_on(theirs.hydrate()).unwrap();
    block_on(t.flush(HotCopy::Hot)).unwrap();
    assert_eq!(words(&theirs), "a b");
    assert_eq!(
        block_on(theirs.flush(HotCopy::ColdOnly)),
        Ok(Flushed::default())
    );
    assert_eq!(words(&theirs), "a b c");
}

pub fn copies_that_went_their_own_ways_are_both_kept(pair: &mut Pair) {
    let other = || {
        let tiers = Tiers::new(Arc::new(MemoryHot::default()), pair.cold.tier.clone());
        tiers.tenant(tenant()).open(&id("t"))
    };
    let ours = talk(&pair.all(), "t", "a b");
    block_on(ours.flush(HotCopy::Hot)).unwrap();
    let (appends, rewinds) = (other(), other());
    for theirs in [&appends, &rewinds] {
        block_on(theirs.hydrate()).unwrap();
    }
    say(&appends, "x");
    block_on(rewinds.rewind(by(1), &mid("a"))).unwrap();
    say(&ours, "c");
    block_on(ours.flush(HotCopy::Hot)).unwrap();
    for (theirs, expected) in [(&appends, "a b x"), (&rewinds, "a")] {
        let refused = block_on(theirs.flush(HotCopy::ColdOnly)).unwrap_err();
        assert_eq!(
            refused,
            Error::Diverged {
                transcript: id("t")
            }
        );
        assert_eq!(words(theirs), expected);
    }
    assert_eq!(words(&other()), "a b c");
}

pub fn two_flushers_lose_nothing(pair: &mut Pair) {
    let (all, _) = pair.faulty();
    let t = create(&all, "t");
    // At once: two tasks that flush and one that writes, on the same tiers.
    block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..2 {
            let t = t.clone();
            tasks.spawn(async move {
                for _ in 0..20 {
                    // A flush that loses every race fails with an error, and the next one tries again.
                    let _ = t.flush(HotCopy::ColdOnly).await;
                    tokio::task::yield_now().await;
                }
            });
        }
        let writer = t.clone();
        tasks.spawn(async move {
            for n in 0..20 {
                let message = user(&format!("m{n}"));
                while writer
                    .append(by(1), std::slice::from_ref(&message))
                    .await
                    .is_err()
                {
                    tokio::task::yield_now().await;
                }
                tokio::task::yield_now().await;
            }
        });
        tasks.join_all().await;
    });
    block_on(t.flush(HotCopy::ColdOnly)).unwrap();
    let expected: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
    assert_eq!(words(&t), expected.join(" "));
}

/// The same with a task that hydrates: what it fetched is no longer the newest.
pub fn a_hydrate_that_was_overtaken_brings_back_the_newest(pair: &mut Pair) {
    for steps in 0.. {
        let name = format!("t{steps}");
        let (slow, fast) = (
            pair.faulty().0.open(&id(&name)),
            talk(&pair.all(), &name, "a"),
        );
        block_on(fast.flush(HotCopy::ColdOnly)).unwrap();
        let over = block_on(async {
            let mut hydrate = pin!(slow.hydrate());
            let over = stepped(hydrate.as_mut(), steps).await;
            fast.append(by(1), &[user("b")]).await.unwrap();
            fast.flush(HotCopy::ColdOnly).await.unwrap();
            if !over {
                hydrate.await.unwrap();
            }
            over
        });
        assert_eq!(words(&fast), "a b", "after {steps} steps");
        say(&fast, "c");
        block_on(fast.flush(HotCopy::ColdOnly)).unwrap();
        assert_eq!(words(&fast), "a b c", "after {steps} steps");
        if over {
            assert!(steps > 3, "there are several steps to stop at");
            break;
        }
    }
}

/// Takes up to so many steps; whether it is over. Every other step waits until the work can go on, so that it is stopped
/// both while a tier is still busy with its last call and when that call has been answered.
async fn stepped<T>(mut work: Pin<&mut impl Future<Output = T>>, steps: usize) -> bool {
    for step in 0..steps {
        if step % 2 == 0 {
            if poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_ready())).await {
                return true;
            }
        } else {
            woken().await;
        }
    }
    false
}

/// Waits until what was polled before wakes this task.
async fn woken() {
    let mut asleep = true;
    poll_fn(|_| match std::mem::take(&mut asleep) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

/// Stops a flush after every number of steps, lets another service write and flush, and then lets the first one continue
/// with what it read before.
pub fn a_flusher_that_was_overtaken_loses_nothing(pair: &mut Pair) {
    for steps in 0.. {
        let name = format!("t{steps}");
        let (slow, fast) = (
            pair.faulty().0.open(&id(&name)),
            talk(&pair.all(), &name, "a"),
        );
        let over = block_on(async {
            let mut flush = pin!(slow.flush(HotCopy::ColdOnly));
            let over = stepped(flush.as_mut(), steps).await;
            fast.append(by(1), &[user("b")]).await.unwrap();
            fast.flush(HotCopy::ColdOnly).await.unwrap();
            if !over {
                flush.await.unwrap();
            }
            over
        });
        assert_eq!(words(&fast), "a b", "after {steps} steps");
        if over {
            assert!(steps > 5, "there are several steps to stop at");
            break;
        }
    }
}

pub fn idle_transcripts_are_flushed(pair: &mut Pair) {
    let all = pair.all();
    for n in 0..5 {
        talk(&all, &format!("t{n}"), "a");
    }
    let late = skein_transcript::WriteContext {
        at: Timestamp::from_micros(5_000),
        ..by(1)
    };
    block_on(all.open(&id("t3")).append(late, &[user("b")])).unwrap();
    let flushed =
        block_on(all.flush_idle(Timestamp::from_micros(5_000), 100, &BTreeSet::new())).unwrap();
    assert!(
        flushed.iter().all(|(_, result)| result.is_ok()),
        "{flushed:?}"
    );
    let hot: Vec<bool> = (0..5).map(|n| pair.is_hot(&format!("t{n}"))).collect();
    assert_eq!(hot, [false, false, false, true, false]);
    let cold = block_on(all.list_cold(Some(&id("t0")), 9)).unwrap();
    assert_eq!(cold, [id("t1"), id("t2"), id("t4")]);
    assert_eq!(
        block_on(pair.hot_only().open(&id("t3")).flush(HotCopy::Hot))
            .unwrap_err()
            .kind(),
        Kind::Unavailable
    );
}

pub fn idle_transcripts_that_fail_do_not_starve_the_others(pair: &mut Pair) {
    let all = pair.all();
    for n in 0..4 {
        talk(&all, &format!("t{n}"), "a");
    }
    let name = manifest("t0");
    let put = pair
        .cold
        .tier
        .put(&name, b"{}".to_vec(), PutCondition::Absent);
    assert_eq!(block_on(put).unwrap(), PutResult::Done);
    let except = BTreeSet::from([id("t1")]);
    let late = Timestamp::from_micros(i64::MAX);
    let flushed = block_on(all.flush_idle(late, 1, &except)).unwrap();
    let flushed: Vec<_> = flushed
        .iter()
        .map(|(id, r)| (id.as_str(), r.is_ok()))
        .collect();
    assert!(flushed.contains(&("t2", true)) || flushed.contains(&("t3", true)));
    assert_eq!(
        flushed.iter().filter(|(_, ok)| *ok).count(),
        1,
        "{flushed:?}"
    );
    assert!(pair.is_hot("t0") && pair.is_hot("t1"));
}

pub fn garbage_in_the_cold_tier_is_refused(pair: &mut Pair) {
    let t = eventful(pair, "t");
    let before = seen(&t);
    block_on(t.flush(HotCopy::Hot)).unwrap();
    let cold = &pair.cold.tier;
    let replace = |name: &Name, body: Vec<u8>| {
        let tag = block_on(cold.get(name)).unwrap().unwrap().tag;
        assert_eq!(
            block_on(cold.put(name, body, PutCondition::Unchanged(tag))).unwrap(),
            PutResult::Done
        );
    };
    let prefix = segments("t");
    let mut names = block_on(cold.list(&prefix, None, 99)).unwrap();
    assert!(names.len() > 1);
    let other = block_on(cold.get(&names[1])).unwrap().unwrap().body;
    names.truncate(1);
    names.push(manifest("t"));
    for name in &names {
        let good = block_on(cold.get(name)).unwrap().unwrap().body;
        let mut bent = good.clone();
        *bent.last_mut().unwrap() ^= 1;
        for bad in [
            bent,
            good[..good.len() / 2].to_vec(),
            b"garbage".to_vec(),
            vec![],
            other.clone(),
        ] {
            replace(name, bad);
            // The hot copy is not touched, and a cold one is not believed.
            assert_eq!(seen(&t), before);
            let elsewhere = Tiers::new(Arc::new(MemoryHot::default()), cold.clone());
            let elsewhere = elsewhere.tenant(tenant()).open(&id("t"));
            let refused = block_on(elsewhere.hydrate()).unwrap_err();
            assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
            assert!(block_on(elsewhere.context()).is_err());
        }
        // A bad manifest is not written over: what it named may be all there is.
        if name == names.last().unwrap() {
            assert!(block_on(t.flush(HotCopy::ColdOnly)).is_err());
            assert_eq!(seen(&t), before);
        }
        replace(name, good);
    }
    block_on(t.flush(HotCopy::ColdOnly)).unwrap();
    assert_eq!(seen(&t), before);
    // A service that has the content replaces a bad object under the name of a segment.
    let u = talk(&pair.all(), "u", "secret");
    block_on(u.flush(HotCopy::Hot)).unwrap();
    let prefix = segments("u");
    let segment = block_on(cold.list(&prefix, None, 9)).unwrap().remove(0);
    block_on(cold.delete(&manifest("u"))).unwrap();
    replace(&segment, b"garbage".to_vec());
    block_on(u.flush(HotCopy::ColdOnly)).unwrap();
    let fresh = Tiers::new(pair.hot.tier.clone(), cold.clone()).tenant(tenant());
    assert_eq!(words(&fresh.open(&id("u"))), "secret");
}

pub fn encrypted_transcripts_come_back(pair: &mut Pair) {
    let key = TenantKey::new("k1", [7; 32]).unwrap();
    let ring = KeyRing::default().with(tenant(), vec![key]);
    let tiers = Tiers::encrypted(
        pair.hot.tier.clone(),
        pair.cold.tier.clone(),
        Arc::new(ring),
    );
    let t = talk(&tiers.tenant(tenant()), "t", "a b confidential");
    block_on(t.flush(HotCopy::ColdOnly)).unwrap();
    let (all, _) = pair.faulty();
    let unreadable = block_on(all.open(&id("t")).hydrate()).unwrap_err();
    assert!(
        matches!(unreadable, Error::Unusable { .. }),
        "{unreadable:?}"
    );
    assert_eq!(words(&t), "a b confidential");
    block_on(t.hydrate()).unwrap();
    assert_eq!(words(&t), "a b confidential");
    // A tenant without a key stays hot rather than being written in the clear.
    let other: TenantId = "other".parse().unwrap();
    let u = talk(&tiers.tenant(other), "u", "a");
    assert!(block_on(u.flush(HotCopy::ColdOnly)).is_err());
    assert_eq!(words(&u), "a");
}

pub fn purged_transcripts_are_gone(pair: &mut Pair) {
    let all = pair.all();
    let t = eventful(pair, "t");
    let other = talk(&all, "t2", "a");
    block_on(other.flush(HotCopy::Hot)).unwrap();
    block_on(t.flush(HotCopy::Hot)).unwrap();
    block_on(t.purge()).unwrap();
    block_on(t.purge()).unwrap();
    assert_eq!(block_on(all.find(&id("t"))), Ok(None));
    assert_eq!(words(&other), "a");
    // The same name begins from nothing.
    assert_eq!(words(&talk(&all, "t", "b c d")), "b c d");
    block_on(all.fork(&id("t"), &HistoryPoint::Head, &id("f"), by(1))).unwrap();
}

pub fn undoing_a_fork_leaves_anything_else_alone(pair: &mut Pair) {
    let all = pair.all();
    let t = talk(&all, "t", "a b");
    let fork = |name: &str| {
        block_on(all.fork(&id("t"), &HistoryPoint::Head, &id(name), by(1))).unwrap();
        all.open(&id(name))
    };
    let (bare, cold, grown) = (fork("f1"), fork("f2"), fork("f3"));
    block_on(cold.flush(HotCopy::Hot)).unwrap();
    block_on(grown.append(by(1), &[user("c")])).unwrap();
    for gone in [&bare, &cold] {
        assert_eq!(block_on(gone.unfork(&id("other"))), Ok(false));
        assert_eq!(words(gone), "a b");
        assert_eq!(block_on(gone.unfork(&id("t"))), Ok(true));
        assert_eq!(block_on(gone.unfork(&id("t"))), Ok(true));
        assert_eq!(block_on(all.find(gone.id())), Ok(None));
    }
    assert_eq!(block_on(grown.unfork(&id("t"))), Ok(false));
    assert_eq!(block_on(t.unfork(&id("t"))), Ok(false));
    assert_eq!((words(&t), words(&grown)), ("a b".into(), "a b c".into()));
}
