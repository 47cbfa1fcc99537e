//! Sources of time and randomness; tests have their own.

use std::sync::Mutex;

use skein_domain::Timestamp;

pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Timestamp;
}

/// Random bits for ids and secrets.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    fn bits(&self) -> [u8; 10];
    fn secret(&self) -> [u8; 32];
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock"
    )]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A clock before 1970 is wrong anyway; the event log keeps its own order.
        let micros = since.map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX));
        Timestamp::from_micros(micros)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

impl IdSource for SystemIds {
    fn bits(&self) -> [u8; 10] {
        let mut bits = [0; 10];
        getrandom::fill(&mut bits).expect("the kernel gives random bytes once it is up");
        bits
    }

    fn secret(&self) -> [u8; 32] {
        let mut bits = [0; 32];
        getrandom::fill(&mut bits).expect("the kernel gives random bytes once it is up");
        bits
    }
}

/// A clock and ids that count up: the same test gives the same records.
#[derive(Debug, Default)]
pub struct CountingClock(Mutex<u64>);

impl CountingClock {
    fn next(&self) -> u64 {
        let mut count = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *count += 1;
        *count
    }
}

impl Clock for CountingClock {
    fn now(&self) -> Timestamp {
        let micros = i64::try_from(self.next()).unwrap_or(i64::MAX / 2);
        Timestamp::from_micros(1_800_000_000_000_000 + micros * 1000)
    }
}

impl IdSource for CountingClock {
    fn bits(&self) -> [u8; 10] {
        let mut bits = [0; 10];
        bits[2..].copy_from_slice(&self.next().to_be_bytes());
        bits
    }

    fn secret(&self) -> [u8; 32] {
        let mut bits = [7; 32];
        bits[24..].copy_from_slice(&self.next().to_be_bytes());
        bits
    }
}

/// Named points before and after every step of a saga, where tests end or hold the process.
pub trait FaultPoints: Send + Sync + std::fmt::Debug {
    fn reach(&self, name: &str);
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaultPoints;

impl FaultPoints for NoFaultPoints {
    fn reach(&self, _: &str) {}
}
