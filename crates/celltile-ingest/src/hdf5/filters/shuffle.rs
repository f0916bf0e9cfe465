use super::Fault;

/// Undoes the shuffle filter: byte planes back to elements of `size` bytes. Bytes after the last whole element stand as
/// they are.
pub(super) fn undo(data: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    if size == 0 {
        return Err(Fault::damaged("shuffled elements of no bytes"));
    }
    out.resize(data.len(), 0);
    unshuffle(data, size, out);
    Ok(())
}

/// Interleaves the byte planes of `data` into `out`, which is as long.
pub(super) fn unshuffle(data: &[u8], size: usize, out: &mut [u8]) {
    let count = data.len() / size;
    let planes = count * size;
    let (Some(shuffled), Some((elements, tail)), Some(rest)) =
        (data.get(..planes), out.split_at_mut_checked(planes), data.get(planes..))
    else {
        return;
    };
    tail.copy_from_slice(rest);
    match size {
        1 => elements.copy_from_slice(shuffled),
        2 => interleave::<2>(shuffled, count, elements),
        4 => interleave::<4>(shuffled, count, elements),
        8 => interleave::<8>(shuffled, count, elements),
        _ => {
            for (plane, bytes) in shuffled.chunks_exact(count.max(1)).enumerate() {
                for (to, &byte) in elements.iter_mut().skip(plane).step_by(size).zip(bytes) {
                    *to = byte;
                }
            }
        }
    }
}

#[allow(clippy::indexing_slicing, reason = "planes are cut to `count` bytes; the loop runs to `count`")]
fn interleave<const N: usize>(shuffled: &[u8], count: usize, elements: &mut [u8]) {
    let planes: [&[u8]; N] = std::array::from_fn(|plane| &shuffled[plane * count..(plane + 1) * count]);
    let (elements, _) = elements.as_chunks_mut::<N>();
    for (at, element) in elements.iter_mut().enumerate().take(count) {
        *element = std::array::from_fn(|plane| planes[plane][at]);
    }
}
