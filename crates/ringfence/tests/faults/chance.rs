//! Numbers by chance, from a seed that is printed.

use std::time::{SystemTime, UNIX_EPOCH};

/// Variables by which `cargo xtask faults` asks for more.
const SEED: &str = "RINGFENCE_FAULTS_SEED";
const A_DAY: u64 = 24 * 60 * 60;

/// xorshift64*: good enough to choose.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// From the seed that is asked for, or from the day: builds of one day try the same sample, and over a month a build tries most
    /// of what `cargo xtask faults` does. A failure prints the seed, and `RINGFENCE_FAULTS_ONLY` repeats a fault alone.
    pub(crate) fn new(what: &str) -> Self {
        let seed = number(SEED)
            .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() / A_DAY));
        println!("{what}: {SEED}={seed}");
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(drawn).unwrap() % limit.max(1)
    }

    /// So many of these, or all.
    pub(crate) fn sample<T>(&mut self, mut all: Vec<T>, most: usize) -> Vec<T> {
        for at in 0..all.len().min(most) {
            let other = at + self.below(all.len() - at);
            all.swap(at, other);
        }
        all.truncate(most);
        all
    }
}

/// A number in the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var_os(name)?.to_str()?.parse().ok()
}
