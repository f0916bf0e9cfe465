//! A slow decoder, written from the specification and not from the crate: every number is wide, every rule is spelled out
//! where the text has it. And a builder of tiles that the format allows, but the crate's own encoder would not write.

use std::ops::Range;

/// What a tile holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) n_genes: u64,
    pub(crate) indptr: Vec<i64>,
    pub(crate) genes: Vec<i32>,
    pub(crate) counts: Vec<i32>,
}

type Outcome<T> = Result<T, String>;

fn ensure(rule: bool, text: &str) -> Outcome<()> {
    if rule { Ok(()) } else { Err(text.into()) }
}

fn int(bytes: &[u8]) -> i128 {
    bytes.iter().rev().fold(0, |value, byte| value * 256 + i128::from(*byte))
}

fn slice<'a>(bytes: &'a [u8], offset: i128, len: i128, what: &str) -> Outcome<&'a [u8]> {
    ensure(
        offset >= 0 && len >= 0 && offset + len <= bytes.len() as i128,
        &format!("{what} outside the tile"),
    )?;
    Ok(&bytes[offset as usize..(offset + len) as usize])
}

/// Decodes a tile, its CRC checked.
pub(crate) fn decode(bytes: &[u8]) -> Outcome<Matrix> {
    let header = slice(bytes, 0, 64, "header")?;
    ensure(&header[0..8] == b"DELTACEL", "magic")?;
    ensure(int(&header[8..12]) == 2, "version")?;
    ensure(int(&header[12..16]) == 0, "flags")?;
    let (n_cells, nnz) = (int(&header[16..24]), int(&header[24..32]));
    let (n_genes, n_chunks) = (int(&header[32..36]), int(&header[36..40]));
    let (indptr_off, total_size) = (int(&header[40..48]), int(&header[48..56]));
    ensure((1..=1 << 31).contains(&n_genes), "n_genes")?;
    ensure(total_size == bytes.len() as i128, "total_size")?;
    ensure(int(&header[56..60]) == i128::from(slow_crc(&bytes[64..])), "crc32")?;
    let table = slice(bytes, 64, n_chunks * 96, "chunk table")?;
    let table_end = 64 + n_chunks * 96;
    ensure(indptr_off % 8 == 0 && indptr_off >= table_end, "indptr_off")?;
    let words = slice(bytes, indptr_off, (n_cells + 1) * 8, "indptr")?.chunks(8).map(int);
    let indptr: Vec<i128> = words.map(|word| if word >= 1 << 63 { word - (1 << 64) } else { word }).collect();
    ensure(indptr[0] == 0, "indptr[0]")?;
    ensure(*indptr.last().unwrap() == nnz, "indptr[n_cells]")?;
    ensure(indptr.is_sorted(), "indptr falls")?;
    ensure((n_cells == 0) == (n_chunks == 0), "no cells have no chunks, cells have chunks")?;

    let mut matrix = Matrix { n_genes: n_genes as u64, indptr: vec![], genes: vec![], counts: vec![] };
    let (mut cell_end, mut nnz_end) = (0, 0);
    for entry in table.chunks(96) {
        let field: Vec<i128> = entry.chunks(8).map(int).collect();
        let [cell_lo, cell_hi, nnz_lo, nnz_hi] = field[..4].try_into().unwrap();
        ensure(cell_lo == cell_end && nnz_lo == nnz_end, "chunks are contiguous")?;
        ensure(cell_hi >= cell_lo && cell_hi <= n_cells, "cell_hi")?;
        ensure(indptr[cell_lo as usize] == nnz_lo && indptr[cell_hi as usize] == nnz_hi, "chunk and indptr")?;
        let n = nnz_hi - nnz_lo;
        ensure(n < 1 << 32, "2^32 nonzeros in a chunk")?;
        let stream = |at: usize, what: &str| -> Outcome<Vec<u8>> {
            ensure(field[at] >= table_end, what)?;
            unzstd(slice(bytes, field[at], field[at + 1], what)?, what)
        };
        let values = |at, what: &str| -> Outcome<Vec<i128>> {
            ensure(field[at + 1] > 0, what)?;
            let content = stream(at, what)?;
            ensure(content.len() as i128 == 2 * n, &format!("size of {what}"))?;
            let n = n as usize;
            Ok((0..n).map(|i| i128::from(content[i]) + 256 * i128::from(content[n + i])).collect())
        };
        let exceptions = |at, what: &str, legal: Range<i128>| -> Outcome<Vec<(usize, i128)>> {
            if field[at + 1] == 0 {
                return Ok(vec![]);
            }
            let content = stream(at, what)?;
            ensure(content.len() % 8 == 0 && !content.is_empty(), &format!("size of {what}"))?;
            let k = content.len() / 8;
            ensure(k as i128 <= n, &format!("k of {what}"))?;
            let words: Vec<i128> = content.chunks(4).map(int).collect();
            ensure(words[..k].windows(2).all(|pair| pair[0] < pair[1]), &format!("order of {what}"))?;
            ensure(words[..k].iter().all(|position| *position < n), &format!("position of {what}"))?;
            ensure(words[k..].iter().all(|payload| legal.contains(payload)), &format!("payload of {what}"))?;
            Ok((0..k).map(|i| (words[i] as usize, words[k + i])).collect())
        };
        let gaps = values(4, "gaps")?;
        let mut vals = values(6, "vals")?;
        for (position, count) in exceptions(8, "vexc", 65_536..1 << 31)? {
            vals[position] = count;
        }
        let gexc = exceptions(10, "gexc", 1..n_genes)?;
        for cell in cell_lo as usize..cell_hi as usize {
            let mut gene = 0;
            for position in (indptr[cell] - nnz_lo) as usize..(indptr[cell + 1] - nnz_lo) as usize {
                gene += gaps[position];
                gene += gexc.iter().filter(|(at, _)| *at == position).map(|(_, more)| more).sum::<i128>();
                ensure(gene < n_genes, "gene")?;
                matrix.genes.push(gene as i32);
                matrix.counts.push(vals[position] as i32);
            }
        }
        (cell_end, nnz_end) = (cell_hi, nnz_hi);
    }
    ensure(cell_end == n_cells && nnz_end == nnz, "chunks cover the tile")?;
    matrix.indptr = indptr.into_iter().map(|offset| offset as i64).collect();
    Ok(matrix)
}

