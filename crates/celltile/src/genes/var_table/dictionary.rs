//! A column chunk whose dictionary page is a list of categories as it is.
//!
//! Parquet writers build dictionaries from the values that occur, in order of appearance; readers (pyarrow among them)
//! take a dictionary page for the list of categories. To keep the order, and categories that no row has, the page is
//! written here.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::table::{Categorical, CategoryValue};

/// zstd level of the pages.
const LEVEL: i32 = 3;

/// The chunk's bytes, and what the row group has to know of it. The column is an optional string.
pub(super) fn column_chunk(
    values: &Categorical,
    column: ColumnDescPtr,
) -> Result<(Bytes, ColumnCloseResult)> {
    let rows = values.codes().len();
    let dictionary = plain(values)?;
    let data = data_page(values)?;
    let mut sink = TrackedWrite::new(Vec::new());
    let mut writer = SerializedPageWriter::new(&mut sink);
    let dictionary_spec = writer.write_page(CompressedPage::new(
        Page::DictionaryPage {
            buf: compress(&dictionary)?,
            num_values: number(values.categories().len())?,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        },
        dictionary.len(),
    ))?;
    let data_spec = writer.write_page(CompressedPage::new(
        Page::DataPage {
            buf: compress(&data)?,
            num_values: number(rows)?,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        },
        data.len(),
    ))?;
    writer.close()?;
    let bytes = Bytes::from(sink.into_inner()?);
    let uncompressed = dictionary_spec.uncompressed_size + data_spec.uncompressed_size;
    let metadata = ColumnChunkMetaData::builder(column)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
        .set_num_values(number::<u32>(rows)?.into())
        .set_total_compressed_size(number::<u32>(bytes.len())?.into())
        .set_total_uncompressed_size(number::<u32>(uncompressed)?.into())
        .set_dictionary_page_offset(Some(0))
        .set_data_page_offset(number::<u32>(dictionary_spec.compressed_size)?.into())
        .build()?;
    let close = ColumnCloseResult {
        bytes_written: number::<u32>(bytes.len())?.into(),
        rows_written: number::<u32>(rows)?.into(),
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((bytes, close))
}

/// The categories, each with its length before it.
fn plain(values: &Categorical) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for value in values.categories().iter() {
        let CategoryValue::Text(text) = value else {
            return Err(ParquetError::General("categories that are no text".to_owned()));
        };
        out.extend(number::<u32>(text.len())?.to_le_bytes());
        out.extend(text.as_bytes());
    }
    Ok(out)
}

/// Definition levels (0 for missing) and the codes of the others.
fn data_page(values: &Categorical) -> Result<Vec<u8>> {
    let levels: Vec<u32> = values.codes().iter().map(|code| u32::from(code >= 0)).collect();
    let codes: Vec<u32> = values.codes().iter().filter_map(|code| u32::try_from(code).ok()).collect();
    let levels = hybrid(&levels, 1)?;
    let largest = values.categories().len().saturating_sub(1);
    let width = u8::try_from(u32::BITS - number::<u32>(largest)?.leading_zeros()).unwrap_or(32);
    let mut out = number::<u32>(levels.len())?.to_le_bytes().to_vec();
    out.extend(levels);
    out.push(width);
    out.extend(hybrid(&codes, width)?);
    Ok(out)
}

/// Parquet's hybrid encoding: one run where all values are the same, else one bit-packed stretch.
fn hybrid(values: &[u32], width: u8) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let Some((first, rest)) = values.split_first() else { return Ok(out) };
    if rest.iter().all(|value| value == first) {
        varint(number::<u64>(values.len())? << 1, &mut out);
        out.extend(first.to_le_bytes().iter().take(usize::from(width.div_ceil(8))));
        return Ok(out);
    }
    let groups = values.len().div_ceil(8);
    varint((number::<u64>(groups)? << 1) | 1, &mut out);
    let (mut bits, mut filled) = (0_u64, 0_u32);
    let padding = std::iter::repeat_n(&0, groups * 8 - values.len());
    for value in values.iter().chain(padding) {
        bits |= u64::from(*value) << filled;
        filled += u32::from(width);
        while filled >= 8 {
            out.extend(bits.to_le_bytes().first());
            bits >>= 8;
            filled -= 8;
        }
    }
    Ok(out)
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0x7f);
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

fn compress(bytes: &[u8]) -> Result<Bytes> {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    zstd_safe::compress(&mut out, bytes, LEVEL)
        .map_err(|code| ParquetError::General(zstd_safe::get_error_name(code).to_owned()))?;
    Ok(out.into())
}

fn number<T: TryFrom<usize>>(value: usize) -> Result<T> {
    T::try_from(value).map_err(|_| ParquetError::General(format!("{value} is too large for a Parquet page")))
}
