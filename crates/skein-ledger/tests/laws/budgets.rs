//! L8: budgets are split in the transaction that checks them, and unspent budget is returned.

use std::collections::HashMap;

use proptest::prelude::*;
use skein_domain::budget::{Account, Currency};
use skein_domain::{Allowance, Outcome, Refused, Session, SessionId, Usage};
use skein_ledger::project::ProjectUpdate;

use crate::common::{UNLIMITED, World, actors, below, fence, race, refused, task, tokens, used};

fn account(limit: u64, reserved: u64, children: u64) -> Account {
    Account {
        limit: Some(limit),
        reserved,
        children,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn l8_the_last_tokens_go_to_as_many_as_they_serve() {
    for world in World::everywhere().await {
        world
            .set(ProjectUpdate {
                width: Some(100),
                ..ProjectUpdate::default()
            })
            .await;
        let parent = world.root_with(tokens(100)).await;
        let racers = (0..20)
            .map(|_| {
                let (world, parent) = (world.clone(), parent.id.clone());
                async move { world.try_child(&parent, tokens(30)).await }
            })
            .collect();
        let results = race(racers).await;
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 3);
        for result in results.into_iter().filter(Result::is_err) {
            assert_eq!(
                refused(result),
                Refused::Budget {
                    session: parent.id.clone(),
                    currency: Currency::Tokens,
                    asked: 30,
                    available: 10
                }
            );
        }
        assert_eq!(world.children(&parent.id).len(), 3);
        assert_eq!(world.session(&parent.id).budget.tokens, account(100, 90, 0));
        assert_eq!(world.refusals("budget"), 17);
        world.audit();
    }
}

#[tokio::test]
async fn l8_a_child_that_asks_for_nothing_gets_half_of_the_rest() {
    let world = World::new().await;
    let parent = world.root_with(tokens(100)).await;
    let shares: Vec<_> = [50, 25, 12, 6, 3, 2, 1].to_vec();
    let mut got = vec![];
    for _ in 0..shares.len() {
        let child = world.child(&parent.id, UNLIMITED).await;
        got.push(child.budget.tokens.limit.unwrap());
    }
    assert_eq!(got, shares);
    // One token is left, and half of it is nothing: an unlimited child is impossible.
    let empty = refused(world.try_child(&parent.id, UNLIMITED).await);
    assert_eq!(empty.rule(), "budget");
    world.audit();
}

#[tokio::test]
async fn l8_zero_is_never_a_budget() {
    let world = World::new().await;
    let parent = world.root_with(tokens(100)).await;
    refused(world.try_child(&parent.id, tokens(0)).await);
    let unlimited = world.root().await;
    refused(world.try_child(&unlimited.id, tokens(0)).await);
    for allowance in [
        tokens(0),
        Allowance {
            tokens: None,
            cost_micros: Some(0),
        },
    ] {
        let mut spawn = task("x");
        spawn.allowance = allowance;
        let result = world.requests().sessions().spawn(spawn).await;
        assert_eq!(result.unwrap_err().kind(), skein_domain::Kind::Misuse);
    }
    world.audit();
}

/// Each way to end returns the unspent budget and charges the spent one.
#[tokio::test]
async fn l8_every_end_gives_the_rest_back() {
    let world = World::new().await;
    for way in ["done", "failed", "killed", "archived"] {
        let parent = world.root_with(tokens(100)).await;
        let child = world.child(&parent.id, tokens(60)).await;
        world.spend(&child.id, 25).await;
        let (requests, id) = (world.requests(), child.id.to_string());
        match way {
            "done" => drop(
                requests
                    .sessions()
                    .end(id, fence(), Outcome::Done, None)
                    .await
                    .unwrap(),
            ),
            "failed" => drop(
                requests
                    .sessions()
                    .end(id, fence(), Outcome::Failed, None)
                    .await
                    .unwrap(),
            ),
            "killed" => drop(
                requests
                    .sessions()
                    .kill(id, crate::common::kill(false))
                    .await
                    .unwrap(),
            ),
            _ => {
                world
                    .set(ProjectUpdate {
                        idle_ttl_seconds: Some(1),
                        ..ProjectUpdate::default()
                    })
                    .await;
                // The parent is kept busy, so that only the child is idle.
                let busy = parent.id.to_string();
                requests.turns().begin(busy, fence()).await.unwrap();
                world.clock.forward(2);
                world.run_retention().await;
            }
        }
        assert!(!world.session(&child.id).phase.is_live(), "{way}");
        let parent = world.session(&parent.id);
        assert_eq!(parent.budget.tokens, account(100, 0, 25), "{way}");
        assert!(world.count("session.budget_returned") > 0);
        world.audit();
    }
}

/// A child that continues after its parent ended returns its budget up the whole chain when it ends.
#[tokio::test]
async fn l8_a_late_child_returns_its_budget_up_the_chain() {
    let world = World::new().await;
    let root = world.root_with(tokens(1000)).await;
    let middle = world.child(&root.id, tokens(500)).await;
    let lower = world.child(&middle.id, tokens(300)).await;
    let leaf = world.child(&lower.id, tokens(100)).await;
    world.spend(&middle.id, 10).await;
    world.end(&middle.id).await;
    assert_eq!(world.session(&root.id).budget.tokens, account(1000, 0, 310));
    world.end(&lower.id).await;
    assert_eq!(world.session(&root.id).budget.tokens, account(1000, 0, 110));
    world.spend(&leaf.id, 7).await;
    world.end(&leaf.id).await;
    assert_eq!(world.session(&root.id).budget.tokens, account(1000, 0, 17));
    world.audit();
}

#[tokio::test]
async fn l8_a_restored_child_reserves_its_rest_again() {
    let world = World::new().await;
    let parent = world.root_with(tokens(100)).await;
    let child = world.child(&parent.id, tokens(60)).await;
    world.spend(&child.id, 25).await;
    world.end(&child.id).await;
    let greedy = world.child(&parent.id, tokens(60)).await;
    // 15 are left, and it would need its 35.
    assert_eq!(
        refused(
            world
                .requests()
                .sessions()
                .restore(child.id.to_string())
                .await
        ),
        Refused::Budget {
            session: parent.id.clone(),
            currency: Currency::Tokens,
            asked: 60,
            available: 40
        }
    );
    world.end(&greedy.id).await;
    world
        .requests()
        .sessions()
        .restore(child.id.to_string())
        .await
        .unwrap();
    assert_eq!(world.session(&parent.id).budget.tokens, account(100, 60, 0));
    world.end(&child.id).await;
    assert_eq!(world.session(&parent.id).budget.tokens, account(100, 0, 25));
    world.audit();
}

#[tokio::test]
async fn l8_a_child_of_an_ended_parent_with_a_budget_stays_ended() {
    let world = World::new().await;
    let parent = world.root_with(tokens(100)).await;
    let child = world.child(&parent.id, tokens(60)).await;
    world.end(&child.id).await;
    world.end(&parent.id).await;
    assert_eq!(
        refused(
            world
                .requests()
                .sessions()
                .restore(child.id.to_string())
                .await
        ),
        Refused::ParentEnded {
            session: child.id.clone(),
            parent: parent.id.clone()
        }
    );
    world
        .requests()
        .sessions()
        .restore(parent.id.to_string())
        .await
        .unwrap();
    world
        .requests()
        .sessions()
        .restore(child.id.to_string())
        .await
        .unwrap();
    world.audit();
}

/// A child's spending is counted once, however often it is restored.
#[tokio::test]
async fn l8_a_child_restored_below_an_ended_parent_is_charged_once() {
    let world = World::new().await;
    let root = world.root().await;
    let parent = world.child(&root.id, UNLIMITED).await;
    let child = world.child(&parent.id, UNLIMITED).await;
    world.spend(&child.id, 25).await;
    world.end(&child.id).await;
    world.end(&parent.id).await;
    for _ in 0..3 {
        world
            .requests()
            .sessions()
            .restore(child.id.to_string())
            .await
            .unwrap();
        world.end(&child.id).await;
    }
    assert_eq!(world.session(&root.id).budget.tokens.children, 25);
    world.audit();
}

#[tokio::test]
async fn l8_a_spent_session_begins_no_turn_and_an_overspent_one_is_charged_in_full() {
    let world = World::new().await;
    let parent = world.root_with(tokens(100)).await;
    let child = world.child(&parent.id, tokens(60)).await;
    world.spend(&child.id, 90).await;
    let id = child.id.to_string();
    assert_eq!(
        refused(world.requests().turns().begin(id.clone(), fence()).await),
        Refused::BudgetSpent {
            session: child.id.clone(),
            currency: Currency::Tokens,
            limit: 60
        }
    );
    refused(world.try_child(&child.id, tokens(1)).await);
    world.end(&child.id).await;
    assert_eq!(world.session(&parent.id).budget.tokens, account(100, 0, 90));
    refused(world.try_child(&parent.id, tokens(11)).await);
    world.child(&parent.id, tokens(10)).await;
    // The whole budget is reserved now, so the parent has none left for itself.
    refused(
        world
            .requests()
            .turns()
            .begin(parent.id.to_string(), fence())
            .await,
    );
    world.audit();
}

#[tokio::test]
async fn l8_recipients_of_a_broadcast_share_equally_and_return_the_rest() {
    let world = World::new().await;
    let source = world.root_with(tokens(100)).await;
    let children = world.broadcast(&source.id, &["agent:a", "agent:b"]).await;
    for child in &children {
        assert_eq!(child.budget.tokens.limit, Some(33));
    }
    assert_eq!(world.session(&source.id).budget.tokens, account(100, 66, 0));
    world.spend(&children[0].id, 5).await;
    world.end(&children[0].id).await;
    world.kill(&children[1].id).await;
    assert_eq!(world.session(&source.id).budget.tokens, account(100, 0, 5));
    world.audit();

    let poor = world.root_with(tokens(2)).await;
    let to = actors(&["agent:a", "agent:b"]);
    let result = world
        .requests()
        .sessions()
        .broadcast(poor.id.to_string(), to, None)
        .await;
    assert_eq!(refused(result).rule(), "budget");
    assert_eq!(world.children(&poor.id), vec![]);
    world.audit();
}

#[tokio::test]
async fn l8_both_currencies_are_kept_apart() {
    let world = World::new().await;
    let both = Allowance {
        tokens: Some(100),
        cost_micros: Some(1_000),
    };
    let parent = world.root_with(both).await;
    let child = world
        .child(
            &parent.id,
            Allowance {
                tokens: Some(100),
                cost_micros: None,
            },
        )
        .await;
    assert_eq!(child.budget.cost.limit, Some(500));
    // All tokens are spent, so no child is made, and no cost is reserved for it.
    let before = world.session(&parent.id);
    let result = world
        .try_child(
            &parent.id,
            Allowance {
                tokens: None,
                cost_micros: Some(1),
            },
        )
        .await;
    refused(result);
    assert_eq!(world.session(&parent.id), before);
    let id = child.id.to_string();
    world
        .requests()
        .turns()
        .begin(id.clone(), fence())
        .await
        .unwrap();
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        cost_micros: 400,
    };
    world
        .requests()
        .turns()
        .end(id, fence(), usage)
        .await
        .unwrap();
    world.end(&child.id).await;
    let parent = world.session(&parent.id);
    assert_eq!(parent.budget.tokens, account(100, 0, 3));
    assert_eq!(parent.budget.cost, account(1_000, 0, 400));
    world.audit();
}

