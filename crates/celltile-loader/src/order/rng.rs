//! Random numbers that are the same everywhere and for ever: orders of epochs are functions of them.

/// xoshiro256++ (Blackman and Vigna), seeded through splitmix64 from a key of any length.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    s: [u64; 4],
}

/// The finaliser of splitmix64: a bijection in which every bit of the input changes half of the output's.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number from a key. Keys of different lengths are different keys.
pub(crate) fn hash(key: &[u64]) -> u64 {
    let start = mix(GOLDEN.wrapping_mul(key.len() as u64 + 1));
    key.iter().fold(start, |sum, word| mix(sum.wrapping_mul(GOLDEN) ^ mix(word.wrapping_add(GOLDEN))))
}

/// A number in `[0, 1)` with 53 random bits.
#[allow(clippy::cast_precision_loss, reason = "a number of 53 bits is exact")]
pub(crate) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

impl Rng {
    pub(crate) fn new(key: &[u64]) -> Self {
        let mut state = hash(key);
        let mut next = || {
            state = state.wrapping_add(GOLDEN);
            mix(state)
        };
        Self { s: [next(), next(), next(), next()] }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.s;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number below `n` (0 if that is 0), each as likely as any other (Lemire's method).
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        let low_bits = |product: u128| u64::try_from(product & u128::from(u64::MAX)).unwrap_or_default();
        let high_bits = |product: u128| u64::try_from(product >> 64).unwrap_or_default();
        let mut product = u128::from(self.next()) * u128::from(n);
        if low_bits(product) < n {
            let threshold = n.wrapping_neg() % n;
            while low_bits(product) < threshold {
                product = u128::from(self.next()) * u128::from(n);
            }
        }
        high_bits(product)
    }

    /// Puts items into a random order, each as likely as any other (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or_default();
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_every_order_of_four_is_as_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for seed in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            Rng::new(&[seed]).shuffle(&mut items);
            *seen.entry(items).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        let chi: f64 = seen.values().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        // 23 degrees of freedom: 54 is exceeded once in 3,000 times, and the seeds are fixed.
        assert!(chi < 54.0, "{chi}");
    }

    #[test]
    fn test_the_numbers_stay_what_they_are() {
        let mut rng = Rng::new(&[1, 2, 3]);
        let numbers: Vec<u64> = (0..3).map(|_| rng.next()).collect();
        let again: Vec<u64> = {
            let mut rng = Rng::new(&[1, 2, 3]);
            (0..3).map(|_| rng.next()).collect()
        };
        assert_eq!(numbers, again);
        assert_ne!(hash(&[0]), hash(&[0, 0]));
        assert_eq!((0..1000).map(|i| unit(hash(&[i]))).filter(|u| !(0.0..1.0).contains(u)).count(), 0);
    }
}
