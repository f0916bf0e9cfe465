//! A small cache that forgets what was used least recently.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Values by number, up to a total weight. The last value put in stays, whatever its weight.
#[derive(Debug)]
pub(super) struct Lru<V> {
    limit: u64,
    state: Mutex<State<V>>,
}

#[derive(Debug)]
struct State<V> {
    values: HashMap<u64, Slot<V>>,
    weight: u64,
    clock: u64,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    weight: u64,
    used: u64,
}

impl<V: Clone> Lru<V> {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, state: Mutex::new(State { values: HashMap::new(), weight: 0, clock: 0 }) }
    }

    pub(super) fn get(&self, key: u64) -> Option<V> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock = state.clock.saturating_add(1);
        let now = state.clock;
        let slot = state.values.get_mut(&key)?;
        slot.used = now;
        Some(slot.value.clone())
    }

    pub(super) fn put(&self, key: u64, value: V, weight: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock = state.clock.saturating_add(1);
        let used = state.clock;
        let old = state.values.insert(key, Slot { value, weight, used }).map_or(0, |slot| slot.weight);
        state.weight = state.weight.saturating_add(weight).saturating_sub(old);
        while state.weight > self.limit && state.values.len() > 1 {
            let Some(oldest) = state.values.iter().min_by_key(|(_, slot)| slot.used).map(|(key, _)| *key)
            else {
                break;
            };
            if let Some(slot) = state.values.remove(&oldest) {
                state.weight = state.weight.saturating_sub(slot.weight);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;

    #[test]
    fn test_least_recently_used_goes_first() {
        let cache = Lru::new(10);
        cache.put(1, 'a', 4);
        cache.put(2, 'b', 4);
        assert_eq!(cache.get(1), Some('a'));
        cache.put(3, 'c', 4);
        assert_eq!((cache.get(1), cache.get(2), cache.get(3)), (Some('a'), None, Some('c')));
        cache.put(4, 'd', 100);
        assert_eq!((cache.get(1), cache.get(3), cache.get(4)), (None, None, Some('d')));
        cache.put(4, 'e', 1);
        cache.put(5, 'f', 9);
        assert_eq!((cache.get(4), cache.get(5)), (Some('e'), Some('f')));
    }
}