/// Absurd usage reports change only the account that they are for.
#[tokio::test]
async fn l13_absurd_usage_is_no_panic() {
    let world = World::new().await;
    let parent = world.root_with(tokens(u64::MAX)).await;
    let child = world.child(&parent.id, tokens(u64::MAX)).await;
    let (requests, id) = (world.requests(), child.id.to_string());
    requests.turns().begin(id.clone(), fence()).await.unwrap();
    let usage = Usage {
        input_tokens: u64::MAX,
        output_tokens: u64::MAX,
        cost_micros: u64::MAX,
    };
    requests
        .turns()
        .end(id.clone(), fence(), usage)
        .await
        .unwrap();
    world.end(&child.id).await;
    let parent = world.session(&parent.id);
    assert_eq!(parent.budget.tokens, account(u64::MAX, 0, u64::MAX));
    requests.sessions().restore(id).await.unwrap();
    assert!(world.try_child(&parent.id, tokens(1)).await.is_err());
}

#[derive(Clone, Debug)]
enum Op {
    Root(Option<u64>),
    Child(usize, Option<u64>),
    Spend(usize, u64),
    End(usize),
    Kill(usize, bool),
    Restore(usize),
    Archive(u32),
    Broadcast(usize, usize),
    Handoff(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let who = 0usize..10;
    prop_oneof![
        1 => prop::option::of(1u64..500).prop_map(Op::Root),
        6 => (who.clone(), prop::option::of(0u64..200)).prop_map(|(p, b)| Op::Child(p, b)),
        5 => (who.clone(), 0u64..150).prop_map(|(s, n)| Op::Spend(s, n)),
        3 => who.clone().prop_map(Op::End),
        2 => (who.clone(), any::<bool>()).prop_map(|(s, tree)| Op::Kill(s, tree)),
        4 => who.clone().prop_map(Op::Restore),
        1 => (0u32..6).prop_map(Op::Archive),
        2 => (who.clone(), 2usize..4).prop_map(|(s, n)| Op::Broadcast(s, n)),
        1 => who.prop_map(Op::Handoff),
    ]
}

fn pick(world: &World, n: usize) -> Option<SessionId> {
    let sessions = world.all::<Session>();
    let index = n.checked_rem(sessions.len())?;
    Some(sessions[index].id.clone())
}

/// Performs an operation, which may be refused.
async fn perform(world: &World, op: Op) {
    let requests = world.requests();
    let ask = |n: Option<u64>| n.map_or(UNLIMITED, tokens);
    let result = match op {
        Op::Root(budget) => {
            let mut spawn = task("x");
            spawn.allowance = ask(budget);
            requests.sessions().spawn(spawn).await.map(drop)
        }
        Op::Child(parent, budget) => {
            let Some(parent) = pick(world, parent) else {
                return;
            };
            let mut spawn = below(&parent);
            spawn.allowance = ask(budget);
            requests.sessions().spawn(spawn).await.map(drop)
        }
        Op::Spend(session, n) => {
            let Some(id) = pick(world, session) else {
                return;
            };
            if requests
                .turns()
                .begin(id.to_string(), fence())
                .await
                .is_err()
            {
                return;
            }
            requests
                .turns()
                .end(id.to_string(), fence(), used(n))
                .await
                .map(drop)
        }
        Op::End(n) => match pick(world, n) {
            Some(id) => requests
                .sessions()
                .end(id.to_string(), fence(), Outcome::Done, None)
                .await
                .map(drop),
            None => Ok(()),
        },
        Op::Kill(n, tree) => match pick(world, n) {
            Some(id) => requests
                .sessions()
                .kill(id.to_string(), crate::common::kill(tree))
                .await
                .map(drop),
            None => Ok(()),
        },
        Op::Restore(n) => match pick(world, n) {
            Some(id) => requests.sessions().restore(id.to_string()).await.map(drop),
            None => Ok(()),
        },
        Op::Archive(keep) => {
            let settings = ProjectUpdate {
                max_ended: Some(keep),
                ..ProjectUpdate::default()
            };
            world.set(settings).await;
            requests.retention().run().await.map(drop)
        }
        Op::Broadcast(n, parts) => match pick(world, n) {
            Some(id) => {
                let names: Vec<_> = (0..parts).map(|n| format!("agent:a{n}")).collect();
                let to = names.iter().map(|name| name.parse().unwrap()).collect();
                requests
                    .sessions()
                    .broadcast(id.to_string(), to, None)
                    .await
                    .map(drop)
            }
            None => Ok(()),
        },
        Op::Handoff(n) => match pick(world, n) {
            Some(id) => requests
                .sessions()
                .handoff(id.to_string(), "agent:z".parse().unwrap(), None)
                .await
                .map(drop),
            None => Ok(()),
        },
    };
    if let Err(error) = result {
        assert_ne!(error.kind(), skein_domain::Kind::Failed, "{error}");
    }
}

/// How many live children each session has.
fn families(world: &World) -> HashMap<SessionId, usize> {
    let mut families = HashMap::new();
    for session in world.all::<Session>() {
        if let (true, Some(parent)) = (session.phase.is_live(), session.parent) {
            *families.entry(parent).or_default() += 1;
        }
    }
    families
}

/// A parent that gets a child has budget for its share. Children may overspend later.
fn no_parent_gives_more_than_it_has(world: &World, before: &HashMap<SessionId, usize>) {
    let now = families(world);
    for session in world.all::<Session>() {
        let account = session.budget.tokens;
        let Some(limit) = account.limit else { continue };
        let gave = now.get(&session.id) > before.get(&session.id);
        let taken = account.reserved + account.children + session.usage.tokens();
        assert!(!gave || taken <= limit, "{session:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn l8_accounts_equal_a_recount_after_any_history(ops in prop::collection::vec(op(), 20..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            for op in ops {
                let before = families(&world);
                perform(&world, op).await;
                world.audit_budgets();
                no_parent_gives_more_than_it_has(&world, &before);
            }
            world.audit();
        });
    }
}

/// A child's overspending is charged to its parent at once, and a restore returns none of it.
#[tokio::test]
async fn l8_an_overspent_child_gives_nothing_back_by_returning() {
    let world = World::new().await;
    let parent = world.root_with(tokens(100)).await;
    let child = world.child(&parent.id, tokens(50)).await;
    world.spend(&child.id, 1000).await;
    refused(
        world
            .requests()
            .turns()
            .begin(parent.id.to_string(), fence())
            .await,
    );
    world.end(&child.id).await;
    refused(
        world
            .requests()
            .turns()
            .begin(parent.id.to_string(), fence())
            .await,
    );
    refused(
        world
            .requests()
            .sessions()
            .restore(child.id.to_string())
            .await,
    );
    assert_eq!(
        world.session(&parent.id).budget.tokens,
        account(100, 0, 1000)
    );
    world.audit();
}
