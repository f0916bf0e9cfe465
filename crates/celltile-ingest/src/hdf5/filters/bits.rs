use super::{Fault, Inflater, lz4_into, split_length};

/// Turns bit planes back to elements: of `count` elements of `size` bytes, `count` a multiple of 8, plane
/// `8 * byte + bit` holds that bit of every element, eight elements a byte.
pub(super) fn unshuffle(data: &[u8], size: usize, out: &mut [u8]) {
    let count = data.len() / size.max(1);
    let width = count / 8;
    if width == 0 {
        return;
    }
    out.fill(0);
    for (plane, bits) in data.chunks_exact(width).enumerate().take(size * 8) {
        let (byte, bit) = (plane / 8, plane % 8);
        for (group, &bits) in out.chunks_exact_mut(8 * size).zip(bits) {
            if bits == 0 {
                continue;
            }
            for (at, element) in group.chunks_exact_mut(size).enumerate() {
                if let Some(to) = element.get_mut(byte) {
                    *to |= ((bits >> at) & 1) << bit;
                }
            }
        }
    }
}

/// The bitshuffle filter: blocks of bit planes, each compressed by LZ4 or zstd or not at all; what is left over of
/// eight elements stands as it is.
pub(super) fn undo_filter(
    inflater: &mut Inflater,
    client: &[u32],
    data: &[u8],
    bytes: usize,
    spare: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let size = client.get(2).map_or(0, |&size| size as usize);
    if size == 0 {
        return Err(Fault::damaged("bitshuffled elements of no bytes"));
    }
    let codec = client.get(4).copied().unwrap_or(0);
    let (mut rest, block) = match codec {
        0 => (data, client.get(3).map_or(0, |&elements| elements as usize)),
        2 | 3 => {
            let (total, rest) = split_length::<8>(data)?;
            let (block, rest) = split_length::<4>(rest)?;
            if total != bytes {
                return Err(Fault::damaged(format!("declares {total} bytes; expected {bytes}")));
            }
            (rest, block / size)
        }
        other => return Err(Fault::unsupported(format!("bitshuffle with codec {other} is not read"))),
    };
    // The filter's own default: about 8 KiB, at least 128 elements.
    let block = if block == 0 { (8192 / size / 8 * 8).max(128) } else { block / 8 * 8 };
    if block == 0 {
        return Err(Fault::damaged("bitshuffle blocks of fewer than 8 elements"));
    }
    let count = bytes / size;
    let tail = bytes - count / 8 * 8 * size;
    out.resize(bytes, 0);
    let (elements, left) =
        out.split_at_mut_checked(bytes - tail).ok_or_else(|| Fault::damaged("no room for the data"))?;
    for part in elements.chunks_mut(block.saturating_mul(size)) {
        let short = || Fault::damaged("compressed data end inside a block");
        if codec == 0 {
            let (planes, after) = rest.split_at_checked(part.len()).ok_or_else(short)?;
            rest = after;
            unshuffle(planes, size, part);
            continue;
        }
        let (len, after) = split_length::<4>(rest)?;
        let (stored, after) = after.split_at_checked(len).ok_or_else(short)?;
        rest = after;
        spare.resize(part.len(), 0);
        let found = if codec == 2 { lz4_into(stored, spare)? } else { inflater.zstd_into(stored, spare)? };
        if found != part.len() {
            return Err(Fault::damaged("a block shorter than declared"));
        }
        unshuffle(spare, size, part);
    }
    let stored = rest.get(..left.len()).ok_or_else(|| Fault::damaged("compressed data end too soon"))?;
    left.copy_from_slice(stored);
    Ok(())
}
