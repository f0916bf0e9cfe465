//! Memory of large results: fewer and larger pages.

#![allow(unsafe_code, reason = "advice to the system about memory has no safe form")]

/// Buffers smaller than this are left alone: they hold no two large pages.
const LARGE: usize = 4 << 20;

/// Asks the system to back a large buffer by large pages, also its part that is not in use yet. To be called before the memory is first
/// written: a page of 4 KiB costs about as much to be given as it takes to decode a thousand counts into it. What the
/// buffer holds is not touched, and nothing happens where the system has no such advice (only Linux has).
pub fn advise_large<T>(buffer: &Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};

        let page = rustix::param::page_size();
        let start = buffer.as_ptr().addr();
        let end = start.saturating_add(buffer.capacity().saturating_mul(size_of::<T>()));
        // Whole pages only: those at the ends may be other buffers' too.
        let first = start.next_multiple_of(page);
        let len = end.saturating_sub(first) / page * page;
        if len >= LARGE {
            let pages = buffer.as_ptr().cast_mut().cast::<u8>().wrapping_add(first - start);
            // SAFETY: the range lies within the buffer, and the advice changes how its pages are backed, not what they hold.
            // That it may be refused is no harm.
            let _ = unsafe { madvise(pages.cast(), len, Advice::LinuxHugepage) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (buffer, LARGE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_advice_leaves_what_a_buffer_holds() {
        for len in [0, 1, 1 << 19, LARGE, LARGE / 2 + 1_000_001] {
            let mut buffer: Vec<u32> = vec![0; len];
            advise_large(&buffer);
            for (value, index) in buffer.iter_mut().zip(0..) {
                *value = index;
            }
            advise_large(&buffer);
            assert!(buffer.iter().copied().eq(0..u32::try_from(len).unwrap()), "{len}");
        }
    }
}
