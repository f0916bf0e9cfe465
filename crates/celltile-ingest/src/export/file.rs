//! An h5ad file on its way: the parts that every one has.

use std::path::Path;

use celltile::Csr;
use celltile::table::Table;
use rayon::prelude::*;

use super::frame::write_frame;
use crate::error::Result;
use crate::hdf5::{ArrayStream, Attr, CHUNK_LEN, Element, Packer, Writer};

/// An h5ad file with counts, obs and var. It appears when it is finished; dropped before that, it leaves nothing.
pub(crate) struct H5adFile {
    writer: Writer,
}

impl H5adFile {
    pub(crate) fn create(target: &Path, level: Option<u32>) -> Result<Self> {
        let writer = Writer::create(target, level)?;
        writer.group(
            "/",
            &[("encoding-type", Attr::Text("anndata")), ("encoding-version", Attr::Text("0.1.0"))],
        )?;
        Ok(Self { writer })
    }

    /// Starts `X`, of counts that are stored as `element`.
    pub(crate) fn x(&self, cells: u64, genes: u64, element: Element) -> Result<CsrWriter<'_>> {
        let shape = [cells.cast_signed(), genes.cast_signed()];
        self.writer.group(
            "/X",
            &[
                ("encoding-type", Attr::Text("csr_matrix")),
                ("encoding-version", Attr::Text("0.1.0")),
                ("shape", Attr::Integers(&shape)),
            ],
        )?;
        Ok(CsrWriter {
            writer: &self.writer,
            genes: ArrayWriter::new(&self.writer, "/X/indices", Element::Int32)?,
            counts: ArrayWriter::new(&self.writer, "/X/data", element)?,
            indptr: vec![0],
        })
    }

    /// Writes the frames, and the groups that anndata expects even where they are empty. Returns the bytes of the file.
    pub(crate) fn finish(self, obs: &Table, var: &Table) -> Result<u64> {
        write_frame(&self.writer, "/obs", obs)?;
        write_frame(&self.writer, "/var", var)?;
        for group in ["layers", "obsm", "obsp", "uns", "varm", "varp"] {
            let attrs = [("encoding-type", Attr::Text("dict")), ("encoding-version", Attr::Text("0.1.0"))];
            self.writer.group(&format!("/{group}"), &attrs)?;
        }
        self.writer.finish()
    }
}

/// `X` on its way into a file, cell by cell.
pub(crate) struct CsrWriter<'w> {
    writer: &'w Writer,
    genes: ArrayWriter<'w>,
    counts: ArrayWriter<'w>,
    indptr: Vec<i64>,
}

impl CsrWriter<'_> {
    /// Appends cells.
    pub(crate) fn push(&mut self, cells: &Csr) -> Result<()> {
        let base = self.indptr.last().copied().unwrap_or_default();
        self.indptr.extend(cells.indptr.iter().skip(1).map(|offset| base.saturating_add(*offset)));
        self.genes.push(&cells.genes)?;
        self.counts.push(&cells.counts)
    }

    /// Writes what is left, and returns the number of nonzeros.
    pub(crate) fn finish(self) -> Result<u64> {
        self.genes.finish()?;
        self.counts.finish()?;
        let nonzeros = self.indptr.last().copied().unwrap_or_default().unsigned_abs();
        // Of the type of the indices where it fits: SciPy works on matrices whose two types agree.
        let narrow: Result<Vec<i32>, _> = self.indptr.iter().map(|&offset| i32::try_from(offset)).collect();
        let mut indptr = Vec::new();
        if let Ok(narrow) = narrow {
            Element::Int32.extend(&mut indptr, &narrow);
            self.writer.array("/X/indptr", Element::Int32, &indptr, &[])?;
        } else {
            indptr.extend(self.indptr.iter().flat_map(|offset| offset.to_le_bytes()));
            self.writer.array("/X/indptr", Element::Int64, &indptr, &[])?;
        }
        Ok(nonzeros)
    }
}

/// Integers on their way into an array of any type, packed into chunks on all cores.
struct ArrayWriter<'w> {
    stream: ArrayStream<'w>,
    element: Element,
    level: Option<u32>,
    pending: Vec<u8>,
}

impl<'w> ArrayWriter<'w> {
    fn new(writer: &'w Writer, path: &str, element: Element) -> Result<Self> {
        let stream = writer.stream(path, element, &[])?;
        Ok(Self { stream, element, level: writer.level(), pending: Vec::new() })
    }

    fn push(&mut self, values: &[i32]) -> Result<()> {
        self.element.extend(&mut self.pending, values);
        let full = self.pending.len() / self.chunk_bytes() * self.chunk_bytes();
        self.flush(full)
    }

    fn finish(mut self) -> Result<()> {
        self.flush(self.pending.len())?;
        self.stream.finish()
    }

    const fn chunk_bytes(&self) -> usize {
        CHUNK_LEN * self.element.size()
    }

    fn flush(&mut self, len: usize) -> Result<()> {
        let (size, level) = (self.chunk_bytes(), self.level);
        let chunks = self.pending.get(..len).unwrap_or_default().par_chunks(size);
        let packed: Vec<(Vec<u8>, usize)> = chunks
            .map_init(|| Packer::new(level), |packer, chunk| (packer.pack(chunk, size).to_vec(), chunk.len()))
            .collect();
        for (packed, bytes) in packed {
            self.stream.push(&packed, bytes / self.element.size())?;
        }
        self.pending.drain(..len);
        Ok(())
    }
}
