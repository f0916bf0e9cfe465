//! Which cell comes where (`docs/decisions/conversion-stages.md`).

#[cfg(test)]
use std::ops::Range;

/// The second half of the key of the hash, so that seeds are not used for anything else in the same way.
const KEY: u64 = u64::from_le_bytes(*b"celltile");

/// A random order of cells: a cell's place is the rank of its key, a pseudo-random function of seed and number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shuffle {
    seed: u64,
}

impl Shuffle {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The key of a cell: cells come by key, and those of equal keys by number.
    pub(super) fn key(self, cell: u64) -> u64 {
        siphash(self.seed, KEY, cell)
    }

    /// The bucket of a key: buckets follow each other as keys do.
    pub(super) fn bucket(key: u64, buckets: u32) -> u32 {
        u32::try_from((u128::from(key) * u128::from(buckets)) >> 64).unwrap_or(0)
    }

    /// Cells of a range of numbers in their order.
    #[cfg(test)]
    pub(super) fn order(self, cells: Range<u64>) -> Vec<u64> {
        let mut keyed: Vec<(u64, u64)> = cells.map(|cell| (self.key(cell), cell)).collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, cell)| cell).collect()
    }
}

/// SipHash-2-4 of the eight bytes of a number (Aumasson and Bernstein).
fn siphash(k0: u64, k1: u64, message: u64) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    // The last block holds the length alone.
    for block in [message, 8 << 56] {
        let [_, _, _, d] = &mut v;
        *d ^= block;
        round(&mut v);
        round(&mut v);
        let [a, _, _, _] = &mut v;
        *a ^= block;
    }
    let [_, _, c, _] = &mut v;
    *c ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v.into_iter().fold(0, |all, one| all ^ one)
}

fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(deprecated, reason = "the standard library's own SipHash-2-4, to compare with")]
    fn test_the_hash_is_siphash_2_4() {
        use std::hash::{Hasher, SipHasher};
        for (k0, k1, message) in [(0, 0, 0), (1, 2, 3), (u64::MAX, 7, 1 << 63), (5, KEY, 123_456_789)] {
            let mut reference = SipHasher::new_with_keys(k0, k1);
            reference.write(&u64::to_le_bytes(message));
            assert_eq!(siphash(k0, k1, message), reference.finish());
        }
    }

    #[test]
    fn test_all_orders_of_a_few_cells_are_as_likely() {
        let mut found = std::collections::HashMap::new();
        let seeds = 24_000_u64;
        for seed in 0..seeds {
            *found.entry(Shuffle::new(seed).order(0..4)).or_insert(0_u64) += 1;
        }
        assert_eq!(found.len(), 24);
        let expected = seeds as f64 / 24.0;
        let chi: f64 = found.values().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
        // 23 degrees of freedom: 1 in 100,000 is above 64.
        assert!(chi < 64.0, "{chi}");
    }

    #[test]
    fn test_places_and_neighbours_of_many_cells_are_uniform() {
        let n = 20_000;
        for seed in 0..5 {
            let order = Shuffle::new(seed).order(0..n);
            // Where cells of each tenth of the numbers come: a table of 10 by 10 with 81 degrees of freedom.
            let mut table = [[0.0_f64; 10]; 10];
            for (place, &cell) in order.iter().enumerate() {
                table[place * 10 / 20_000][usize::try_from(cell * 10 / n).unwrap()] += 1.0;
            }
            let chi: f64 = table.iter().flatten().map(|x| (x - 200.0).powi(2) / 200.0).sum();
            assert!(chi < 150.0, "seed {seed}: {chi}");
            // A number rises or falls to the next as often: the number of rises has a variance of (n + 1) / 12.
            let rises = order.windows(2).filter(|pair| pair[0] < pair[1]).count() as f64;
            let z = (rises - (n - 1) as f64 / 2.0) / ((n + 1) as f64 / 12.0).sqrt();
            assert!(z.abs() < 4.5, "seed {seed}: {z}");
        }
    }

    #[test]
    fn test_buckets_follow_each_other_as_keys_do() {
        for buckets in [1, 2, 7, 1000] {
            let shuffle = Shuffle::new(3);
            let order = shuffle.order(0..5000);
            let found: Vec<u32> =
                order.iter().map(|&cell| Shuffle::bucket(shuffle.key(cell), buckets)).collect();
            assert!(found.is_sorted());
            assert!(found.iter().all(|bucket| *bucket < buckets));
        }
        assert_eq!(Shuffle::bucket(u64::MAX, u32::MAX), u32::MAX - 1);
    }
}
