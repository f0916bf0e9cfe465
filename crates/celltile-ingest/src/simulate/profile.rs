//! What a kind of cell expresses, in the form that cells are drawn from.

use super::rng::Rng;

/// One bucket of the alias table.
#[derive(Clone, Copy)]
struct Bucket {
    /// A coin below this stays in the bucket.
    keep: u32,
    /// Where the others go.
    other: u32,
}

/// How many counts come at once when a gene is drawn: the logarithmic distribution with parameter `p`.
#[derive(Clone, Copy)]
struct Burst {
    /// A coin below this gives one count.
    one: u32,
    p: f32,
}

/// Draws counts of genes in time proportional to the number drawn, whatever the number of genes.
///
/// A gamma-Poisson (negative binomial) count with mean `m` and size `r` is the sum of a Poisson number of bursts, with mean
/// `r ln(1 + m / r)`, each of a logarithmically distributed size with `p = m / (m + r)`. Sums of Poisson numbers being Poisson, the bursts of all genes are drawn as
/// one number, and each is given a gene by Walker's alias method.
pub(super) struct Profile {
    buckets: Vec<Bucket>,
    bursts: Vec<Burst>,
    /// Expected bursts at depth 1.
    rate: f64,
}

/// A burst never holds more counts than this.
const LONGEST: u32 = 20_000;

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "probabilities as 32-bit fractions; `as` saturates, and gene numbers fit 32 bits"
)]
impl Profile {
    /// `shares[g]`: expected share of gene `g` in the counts of a cell; `dispersions[g]`: squared coefficient of variation
    /// of its gamma at depth `typical`.
    pub(super) fn new(shares: &[f64], dispersions: &[f64], typical: f64) -> Self {
        let rates: Vec<f64> =
            shares.iter().zip(dispersions).map(|(&s, &d)| burst_rate(s, d, typical)).collect();
        let bursts = shares
            .iter()
            .zip(dispersions)
            .map(|(&share, &dispersion)| {
                let x = share * typical * dispersion;
                let p = x / (1.0 + x);
                let one = if p < 1e-9 { 1.0 } else { -p / libm::log1p(-p) };
                Burst { one: (one * 4_294_967_296.0) as u32, p: p as f32 }
            })
            .collect();
        Self { buckets: alias_table(&rates), bursts, rate: rates.iter().sum() }
    }

    /// Number of bursts of a cell with `depth` expected counts.
    pub(super) fn bursts(&self, depth: f64, rng: &mut Rng) -> u64 {
        rng.poisson(depth * self.rate)
    }

    /// Draws so many bursts, and hands over the gene and the number of counts of each.
    #[inline]
    pub(super) fn draw(&self, bursts: u64, rng: &mut Rng, mut take: impl FnMut(u32, u32)) {
        let mut left = bursts;
        let mut genes = [0_u32; 64];
        // Genes first, then sizes: the table is larger than the nearest caches, and loads that depend on nothing wait together.
        while left > 0 {
            let some = left.min(genes.len() as u64);
            for gene in genes.iter_mut().take(some as usize) {
                let bits = rng.next();
                let index = ((bits >> 32) * self.buckets.len() as u64) >> 32;
                let Some(bucket) = self.buckets.get(index as usize) else { continue };
                // A select, not a branch: half of these would be guessed wrong.
                *gene =
                    std::hint::select_unpredictable((bits as u32) < bucket.keep, index as u32, bucket.other);
            }
            for &gene in genes.iter().take(some as usize) {
                let Some(burst) = self.bursts.get(gene as usize) else { continue };
                let coin = (rng.next() >> 32) as u32;
                take(gene, if coin <= burst.one { 1 } else { burst.longer(coin) });
            }
            left -= some;
        }
    }
}

impl Burst {
    /// The size that belongs to a coin past the first: inversion, term by term.
    #[cold]
    fn longer(self, coin: u32) -> u32 {
        let p = f64::from(self.p);
        let mut term = f64::from(self.one);
        let mut left = f64::from(coin) - term;
        let mut size = 1;
        while left > 0.0 && size < LONGEST {
            term *= p * f64::from(size) / f64::from(size + 1);
            // Below a coin's own grain nothing is left to hit.
            if term < 1e-3 {
                break;
            }
            left -= term;
            size += 1;
        }
        size
    }
}

/// Expected bursts of a gene at depth 1.
pub(super) fn burst_rate(share: f64, dispersion: f64, typical: f64) -> f64 {
    let x = share * typical * dispersion;
    if x < 1e-12 { share } else { libm::log1p(x) / (dispersion * typical) }
}

/// Walker's alias table in Vose's way, for weights of which at least one is positive.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "gene numbers fit 32 bits; probabilities become 32-bit fractions, and `as` saturates"
)]
fn alias_table(weights: &[f64]) -> Vec<Bucket> {
    let total: f64 = weights.iter().sum();
    let scale = weights.len() as f64 / total;
    let mut left: Vec<f64> = weights.iter().map(|w| w * scale).collect();
    let mut buckets: Vec<Bucket> =
        (0..weights.len()).map(|i| Bucket { keep: u32::MAX, other: i as u32 }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..left.len()).partition(|&i| left.get(i).is_some_and(|&x| x < 1.0));
    while let (Some(&to), Some(from)) = (large.last(), small.pop()) {
        let share = left.get(from).copied().unwrap_or(1.0);
        if let Some(bucket) = buckets.get_mut(from) {
            *bucket = Bucket { keep: (share * 4_294_967_296.0) as u32, other: to as u32 };
        }
        if let Some(rest) = left.get_mut(to) {
            *rest -= 1.0 - share;
            if *rest < 1.0 {
                large.pop();
                small.push(to);
            }
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::{Profile, Rng};

    #[test]
    fn test_counts_are_gamma_poisson() {
        let shares = [0.5, 0.3, 0.15, 0.05, 0.0];
        let dispersions = [0.2, 0.5, 1.0, 0.1, 0.3];
        let depth = 40.0;
        let profile = Profile::new(&shares, &dispersions, depth);
        let mut rng = Rng::new(3, 0, 0);
        let cells = 60_000;
        let (mut sum, mut squares, mut zeros) = ([0.0; 5], [0.0; 5], [0.0; 5]);
        for _ in 0..cells {
            let mut counts = [0.0; 5];
            profile.draw(profile.bursts(depth, &mut rng), &mut rng, |gene, size| {
                counts[gene as usize] += f64::from(size);
            });
            for gene in 0..5 {
                sum[gene] += counts[gene];
                squares[gene] += counts[gene] * counts[gene];
                zeros[gene] += f64::from(u8::from(counts[gene] == 0.0));
            }
        }
        for gene in 0..4 {
            let m = shares[gene] * depth;
            let (mean, square) = (sum[gene] / f64::from(cells), squares[gene] / f64::from(cells));
            let variance = square - mean * mean;
            let expected = m + dispersions[gene] * m * m;
            assert!((mean - m).abs() < 0.02 * m, "gene {gene}: mean {mean}, expected {m}");
            assert!(
                (variance - expected).abs() < 0.05 * expected,
                "gene {gene}: variance {variance}, expected {expected}"
            );
            let none = (1.0 + dispersions[gene] * m).powf(-1.0 / dispersions[gene]);
            assert!((zeros[gene] / f64::from(cells) - none).abs() < 0.01);
        }
        assert!(sum[4] == 0.0);
    }
}
