use super::Fault;

/// Undoes LZF into at most `bytes` bytes.
pub(super) fn undo(data: &[u8], bytes: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    out.clear();
    out.reserve(bytes.min(data.len().saturating_mul(264)));
    let mut rest = data;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        if control < 32 {
            let (literal, after) = rest
                .split_at_checked(usize::from(control) + 1)
                .ok_or_else(|| Fault::damaged("LZF data end inside a literal"))?;
            rest = after;
            if out.len() + literal.len() > bytes {
                return Err(too_long(bytes));
            }
            out.extend_from_slice(literal);
            continue;
        }
        let mut next = || {
            let (&byte, after) =
                rest.split_first().ok_or_else(|| Fault::damaged("LZF data end inside a match"))?;
            rest = after;
            Ok(usize::from(byte))
        };
        let mut len = usize::from(control >> 5);
        if len == 7 {
            len += next()?;
        }
        let distance = (usize::from(control & 0x1f) << 8) + next()? + 1;
        copy_match(out, distance, len + 2, bytes)?;
    }
    Ok(())
}

/// Appends `len` bytes that start `distance` back, which may overlap themselves.
pub(super) fn copy_match(out: &mut Vec<u8>, distance: usize, len: usize, bytes: usize) -> Result<(), Fault> {
    let start = out.len().checked_sub(distance).filter(|_| distance > 0);
    let start = start.ok_or_else(|| Fault::damaged("a match before the first byte"))?;
    if out.len() + len > bytes {
        return Err(too_long(bytes));
    }
    if distance >= len {
        out.extend_from_within(start..start + len);
    } else {
        for at in start..start + len {
            let byte = out.get(at).copied().unwrap_or(0);
            out.push(byte);
        }
    }
    Ok(())
}

fn too_long(bytes: usize) -> Fault {
    Fault::damaged(format!("inflates to more than {bytes} bytes"))
}