/// The content of exactly one frame that states its size.
fn unzstd(frame: &[u8], what: &str) -> Outcome<Vec<u8>> {
    let fail = |code| format!("{what}: {}", zstd_safe::get_error_name(code));
    ensure(frame.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), what)?;
    ensure(zstd_safe::find_frame_compressed_size(frame).map_err(fail)? == frame.len(), what)?;
    let size = zstd_safe::get_frame_content_size(frame).map_err(|_| what.to_owned())?.ok_or(what)?;
    ensure(size <= 1 << 26, "this decoder is for small tiles")?;
    let mut content = Vec::with_capacity(size as usize);
    zstd_safe::decompress(&mut content, frame).map_err(fail)?;
    ensure(content.len() as u64 == size, what)?;
    Ok(content)
}

fn slow_crc(bytes: &[u8]) -> u32 {
    let mut table = [0_u32; 256];
    for (i, entry) in table.iter_mut().enumerate() {
        *entry =
            (0..8).fold(i as u32, |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 });
    }
    !bytes.iter().fold(!0, |crc, byte| table[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

/// Writes the CRC that the bytes have.
pub(crate) fn patch_crc(tile: &mut [u8]) {
    if tile.len() >= 64 {
        let crc = slow_crc(&tile[64..]);
        tile[56..60].copy_from_slice(&crc.to_le_bytes());
    }
}

/// How a tile is built.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Cells of each chunk; chunks may be empty.
    pub(crate) chunks: Vec<Range<usize>>,
    /// Streams stand in the tile from the last to the first, and the indptr after them.
    pub(crate) backwards: bool,
    /// Absent exception frames have an offset all the same.
    pub(crate) stray_offsets: bool,
    /// A zstd level.
    pub(crate) level: i32,
}

impl Layout {
    /// All cells in one chunk, the plain way.
    pub(crate) fn one_chunk(n_cells: usize) -> Self {
        let chunks = std::iter::once(0..n_cells).collect();
        Self { chunks, backwards: false, stray_offsets: false, level: 1 }
    }
}

/// Builds a tile.
pub(crate) fn build(matrix: &Matrix, layout: &Layout) -> Vec<u8> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut entries: Vec<[u64; 12]> = Vec::new();
    for chunk in &layout.chunks {
        let offset = |cell: usize| matrix.indptr[cell] as usize;
        let base = offset(chunk.start);
        let mut streams: [Vec<u64>; 6] = Default::default();
        for cell in chunk.clone() {
            let mut before = 0;
            for i in offset(cell)..offset(cell + 1) {
                let [gaps, vals, vexc_at, vexc, gexc_at, gexc] = &mut streams;
                let gap = matrix.genes[i] as u64 - before;
                gaps.push(gap.min(65_535));
                if gap > 65_535 {
                    gexc_at.push((i - base) as u64);
                    gexc.push(gap - 65_535);
                }
                let count = matrix.counts[i] as u64;
                vals.push(count.min(65_535));
                if count > 65_535 {
                    vexc_at.push((i - base) as u64);
                    vexc.push(count);
                }
                before = matrix.genes[i] as u64;
            }
        }
        let planes = |values: &[u64]| -> Vec<u8> {
            values.iter().map(|v| *v as u8).chain(values.iter().map(|v| (*v >> 8) as u8)).collect()
        };
        let words = |a: &[u64], b: &[u64]| -> Vec<u8> {
            a.iter().chain(b).flat_map(|v| (*v as u32).to_le_bytes()).collect()
        };
        let [gaps, vals, vexc_at, vexc, gexc_at, gexc] = &streams;
        let mut entry = [0; 12];
        entry[..4]
            .copy_from_slice(&[chunk.start, chunk.end, base, offset(chunk.end)].map(|value| value as u64));
        entries.push(entry);
        for content in [planes(gaps), planes(vals), words(vexc_at, vexc), words(gexc_at, gexc)] {
            // Exception frames have content, the others always exist.
            let absent = content.is_empty() && frames.len() % 4 >= 2;
            let mut frame = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
            if !absent {
                zstd_safe::compress(&mut frame, &content, layout.level).unwrap();
            }
            frames.push(frame);
        }
    }

    let mut body = Vec::new();
    let mut indptr_off = 64 + 96 * entries.len();
    let start = indptr_off;
    let indptr: Vec<u8> = matrix.indptr.iter().flat_map(|offset| offset.to_le_bytes()).collect();
    if !layout.backwards {
        body.extend(&indptr);
    }
    let order: Vec<usize> =
        if layout.backwards { (0..frames.len()).rev().collect() } else { (0..frames.len()).collect() };
    for i in order {
        let frame = &frames[i];
        body.resize(body.len().next_multiple_of(8), 0);
        let slot = 4 + 2 * (i % 4);
        if !frame.is_empty() {
            entries[i / 4][slot] = (start + body.len()) as u64;
            entries[i / 4][slot + 1] = frame.len() as u64;
        } else if layout.stray_offsets {
            entries[i / 4][slot] = u64::MAX - 3;
        }
        body.extend(frame);
    }
    if layout.backwards {
        body.resize(body.len().next_multiple_of(8), 0);
        indptr_off = start + body.len();
        body.extend(&indptr);
    }

    let mut tile = b"DELTACEL".to_vec();
    tile.extend(2_u32.to_le_bytes());
    tile.extend(0_u32.to_le_bytes());
    tile.extend((matrix.indptr.len() as u64 - 1).to_le_bytes());
    tile.extend((matrix.genes.len() as u64).to_le_bytes());
    tile.extend((matrix.n_genes as u32).to_le_bytes());
    tile.extend((entries.len() as u32).to_le_bytes());
    tile.extend((indptr_off as u64).to_le_bytes());
    tile.extend(((start + body.len()) as u64).to_le_bytes());
    tile.extend([0; 8]);
    tile.extend(entries.iter().flatten().flat_map(|field| field.to_le_bytes()));
    tile.extend(body);
    patch_crc(&mut tile);
    tile
}
