//! Times and what is told of them.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// At least one.
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    pub(crate) fn at(&self, part: f64) -> Duration {
        self.0[((self.0.len() - 1) as f64 * part).round() as usize]
    }

    pub(crate) fn p50(&self) -> Duration {
        self.at(0.5)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.at(0.99)
    }
}

pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let since = Instant::now();
    let value = work();
    (value, since.elapsed())
}

pub(crate) fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

pub(crate) fn ratio(time: Duration, to: Duration) -> f64 {
    time.as_secs_f64() / to.as_secs_f64()
}

pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
