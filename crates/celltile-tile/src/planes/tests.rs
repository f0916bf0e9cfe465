//! Every kernel that this machine can run against plain arithmetic, on every short length and on random data.

#![allow(clippy::cast_possible_truncation, reason = "a test may panic")]

use super::*;

/// Bytes that look random, the same each time.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn kernels() -> Vec<Kernel> {
    Kernel::available()
}

/// Genes by 64-bit arithmetic, and whether all are below `n_genes`.
fn sums(planes: Planes<'_>, indptr: &[i64], n_genes: u32) -> Option<Vec<i32>> {
    let gaps: Vec<u64> = planes.iter().map(u64::from).collect();
    let mut genes = Vec::new();
    for cell in indptr.windows(2) {
        let mut gene = 0;
        for gap in &gaps[(cell[0] - indptr[0]) as usize..(cell[1] - indptr[0]) as usize] {
            gene += gap;
            genes.push(gene);
        }
    }
    let ok = genes.iter().all(|gene| *gene < n_genes.into());
    ok.then(|| genes.into_iter().map(|gene| i32::try_from(gene).unwrap()).collect())
}

fn check(kernel: Kernel, content: &[u8], indptr: &[i64], n_genes: u32) {
    let planes = Planes::new(content);
    let mut ints = vec![-1; planes.len()];
    kernel.join_i32(planes, &mut ints);
    assert!(ints.iter().copied().eq(planes.iter().map(i32::from)), "{kernel:?}, {} values", planes.len());
    let mut floats = vec![-1.0; planes.len()];
    kernel.join_f32(planes, &mut floats);
    assert!(floats.iter().copied().eq(planes.iter().map(f32::from)), "{kernel:?}, {} values", planes.len());
    let mut genes = vec![-1; planes.len()];
    let ok = kernel.prefix_sums(planes, indptr, n_genes, &mut genes);
    match sums(planes, indptr, n_genes) {
        Some(expected) => assert!(ok && genes == expected, "{kernel:?}, {} values, {indptr:?}", planes.len()),
        None => assert!(!ok, "{kernel:?}, {} values, {indptr:?}, {n_genes} genes", planes.len()),
    }
}

#[test]
fn test_kernels_agree_on_every_length() {
    for kernel in kernels() {
        for len in 0..300_usize {
            let noise = noise(2 * len, len as u64);
            let zeros_above: Vec<u8> =
                noise[..len].iter().copied().chain(std::iter::repeat_n(0, len)).collect();
            for content in [noise, zeros_above, vec![0; 2 * len], vec![255; 2 * len]] {
                let len = len as i64;
                for indptr in [vec![0, len], vec![7, 7, 7 + len / 3, 7 + len / 2, 7 + len, 7 + len]] {
                    check(kernel, &content, &indptr, 1 << 31);
                    check(kernel, &content, &indptr, 40_000);
                    // The largest gene is legal with one gene more, and refused otherwise.
                    if let Some(max) =
                        sums(Planes::new(&content), &indptr, 1 << 31).and_then(|g| g.into_iter().max())
                    {
                        check(kernel, &content, &indptr, max.cast_unsigned() + 1);
                        check(kernel, &content, &indptr, max.cast_unsigned());
                    }
                }
            }
        }
    }
}

#[test]
fn test_kernels_agree_on_random_cells() {
    for kernel in kernels() {
        for seed in 0..40 {
            let lens = noise(50, seed);
            let mut indptr = vec![0_i64];
            for len in lens {
                indptr.push(indptr.last().unwrap() + i64::from(len) * i64::from(len) / 32);
            }
            let n = *indptr.last().unwrap() as usize;
            let mut content = noise(2 * n, seed);
            // Mostly small gaps, as in real cells.
            for (i, high) in content[n..].iter_mut().enumerate() {
                if i % 37 != 0 {
                    *high = 0;
                }
            }
            check(kernel, &content, &indptr, 1 << 31);
            check(kernel, &content, &indptr, 400_000);
        }
    }
}

#[test]
fn test_sums_past_2_to_32_are_refused() {
    // 65,538 gaps of 65,535 pass 2^32: the last sums, wrapped, would be small genes again.
    for kernel in kernels() {
        for len in [32_768, 32_769, 32_770, 65_537, 65_538, 65_545, 65_600, 140_000] {
            check(kernel, &vec![255; 2 * len], &[0, len as i64], 1 << 31);
        }
        // Up, and with zeros after that: only sums in the middle are too large, if sums wrap.
        let mut content = vec![255; 2 * 66_000];
        content[65_538..66_000].fill(0);
        content[66_000 + 65_538..].fill(0);
        check(kernel, &content, &[0, 66_000], 1 << 31);
    }
}

#[test]
fn test_split_is_the_inverse_of_join() {
    for len in 0..300_usize {
        let values: Vec<u16> =
            noise(2 * len, 3).as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
        let mut content = vec![0; 2 * len];
        split(&values, &mut content);
        assert!(Planes::new(&content).iter().eq(values));
    }
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let n = 128 << 10;
    let mut content: Vec<u8> = noise(2 * n, 1).iter().map(|b| b % 16).collect();
    content[n..].fill(0);
    let indptr: Vec<i64> = (0..=65).map(|i| (i * n / 65) as i64).collect();
    let mut genes = vec![0; n];
    let mut counts = vec![0; n];
    for kernel in kernels() {
        let mut best = [f64::INFINITY; 5];
        let mut planes = vec![0_u8; 2 * n];
        for _ in 0..2000 {
            let mut time = |i: usize, work: &mut dyn FnMut()| {
                let start = std::time::Instant::now();
                work();
                best[i] = best[i].min(start.elapsed().as_secs_f64());
            };
            time(0, &mut || planes.copy_from_slice(&content));
            time(1, &mut || assert!(kernel.prefix_sums(Planes::new(&planes), &indptr, 1 << 20, &mut genes)));
            time(0, &mut || planes.copy_from_slice(&content));
            time(2, &mut || kernel.join_i32(Planes::new(&planes), &mut counts));
            time(4, &mut || {
                assert!(kernel.prefix_sums(
                    Planes::new(&planes).range(0..2000),
                    &[0, 2000],
                    1 << 20,
                    &mut genes[..2000]
                ))
            });
            time(3, &mut || kernel.join_i32(Planes::new(&planes).range(0..2000), &mut counts[..2000]));
        }
        let per = |b: f64| b * 1e9 / n as f64;
        println!(
            "{kernel:?}: copy {:.3} sums {:.3} join {:.3} 2000: join {:.3} sums {:.3} ns",
            per(best[0]),
            per(best[1]),
            per(best[2]),
            best[3] * 1e9 / 2000.0,
            best[4] * 1e9 / 2000.0
        );
    }
}
