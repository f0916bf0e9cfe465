//! Random numbers that stay the same on every machine and in every version: xoshiro256++, and what is drawn with it.

/// Spreads the bits of `x` (the finaliser of SplitMix64): a bijection of 64-bit numbers.
const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A generator of its own for each (seed, what for, index), so that nothing depends on the order of drawing.
pub(super) struct Rng([u64; 4]);

impl Rng {
    pub(super) fn new(seed: u64, purpose: u64, index: u64) -> Self {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut state = mix(mix(mix(seed.wrapping_add(STEP)) ^ purpose).wrapping_add(STEP) ^ index);
        Self(std::array::from_fn(|_| {
            state = state.wrapping_add(STEP);
            mix(state)
        }))
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c1, d1) = (c ^ a, d ^ b);
        self.0 = [a ^ d1, b ^ c1, c1 ^ (b << 17), d1.rotate_left(45)];
        result
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    pub(super) fn uniform(&mut self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "53 bits are exact in an f64")]
        let x = (self.next() >> 11) as f64;
        x * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Uniform in (0, 1], whose logarithm is finite.
    pub(super) fn positive(&mut self) -> f64 {
        1.0 - self.uniform()
    }

    /// Uniform below `n`, which must not be 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let wide = u128::from(self.next()) * (n as u128);
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// Standard normal (Box and Muller's, one of the pair).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.positive()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// Gamma with this shape and scale 1 (Marsaglia and Tsang's method).
    pub(super) fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(self.positive(), 1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v > 0.0 {
                let v = v * v * v;
                if libm::log(self.positive()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                    return d * v;
                }
            }
        }
    }

    /// Poisson with this mean: by products of uniforms when it is small, else by transformed rejection (Hörmann's PTRS).
    pub(super) fn poisson(&mut self, mean: f64) -> u64 {
        if mean <= 0.0 {
            return 0;
        }
        if mean < 10.0 {
            let limit = libm::exp(-mean);
            let mut product = self.uniform();
            let mut k = 0;
            while product > limit {
                product *= self.uniform();
                k += 1;
            }
            return k;
        }
        let log_mean = libm::log(mean);
        let b = 0.931 + 2.53 * libm::sqrt(mean);
        let a = -0.059 + 0.02483 * b;
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        let v_r = 0.9277 - 3.6224 / (b - 2.0);
        loop {
            let u = self.uniform() - 0.5;
            let v = self.positive();
            let us = 0.5 - u.abs();
            let k = libm::floor((2.0 * a / us + b) * u + mean + 0.43);
            let quick = us >= 0.07 && v <= v_r;
            let refused = k < 0.0 || (us < 0.013 && v > us);
            if quick
                || (!refused
                    && libm::log(v) + libm::log(inverse_alpha) - libm::log(a / (us * us) + b)
                        <= -mean + k * log_mean - libm::lgamma(k + 1.0))
            {
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a whole number, not negative, a few standard deviations from the mean"
                )]
                return k as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    fn moments(n: u32, mut draw: impl FnMut(&mut Rng) -> f64) -> (f64, f64) {
        let mut rng = Rng::new(7, 1, 2);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = draw(&mut rng);
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        (mean, squares / f64::from(n) - mean * mean)
    }

    #[track_caller]
    fn near(found: f64, expected: f64, share: f64) {
        assert!((found - expected).abs() < share * expected.abs().max(1.0), "{found}, expected {expected}");
    }

    #[test]
    fn test_distributions_have_their_moments() {
        let (mean, variance) = moments(100_000, Rng::uniform);
        near(mean, 0.5, 0.01);
        near(variance, 1.0 / 12.0, 0.01);
        let (mean, variance) = moments(100_000, Rng::normal);
        near(mean, 0.0, 0.02);
        near(variance, 1.0, 0.02);
        for shape in [0.3, 2.0, 40.0] {
            let (mean, variance) = moments(100_000, |rng| rng.gamma(shape));
            near(mean, shape, 0.02);
            near(variance, shape, 0.05);
        }
        for rate in [0.2, 9.5, 10.5, 300.0, 5000.0] {
            #[allow(clippy::cast_precision_loss, reason = "small numbers")]
            let (mean, variance) = moments(100_000, |rng| rng.poisson(rate) as f64);
            near(mean, rate, 0.02);
            near(variance, rate, 0.05);
        }
    }

    #[test]
    fn test_streams_differ_and_repeat() {
        assert_eq!(Rng::new(1, 2, 3).next(), Rng::new(1, 2, 3).next());
        let first: Vec<u64> = [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (0, 0, 0)]
            .map(|(a, b, c)| Rng::new(a, b, c).next())
            .into();
        for (i, x) in first.iter().enumerate() {
            assert!(!first[..i].contains(x));
        }
    }
}
