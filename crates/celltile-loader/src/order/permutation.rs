//! A random permutation of `0..n`, asked for one place at a time.

use super::rng::{Rng, hash};

/// Up to so many numbers are shuffled in memory, 4 bytes each; beyond, a block cipher of the right size needs none.
const IN_MEMORY: u64 = 1 << 24;

/// Rounds of the Feistel network. Four would do against anyone who only looks; these are cheap.
const ROUNDS: u64 = 10;

/// A permutation that is a function of its key.
#[derive(Debug, Clone)]
pub(crate) enum Permutation {
    /// Shuffled, uniform up to the random numbers.
    Shuffled(Vec<u32>),
    /// A Feistel network over the next power of two, walked until it is in range again.
    Feistel(Feistel),
}

impl Permutation {
    pub(crate) fn new(n: u64, key: &[u64]) -> Self {
        match u32::try_from(n) {
            Ok(small) if n <= IN_MEMORY => {
                let mut order: Vec<u32> = (0..small).collect();
                Rng::new(key).shuffle(&mut order);
                Self::Shuffled(order)
            }
            _ => Self::Feistel(Feistel::new(n, key)),
        }
    }

    /// The number at a place below `n`.
    pub(crate) fn at(&self, place: u64) -> u64 {
        match self {
            Self::Shuffled(order) => {
                usize::try_from(place).ok().and_then(|p| order.get(p)).copied().unwrap_or_default().into()
            }
            Self::Feistel(feistel) => feistel.at(place),
        }
    }
}

/// A permutation of `0..n` in no memory.
#[derive(Debug, Clone)]
pub(crate) struct Feistel {
    n: u64,
    key: u64,
    bits: u32,
}

impl Feistel {
    pub(crate) fn new(n: u64, key: &[u64]) -> Self {
        // Two bits at least, so that both halves have one.
        let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).clamp(2, 63);
        Self { n, key: hash(key), bits }
    }

    /// The network covers less than twice as many numbers as are wanted, so the walk is short.
    pub(crate) fn at(&self, place: u64) -> u64 {
        let mut value = self.encrypt(place);
        while value >= self.n && self.n > 0 {
            value = self.encrypt(value);
        }
        value
    }

    fn encrypt(&self, value: u64) -> u64 {
        // Halves of any two widths: each round turns (left, right) into (right, left ^ f(right)).
        let (mut left_bits, mut right_bits) = (self.bits / 2, self.bits - self.bits / 2);
        let (mut left, mut right) = (value >> right_bits, value & ((1 << right_bits) - 1));
        for round in 0..ROUNDS {
            let mixed = (left ^ hash(&[self.key, round, right])) & ((1 << left_bits) - 1);
            (left, right) = (right, mixed);
            (left_bits, right_bits) = (right_bits, left_bits);
        }
        left << right_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_feistel_is_a_permutation_of_any_size() {
        for n in (1..70).chain([127, 128, 129, 1000, 4097]) {
            let feistel = Feistel::new(n, &[n, 5]);
            let mut seen: Vec<u64> = (0..n).map(|place| feistel.at(place)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n), "{n}");
        }
    }

    /// Each number at each of a few places, over many keys.
    #[test]
    fn test_every_number_is_as_likely_at_every_place() {
        let n = 40_u64;
        for shuffled in [true, false] {
            for place in [0, 1, 17, 39] {
                let mut counts = [0_u32; 40];
                for seed in 0..8000 {
                    let key = [seed, 3];
                    let value = if shuffled {
                        Permutation::new(n, &key).at(place)
                    } else {
                        Feistel::new(n, &key).at(place)
                    };
                    counts[usize::try_from(value).unwrap()] += 1;
                }
                let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 200.0).powi(2) / 200.0).sum();
                // 39 degrees of freedom.
                assert!(chi < 80.0, "{shuffled} {place} {chi}");
            }
        }
    }

    /// Whether neighbours stay neighbours, over one large permutation.
    #[test]
    fn test_feistel_tears_neighbours_apart() {
        let n = 100_000;
        let feistel = Feistel::new(n, &[9]);
        let near = (1..n).filter(|&p| feistel.at(p).abs_diff(feistel.at(p - 1)) < 1000).count();
        // 2 % of random pairs are so near.
        assert!((1600..2400).contains(&near), "{near}");
    }
}
