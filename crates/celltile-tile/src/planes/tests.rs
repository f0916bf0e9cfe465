//! Every kernel that this machine can run against plain arithmetic, on every short length and on random data.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test may panic"
)]

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
    check_from(kernel, content, indptr, n_genes, 0, Stores::Cached);
    // Streamed stores begin at a cache line, wherever the output begins.
    check_from(kernel, content, indptr, n_genes, content.len() % 17, Stores::Streamed);
}

/// `offset` is where in its memory the output begins.
fn check_from(kernel: Kernel, content: &[u8], indptr: &[i64], n_genes: u32, offset: usize, stores: Stores) {
    let planes = Planes::new(content);
    let mut ints = vec![-1; offset + planes.len()];
    kernel.join_i32(planes, &mut ints[offset..], stores);
    let ints = &ints[offset..];
    assert!(ints.iter().copied().eq(planes.iter().map(i32::from)), "{kernel:?}, {} values", planes.len());
    let mut floats = vec![-1.0; offset + planes.len()];
    kernel.join_f32(planes, &mut floats[offset..], stores);
    let floats = &floats[offset..];
    assert!(floats.iter().copied().eq(planes.iter().map(f32::from)), "{kernel:?}, {} values", planes.len());
    let mut genes = vec![-1; offset + planes.len()];
    let ok = kernel.prefix_sums(planes, indptr, n_genes, &mut genes[offset..], stores);
    let genes = &genes[offset..];
    match sums(planes, indptr, n_genes) {
        Some(expected) => {
            assert!(ok && *genes == expected, "{kernel:?}, {} values, {indptr:?}", planes.len());
        }
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
                for indptr in [vec![0, len], vec![7, 7, 7 + len / 3, 7 + len, 7 + len]] {
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
        for seed in 0..8 {
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
            noise(2 * len, 3).as_chunks().0.iter().map(|b| u16::from_le_bytes(*b).max(1)).collect();
        let counts: Vec<i32> = values.iter().copied().map(i32::from).collect();
        let mut content = vec![0; 2 * len];
        assert!(PlanesMut::new(&mut content).counts(&counts).all_fit());
        assert!(Planes::new(&content).iter().eq(values.iter().copied()));

        let mut genes = counts;
        for i in 1..len {
            genes[i] += genes[i - 1];
        }
        let mut content = vec![0; 2 * len];
        assert!(PlanesMut::new(&mut content).gaps(&genes).all_fit());
        assert!(Planes::new(&content).iter().eq(values));
    }
}

#[test]
fn test_split_notices_what_does_not_fit() {
    for len in [1, 2, 31, 100] {
        for at in 0..len {
            for bad in [0, -1, i32::MIN, 65_536, i32::MAX] {
                let mut counts = vec![1; len];
                counts[at] = bad;
                assert!(!PlanesMut::new(&mut vec![0; 2 * len]).counts(&counts).all_fit(), "{bad} at {at}");
            }
            // The second of two equal genes, a falling one, and a wide gap.
            let genes: Vec<i32> = (0..len as i32).collect();
            for bad in [-1, i32::MIN, 200_000, i32::MAX] {
                let mut genes = genes.clone();
                genes[at] = bad;
                assert!(!PlanesMut::new(&mut vec![0; 2 * len]).gaps(&genes).all_fit(), "{bad} at {at}");
            }
            if at > 0 {
                let mut genes = genes.clone();
                genes[at] = genes[at - 1];
                assert!(!PlanesMut::new(&mut vec![0; 2 * len]).gaps(&genes).all_fit(), "twice at {at}");
            }
        }
    }
}
