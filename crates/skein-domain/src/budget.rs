//! Token and cost budgets: a parent's budget is split among its children and what they do not spend
//! comes back.

use crate::error::Refused;
use crate::id::SessionId;

/// An amount in both currencies. Cost is in millionths of a US dollar, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros: u64,
}

impl Usage {
    pub const fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }
}

/// What may be spent; `None` is no limit in that currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    pub tokens: Option<u64>,
    pub cost_micros: Option<u64>,
}

impl Allowance {
    pub const UNLIMITED: Self = Self {
        tokens: None,
        cost_micros: None,
    };
}

/// One currency's account of a session: what it may spend, and what is already taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub limit: Option<u64>,
    /// Set aside for live children.
    pub reserved: u64,
    /// Spent by children that have ended.
    pub children: u64,
}

impl Account {
    const fn taken(&self, own: u64) -> u64 {
        own.saturating_add(self.reserved)
            .saturating_add(self.children)
    }

    /// What is left, `None` when there is no limit.
    fn available(&self, own: u64) -> Option<u64> {
        self.limit
            .map(|limit| limit.saturating_sub(self.taken(own)))
    }
}

/// A session's budget in both currencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub tokens: Account,
    pub cost: Account,
}

/// What an ended session weighs on its parent, in both currencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    tokens: u64,
    cost: u64,
}

/// What an amount is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Currency {
    Tokens,
    /// Millionths of a US dollar.
    Cost,
}

impl Currency {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Cost => "usd_micros",
        }
    }

    /// An amount as people write it.
    pub fn show(self, amount: u64) -> String {
        match self {
            Self::Tokens => format!("{amount} tokens"),
            Self::Cost => format!("${}.{:06}", amount / 1_000_000, amount % 1_000_000)
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
        }
    }
}

const TOKENS: Currency = Currency::Tokens;
const COST: Currency = Currency::Cost;

impl Budget {
    pub const fn new(allowance: Allowance) -> Self {
        Self {
            tokens: Account {
                limit: allowance.tokens,
                reserved: 0,
                children: 0,
            },
            cost: Account {
                limit: allowance.cost_micros,
                reserved: 0,
                children: 0,
            },
        }
    }

    /// Sets aside a child's share. A limited parent never has an unlimited child: where the child asks
    /// for nothing it gets half of what is left. Returns the parent's budget and the child's allowance.
    pub fn reserve(
        &self,
        session: &SessionId,
        own: &Usage,
        asked: Allowance,
    ) -> Result<(Self, Allowance), Refused> {
        let tokens = share(session, TOKENS, &self.tokens, own.tokens(), asked.tokens)?;
        let cost = share(
            session,
            COST,
            &self.cost,
            own.cost_micros,
            asked.cost_micros,
        )?;
        let mut after = *self;
        after.tokens.reserved = after
            .tokens
            .reserved
            .saturating_add(counted(&self.tokens, tokens));
        after.cost.reserved = after
            .cost
            .reserved
            .saturating_add(counted(&self.cost, cost));
        Ok((
            after,
            Allowance {
                tokens,
                cost_micros: cost,
            },
        ))
    }

    /// What each of `parts` children gets when they are made at once: equal shares, one of them kept back
    /// for the session itself.
    pub fn equal_share(&self, own: &Usage, parts: u64) -> Allowance {
        let part =
            |account: &Account, own: u64| account.available(own).map(|left| left / (parts + 1));
        Allowance {
            tokens: part(&self.tokens, own.tokens()),
            cost_micros: part(&self.cost, own.cost_micros),
        }
    }

    /// Takes back a child's share when it ends: its reservation is freed, what it took is charged. What it
    /// had set aside for children of its own that go on counts as taken until they end.
    #[must_use]
    pub fn settle(&self, child: &Budget, child_usage: &Usage) -> Self {
        let mut after = *self;
        settle(&mut after.tokens, &child.tokens, child_usage.tokens());
        settle(&mut after.cost, &child.cost, child_usage.cost_micros);
        after
    }

    /// What a session that has ended weighs on its parent.
    pub fn charge(&self, own: &Usage) -> Charge {
        Charge {
            tokens: self.tokens.taken(own.tokens()),
            cost: self.cost.taken(own.cost_micros),
        }
    }

    /// Corrects the parent's account when a charge it already carries changes: a grandchild ended after
    /// its parent did.
    #[must_use]
    pub fn recharge(&self, before: Charge, after: Charge) -> Self {
        let mut corrected = *self;
        let move_to = |children: u64, before: u64, after: u64| {
            children.saturating_sub(before).saturating_add(after)
        };
        corrected.tokens.children = move_to(self.tokens.children, before.tokens, after.tokens);
        corrected.cost.children = move_to(self.cost.children, before.cost, after.cost);
        corrected
    }

    pub const fn is_limited(&self) -> bool {
        self.tokens.limit.is_some() || self.cost.limit.is_some()
    }

    /// Takes the child's rest again when it is restored; the inverse of [`Budget::settle`].
    pub fn reopen(
        &self,
        session: &SessionId,
        own: &Usage,
        child: &Budget,
        child_usage: &Usage,
    ) -> Result<Self, Refused> {
        let mut after = *self;
        reopen(
            session,
            TOKENS,
            &mut after.tokens,
            own.tokens(),
            &child.tokens,
            child_usage.tokens(),
        )?;
        reopen(
            session,
            COST,
            &mut after.cost,
            own.cost_micros,
            &child.cost,
            child_usage.cost_micros,
        )?;
        Ok(after)
    }

    /// What a child of this budget would return if it ended now.
    pub fn unspent(&self, own: &Usage) -> Allowance {
        Allowance {
            tokens: self
                .tokens
                .limit
                .map(|l| l.saturating_sub(self.tokens.taken(own.tokens()))),
            cost_micros: self
                .cost
                .limit
                .map(|l| l.saturating_sub(self.cost.taken(own.cost_micros))),
        }
    }

