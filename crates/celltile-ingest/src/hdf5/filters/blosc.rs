use super::lzf::copy_match;
use super::{Fault, Inflater, bits, lz4_into, shuffle};

const HEADER: usize = 16;
const SHUFFLED: u8 = 1;
const STORED: u8 = 2;
const BIT_SHUFFLED: u8 = 4;
const ONE_STREAM: u8 = 16;

/// Blosc splits a block into as many streams as an element has bytes, if that is at most this …
const MOST_STREAMS: usize = 16;
/// … and each of them gets at least this many bytes.
const LEAST_STREAM: usize = 128;

/// Undoes a Blosc 1 buffer, which must hold at most `bytes` bytes.
pub(super) fn undo(
    inflater: &mut Inflater,
    data: &[u8],
    bytes: usize,
    spare: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let header = data.first_chunk::<HEADER>().ok_or_else(|| Fault::damaged("no room for a Blosc header"))?;
    let &[version, _, flags, type_size, ..] = header;
    let word = |at: usize| {
        let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes) as usize
    };
    let (total, block) = (word(4), word(8));
    if version > 2 {
        return Err(Fault::unsupported(format!(
            "Blosc format {version} is not read; rewrite the file with gzip"
        )));
    }
    if total > bytes {
        return Err(Fault::damaged(format!("declares {total} bytes; expected {bytes}")));
    }
    out.resize(total, 0);
    if flags & STORED != 0 {
        let stored = data.get(HEADER..HEADER + total);
        out.copy_from_slice(stored.ok_or_else(|| Fault::damaged("stored data cut short"))?);
        return Ok(());
    }
    if total == 0 {
        return Ok(());
    }
    let size = usize::from(type_size).max(1);
    if block == 0 {
        return Err(Fault::damaged("Blosc blocks of no bytes"));
    }
    for (at, part) in out.chunks_mut(block).enumerate() {
        let start = HEADER + 4 * at;
        let start =
            data.get(start..start + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let rest = start.and_then(|start| data.get(start as usize..));
        let rest = rest.ok_or_else(|| Fault::damaged("a Blosc block outside the chunk"))?;
        let whole = part.len() == block;
        let split = flags & ONE_STREAM == 0 && size <= MOST_STREAMS && block / size >= LEAST_STREAM && whole;
        spare.resize(part.len(), 0);
        streams(inflater, rest, flags >> 5, if split { size } else { 1 }, spare)?;
        if flags & SHUFFLED != 0 && size > 1 {
            shuffle::unshuffle(spare, size, part);
        } else if flags & BIT_SHUFFLED != 0 && part.len() >= size && (part.len() / size).is_multiple_of(8) {
            let planes = part.len() / size * size;
            if let (Some(to), Some(from)) = (part.get_mut(..planes), spare.get(..planes)) {
                bits::unshuffle(from, size, to);
            }
            if let (Some(to), Some(from)) = (part.get_mut(planes..), spare.get(planes..)) {
                to.copy_from_slice(from);
            }
        } else {
            part.copy_from_slice(spare);
        }
    }
    Ok(())
}

/// Inflates the streams of one block, each with its size before it.
fn streams(
    inflater: &mut Inflater,
    mut rest: &[u8],
    codec: u8,
    count: usize,
    block: &mut [u8],
) -> Result<(), Fault> {
    let each = block.len() / count.max(1);
    for part in block.chunks_mut(each.max(1)) {
        let short = || Fault::damaged("a Blosc stream outside the chunk");
        let (len, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let (stored, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(short)?;
        rest = after;
        if stored.len() == part.len() {
            part.copy_from_slice(stored);
            continue;
        }
        let found = match codec {
            0 => blosclz(stored, part)?,
            1 => lz4_into(stored, part)?,
            3 => inflater.zlib_into(stored, part)?,
            4 => inflater.zstd_into(stored, part)?,
            other => return Err(Fault::unsupported(format!("Blosc codec {other} is not read"))),
        };
        if found != part.len() {
            return Err(Fault::damaged("a Blosc stream shorter than declared"));
        }
    }
    Ok(())
}

/// Distances from here on take two more bytes.
const FAR: usize = 8191;

fn blosclz(data: &[u8], part: &mut [u8]) -> Result<usize, Fault> {
    let mut out = Vec::with_capacity(part.len());
    let mut bytes = data.iter().map(|&byte| usize::from(byte));
    let short = || Fault::damaged("BloscLZ data end too soon");
    let mut control = bytes.next().map(|control| control & 31);
    while let Some(current) = control {
        if current >= 32 {
            let mut len = (current >> 5) - 1;
            let high = (current & 31) << 8;
            if len == 6 {
                loop {
                    let code = bytes.next().ok_or_else(short)?;
                    len += code;
                    if code != 255 {
                        break;
                    }
                }
            }
            let low = bytes.next().ok_or_else(short)?;
            let distance = if low == 255 && high == 31 << 8 {
                let high = bytes.next().ok_or_else(short)?;
                (high << 8) + bytes.next().ok_or_else(short)? + FAR + 1
            } else {
                high + low + 1
            };
            copy_match(&mut out, distance, len + 3, part.len())?;
        } else {
            for _ in 0..=current {
                let byte = bytes.next().ok_or_else(short)?;
                out.push(u8::try_from(byte).unwrap_or(0));
            }
            if out.len() > part.len() {
                return Err(Fault::damaged("BloscLZ data longer than declared"));
            }
        }
        control = bytes.next();
    }
    let found = out.len().min(part.len());
    if let (Some(to), Some(from)) = (part.get_mut(..found), out.get(..found)) {
        to.copy_from_slice(from);
    }
    Ok(found)
}
