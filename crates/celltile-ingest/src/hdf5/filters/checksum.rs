use super::Fault;

/// Checks and removes the Fletcher-32 checksum after the data.
pub(super) fn undo(data: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let (data, stored) =
        data.split_last_chunk::<4>().ok_or_else(|| Fault::damaged("no room for a checksum"))?;
    let stored = u32::from_le_bytes(*stored);
    let sum = fletcher32(data);
    // Early versions of HDF5 stored the bytes of each half in the machine's order.
    let swapped = ((sum & 0x00ff_00ff) << 8) | ((sum >> 8) & 0x00ff_00ff);
    if stored != sum && stored != swapped {
        return Err(Fault::damaged(format!("Fletcher-32 checksum {sum:08x}; stored {stored:08x}")));
    }
    out.clear();
    out.extend_from_slice(data);
    Ok(())
}

/// HDF5's Fletcher-32: sums of big-endian 16-bit words, an odd byte at the end counted as a high byte.
fn fletcher32(data: &[u8]) -> u32 {
    let (mut low, mut high) = (0_u32, 0_u32);
    let mut add = |part: &[u8]| {
        for pair in part.chunks(2) {
            let word = match pair {
                [first, second] => u32::from(*first) << 8 | u32::from(*second),
                [first] => u32::from(*first) << 8,
                _ => 0,
            };
            low += word;
            high += low;
        }
        low = (low & 0xffff) + (low >> 16);
        high = (high & 0xffff) + (high >> 16);
    };
    // 360 words are the most whose sums fit 32 bits.
    for part in data.chunks(720) {
        add(part);
    }
    low = (low & 0xffff) + (low >> 16);
    high = (high & 0xffff) + (high >> 16);
    high << 16 | low
}
