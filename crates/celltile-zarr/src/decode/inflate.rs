//! Compressors, whose output is bounded before memory is taken for it.

use std::io::Read;

use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// What a compressor's bytes decompress to, if the codec of that name is one that this module undoes itself; `None` if the codec
/// may run, since it gives no more than `most` bytes.
pub(super) fn inflate(name: &str, bytes: &[u8], most: u64) -> Result<Option<Vec<u8>>, String> {
    match name {
        "zstd" => zstd(bytes, most).map(Some),
        "gzip" => limited(flate2::read::MultiGzDecoder::new(bytes), name, most).map(Some),
        "zlib" => limited(flate2::read::ZlibDecoder::new(bytes), name, most).map(Some),
        "blosc" => {
            // Its header: version, version of the format, flags, size of an element, bytes of the whole.
            let size = bytes.get(4..8).and_then(|size| <[u8; 4]>::try_from(size).ok());
            let size = size.map(u32::from_le_bytes).ok_or("blosc: cut short")?;
            if u64::from(size) > most { Err(too_much(name, most)) } else { Ok(None) }
        }
        // They change no more than a few bytes of the size.
        "crc32c" | "adler32" | "fletcher32" | "shuffle" => Ok(None),
        other => Err(format!("codec {other} is not read")),
    }
}

fn too_much(name: &str, most: u64) -> String {
    format!("{name}: decompresses to more than the {most} bytes that its shape allows")
}

fn limited(decoder: impl Read, name: &str, most: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let read = decoder.take(most.saturating_add(1)).read_to_end(&mut out);
    read.map_err(|error| format!("{name}: {error}"))?;
    if out.len() as u64 > most { Err(too_much(name, most)) } else { Ok(out) }
}

/// All frames, one after the other.
fn zstd(bytes: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let text = |code| format!("zstd: {}", zstd_safe::get_error_name(code));
    let (mut rest, mut known) = (bytes, Some(0_u64));
    while !rest.is_empty() {
        let length = zstd_safe::find_frame_compressed_size(rest).map_err(text)?;
        let size = zstd_safe::get_frame_content_size(rest).map_err(|_| "zstd: not a frame")?;
        known = known.zip(size).and_then(|(known, size)| known.checked_add(size));
        if known.is_some_and(|known| known > most) {
            return Err(too_much("zstd", most));
        }
        rest = rest.get(length.max(1)..).unwrap_or_default();
    }
    let Some(known) = known else { return zstd_stream(bytes, most) };
    let mut out = Vec::with_capacity(usize::try_from(known).map_err(|_| too_much("zstd", most))?);
    DCtx::create().decompress(&mut out, bytes).map_err(text)?;
    Ok(out)
}

/// Frames that do not say how long their content is.
fn zstd_stream(bytes: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let mut context = DCtx::create();
    let mut input = InBuffer::around(bytes);
    let mut piece = Vec::with_capacity(DCtx::out_size());
    let mut out = Vec::new();
    loop {
        piece.clear();
        let mut output = OutBuffer::around(&mut piece);
        let left = context
            .decompress_stream(&mut output, &mut input)
            .map_err(|code| format!("zstd: {}", zstd_safe::get_error_name(code)))?;
        let written = output.pos();
        out.extend_from_slice(piece.get(..written).unwrap_or_default());
        if out.len() as u64 > most {
            return Err(too_much("zstd", most));
        }
        if input.pos >= bytes.len() && (left == 0 || written == 0) {
            return if left == 0 { Ok(out) } else { Err("zstd: cut short".to_owned()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn frame(bytes: &[u8], sized: bool) -> Vec<u8> {
        let mut context = zstd_safe::CCtx::create();
        context.set_parameter(zstd_safe::CParameter::ContentSizeFlag(sized)).unwrap();
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
        context.compress2(&mut out, bytes).unwrap();
        out
    }

    #[test]
    fn what_is_as_large_as_it_may_be_comes_back() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 7) as u8).collect();
        let most = bytes.len() as u64;
        assert_eq!(inflate("gzip", &gzip(&bytes), most), Ok(Some(bytes.clone())));
        for sized in [true, false] {
            let mut frames = frame(&bytes[..60_000], sized);
            frames.extend(frame(&bytes[60_000..], true));
            assert_eq!(inflate("zstd", &frames, most), Ok(Some(bytes.clone())), "{sized}");
            assert!(inflate("zstd", &frames[..frames.len() - 3], most).is_err());
        }
    }

    #[test]
    fn bombs_are_refused() {
        let bytes = vec![0; 10 << 20];
        for (name, bomb) in
            [("gzip", gzip(&bytes)), ("zstd", frame(&bytes, true)), ("zstd", frame(&bytes, false))]
        {
            let error = inflate(name, &bomb, 1 << 20).unwrap_err();
            assert!(error.contains("more than"), "{error}");
        }
        assert!(inflate("blosc", &[2, 1, 0, 1, 0, 0, 0, 0x7f, 0, 0, 0, 0, 16, 0, 0, 0], 1 << 20).is_err());
        assert!(inflate("blosc", &[2, 1], 1 << 20).is_err());
        assert!(inflate("pcodec", &[], 1 << 20).is_err());
    }
}