    /// Refuses a new turn when nothing is left.
    pub fn check_left(&self, session: &SessionId, own: &Usage) -> Result<(), Refused> {
        for (currency, account, own) in [
            (TOKENS, &self.tokens, own.tokens()),
            (COST, &self.cost, own.cost_micros),
        ] {
            if let (Some(limit), Some(0)) = (account.limit, account.available(own)) {
                return Err(Refused::BudgetSpent {
                    session: session.clone(),
                    currency,
                    limit,
                });
            }
        }
        Ok(())
    }
}

fn share(
    session: &SessionId,
    currency: Currency,
    parent: &Account,
    own: u64,
    asked: Option<u64>,
) -> Result<Option<u64>, Refused> {
    let refuse = |asked, available| Refused::Budget {
        session: session.clone(),
        currency,
        asked,
        available,
    };
    match (parent.available(own), asked) {
        (_, Some(0)) => Err(refuse(0, parent.available(own).unwrap_or(u64::MAX))),
        (None, asked) => Ok(asked),
        (Some(available), Some(asked)) if asked <= available => Ok(Some(asked)),
        (Some(available), None) if available / 2 > 0 => Ok(Some(available / 2)),
        (Some(0), _) => Err(Refused::BudgetSpent {
            session: session.clone(),
            currency,
            limit: parent.limit.unwrap_or(0),
        }),
        (Some(available), asked) => Err(refuse(asked.unwrap_or(1), available)),
    }
}

/// A parent without a limit keeps no reservations, so there is nothing to return later.
fn counted(parent: &Account, share: Option<u64>) -> u64 {
    if parent.limit.is_some() {
        share.unwrap_or(0)
    } else {
        0
    }
}

fn settle(parent: &mut Account, child: &Account, child_own: u64) {
    parent.reserved = parent.reserved.saturating_sub(counted(parent, child.limit));
    parent.children = parent.children.saturating_add(child.taken(child_own));
}

fn reopen(
    session: &SessionId,
    currency: Currency,
    parent: &mut Account,
    parent_own: u64,
    child: &Account,
    child_own: u64,
) -> Result<(), Refused> {
    let consumed = child.taken(child_own);
    parent.children = parent.children.saturating_sub(consumed);
    let share = counted(parent, child.limit);
    if let Some(available) = parent.available(parent_own)
        && share > available
    {
        return Err(Refused::Budget {
            session: session.clone(),
            currency,
            asked: share,
            available,
        });
    }
    parent.reserved = parent.reserved.saturating_add(share);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id() -> SessionId {
        "api-1".parse().unwrap()
    }

    fn tokens(n: u64) -> Allowance {
        Allowance {
            tokens: Some(n),
            cost_micros: None,
        }
    }

    fn spent(n: u64) -> Usage {
        Usage {
            input_tokens: n,
            ..Usage::default()
        }
    }

    #[test]
    fn a_share_is_taken_and_the_rest_returned() {
        let parent = Budget::new(tokens(100));
        let (parent, child) = parent.reserve(&id(), &spent(10), tokens(60)).unwrap();
        assert_eq!(child, tokens(60));
        assert_eq!(
            parent.reserve(&id(), &spent(10), tokens(31)),
            Err(Refused::Budget {
                session: id(),
                currency: TOKENS,
                asked: 31,
                available: 30
            })
        );
        let parent = parent.settle(&Budget::new(child), &spent(25));
        assert_eq!(parent.unspent(&spent(10)), tokens(65));
        assert_eq!(
            parent.tokens,
            Account {
                limit: Some(100),
                reserved: 0,
                children: 25
            }
        );
    }

    #[test]
    fn a_limited_parent_never_has_an_unlimited_child() {
        let (_, child) = Budget::new(tokens(100))
            .reserve(&id(), &spent(0), Allowance::UNLIMITED)
            .unwrap();
        assert_eq!(child, tokens(50));
        assert!(
            Budget::new(tokens(1))
                .reserve(&id(), &spent(0), Allowance::UNLIMITED)
                .is_err()
        );
        assert!(
            Budget::new(tokens(9))
                .reserve(&id(), &spent(0), tokens(0))
                .is_err()
        );
    }

    proptest! {
        /// Reserve, spend, settle, reopen in any order: reservations never exceed the limit, and once all
        /// children are settled nothing stays reserved.
        #[test]
        fn l8_reservations_always_balance(limit in 1u64..1000, asks in prop::collection::vec((1u64..400, 0u64..500, any::<bool>()), 0..20)) {
            let mut parent = Budget::new(tokens(limit));
            let mut live: Vec<(Budget, Usage)> = vec![];
            let mut total_spent = 0u64;
            for (ask, use_, keep) in asks {
                if let Ok((after, share)) = parent.reserve(&id(), &spent(0), tokens(ask)) {
                    prop_assert!(after.tokens.reserved + after.tokens.children <= limit);
                    parent = after;
                    let used = use_.min(ask);
                    if keep {
                        live.push((Budget::new(share), spent(used)));
                    } else {
                        parent = parent.settle(&Budget::new(share), &spent(used));
                        let settled = parent;
                        let reopened = parent.reopen(&id(), &spent(0), &Budget::new(share), &spent(used)).unwrap();
                        prop_assert_eq!(reopened.settle(&Budget::new(share), &spent(used)), settled);
                    }
                    total_spent += used;
                }
            }
            for (budget, usage) in live {
                parent = parent.settle(&budget, &usage);
            }
            prop_assert_eq!(parent.tokens.reserved, 0);
            prop_assert_eq!(parent.tokens.children, total_spent);
        }
    }
}
