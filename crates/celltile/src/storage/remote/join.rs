//! Which requested ranges are fetched together.

use std::ops::Range;

use super::super::ReadRequest;

/// The largest request made by joining.
const MOST_JOINED: u64 = 16 << 20;

/// One request that answers several.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Joined<'a> {
    /// The object.
    pub(super) key: &'a str,
    /// What is fetched of it.
    pub(super) range: Range<u64>,
    /// Which of the requests it answers.
    pub(super) members: Vec<usize>,
}

/// Joins requests for neighbouring ranges of the same object. Ranges are joined over a gap of at most `most_gap`
/// bytes, and only while the bytes of all gaps are no more than those that are wanted: whatever is asked, at most
/// twice as much is fetched.
pub(super) fn join<'a>(requests: &[ReadRequest<'a>], most_gap: u64) -> Vec<Joined<'a>> {
    let mut order: Vec<_> =
        requests.iter().enumerate().filter(|(_, r)| r.range.start < r.range.end).collect();
    order.sort_by_key(|(_, r)| (r.key, r.range.start, r.range.end));
    let mut joined: Vec<Joined<'a>> = Vec::new();
    let mut wanted = 0u64;
    for (index, request) in order {
        let Range { start, end } = request.range;
        if let Some(last) = joined.last_mut()
            && last.key == request.key
        {
            let new = end.saturating_sub(start.max(last.range.end));
            let span = end.max(last.range.end).saturating_sub(last.range.start);
            let gap = start.saturating_sub(last.range.end);
            let useful = wanted.saturating_add(new);
            let inside = new == 0;
            if inside || (gap <= most_gap && span <= useful.saturating_mul(2) && span <= MOST_JOINED) {
                last.range.end = end.max(last.range.end);
                last.members.push(index);
                wanted = useful;
                continue;
            }
        }
        joined.push(Joined { key: request.key, range: start..end, members: vec![index] });
        wanted = end.saturating_sub(start);
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(list: &[(u64, u64)], gap: u64) -> Vec<Range<u64>> {
        let requests: Vec<_> = list.iter().map(|&(a, b)| ReadRequest { key: "k", range: a..b }).collect();
        join(&requests, gap).into_iter().map(|j| j.range).collect()
    }

    #[test]
    fn test_neighbours_are_joined_and_strangers_are_not() {
        assert_eq!(ranges(&[(10, 20), (0, 10), (25, 40), (200, 210)], 8), [0..40, 200..210]);
        let one = |range: Range<u64>| vec![range];
        assert_eq!(ranges(&[(0, 10), (30, 40)], 100), one(0..40));
        assert_eq!(ranges(&[(0, 10), (31, 40)], 100), [0..10, 31..40], "more gap than bytes wanted");
        assert_eq!(ranges(&[(0, 100), (50, 60), (5, 5)], 0), one(0..100));
        let other = [ReadRequest { key: "a", range: 0..1 }, ReadRequest { key: "b", range: 1..2 }];
        assert_eq!(join(&other, 10).len(), 2);
    }

    proptest! {
        #[test]
        fn test_every_request_is_answered_and_little_is_fetched_in_vain(
            list in prop::collection::vec((0u64..5000, 0u64..300), 0..40),
            gap in 0u64..400,
        ) {
            let requests: Vec<_> =
                list.iter().map(|&(a, n)| ReadRequest { key: "k", range: a..a + n }).collect();
            let joined = join(&requests, gap);
            let mut answered: Vec<usize> = joined.iter().flat_map(|j| j.members.clone()).collect();
            answered.sort_unstable();
            let expected: Vec<usize> = (0..list.len()).filter(|&i| list[i].1 > 0).collect();
            prop_assert_eq!(answered, expected);
            for j in &joined {
                let mut wanted = std::collections::BTreeSet::new();
                for &m in &j.members {
                    prop_assert!(j.range.start <= requests[m].range.start && requests[m].range.end <= j.range.end);
                    wanted.extend(requests[m].range.clone());
                }
                prop_assert!(j.range.end - j.range.start <= 2 * wanted.len() as u64);
            }
        }
    }
}
