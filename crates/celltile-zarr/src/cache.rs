//! A small cache of decoded things: at most so many bytes, each made once even if many ask for it at the same time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// A cache bounded by the bytes of its values. What is in use is not counted out: a value lives as long as somebody holds it.
///
/// Values are made outside the cache's own lock, but under one for their key. A thread of rayon may run another reader on its own
/// stack while `make` waits for the pool, which would then wait for itself: such threads make a value of their own instead
/// of waiting for one.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    slots: Mutex<Slots<K, V>>,
    budget: u64,
}

#[derive(Debug)]
struct Slots<K, V> {
    by_key: HashMap<K, Slot<V>>,
    bytes: u64,
    clock: u64,
}

#[derive(Debug)]
struct Slot<V> {
    value: Arc<Mutex<Option<Arc<V>>>>,
    bytes: u64,
    used: u64,
}

impl<K: Eq + Hash + Clone, V> Cache<K, V> {
    /// A cache of that many bytes. It keeps one value whatever its size, so that two readers of one thing share it.
    pub(crate) fn new(budget: u64) -> Self {
        Self { slots: Mutex::new(Slots { by_key: HashMap::new(), bytes: 0, clock: 0 }), budget }
    }

    /// The value of a key, made by `make` if it is not there. `bytes` is what it will take.
    pub(crate) fn get<E>(
        &self,
        key: &K,
        bytes: u64,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        let place = self.place(key, bytes);
        let waits = rayon::current_thread_index().is_none();
        let mut value = match place.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(value)) => value.into_inner(),
            Err(TryLockError::WouldBlock) if waits => lock(&place),
            Err(TryLockError::WouldBlock) => return make().map(Arc::new),
        };
        if let Some(value) = value.as_ref() {
            return Ok(Arc::clone(value));
        }
        match make() {
            Ok(made) => {
                let made = Arc::new(made);
                *value = Some(Arc::clone(&made));
                Ok(made)
            }
            Err(error) => {
                drop(value);
                self.forget(key);
                Err(error)
            }
        }
    }

    /// As [`get`](Self::get), for values whose size is known only once they are made.
    pub(crate) fn get_sized<E>(
        &self,
        key: &K,
        make: impl FnOnce() -> Result<(V, u64), E>,
    ) -> Result<Arc<V>, E> {
        let mut size = 0;
        let value = self.get(key, 0, || {
            let (value, bytes) = make()?;
            size = bytes;
            Ok(value)
        })?;
        if size > 0 {
            self.grow(key, size);
        }
        Ok(value)
    }

    /// Notes the size of a value, and makes room for it.
    fn grow(&self, key: &K, bytes: u64) {
        let mut slots = lock(&self.slots);
        let Some(slot) = slots.by_key.get_mut(key) else { return };
        slot.bytes = bytes;
        slots.bytes = slots.bytes.saturating_add(bytes);
        while slots.bytes > self.budget && slots.by_key.len() > 1 {
            let oldest = slots.by_key.iter().min_by_key(|(_, slot)| slot.used).map(|(key, _)| key.clone());
            let Some(slot) = oldest.and_then(|key| slots.by_key.remove(&key)) else { break };
            slots.bytes = slots.bytes.saturating_sub(slot.bytes);
        }
    }

    /// The place of a key's value, made if missing; what has not been used for longest gives way.
    fn place(&self, key: &K, bytes: u64) -> Arc<Mutex<Option<Arc<V>>>> {
        let mut slots = lock(&self.slots);
        slots.clock += 1;
        let now = slots.clock;
        if let Some(slot) = slots.by_key.get_mut(key) {
            slot.used = now;
            return Arc::clone(&slot.value);
        }
        while slots.bytes.saturating_add(bytes) > self.budget {
            let oldest = slots.by_key.iter().min_by_key(|(_, slot)| slot.used).map(|(key, _)| key.clone());
            let Some(slot) = oldest.and_then(|key| slots.by_key.remove(&key)) else { break };
            slots.bytes = slots.bytes.saturating_sub(slot.bytes);
        }
        slots.bytes = slots.bytes.saturating_add(bytes);
        let value = Arc::new(Mutex::new(None));
        slots.by_key.insert(key.clone(), Slot { value: Arc::clone(&value), bytes, used: now });
        value
    }

    fn forget(&self, key: &K) {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.by_key.remove(key) {
            slots.bytes = slots.bytes.saturating_sub(slot.bytes);
        }
    }
}

/// A panic while a value was made leaves no value, which is a valid state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_value_is_made_once_for_many_readers() {
        let (cache, made) = (Cache::new(100), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let value = cache.get(&1, 10, || {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok::<_, ()>(7)
                    });
                    assert_eq!(value.as_deref(), Ok(&7));
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn the_oldest_gives_way_and_errors_are_not_kept() {
        let cache = Cache::new(20);
        assert_eq!(cache.get(&1, 10, || Err::<u8, _>("no")), Err("no"));
        for key in 1..=3 {
            cache.get(&key, 10, || Ok::<_, ()>(key)).unwrap();
        }
        assert!(cache.get(&3, 10, || Err::<u8, _>("made again")).is_ok());
        assert!(cache.get(&1, 10, || Err::<u8, _>("made again")).is_err());
    }

    #[test]
    fn a_value_larger_than_the_cache_is_kept_alone() {
        let cache = Cache::new(5);
        cache.get(&1, 10, || Ok::<_, ()>(1)).unwrap();
        assert!(cache.get(&1, 10, || Err::<u8, _>("made again")).is_ok());
    }
}
