use crate::error::Error;
use crate::hdf5::StringColumn;
use crate::matrix::{CellBlock, CellBlocks};

/// Adds the names of cell and gene to an error that has their positions.
pub(crate) fn name_error(
    mut error: Error,
    cell_name: &dyn Fn(u64) -> Option<String>,
    genes: &StringColumn,
) -> Error {
    let gene_name =
        |gene: u64| usize::try_from(gene).ok().and_then(|gene| genes.get(gene)).map(str::to_owned);
    match &mut error {
        Error::Value(error) => {
            error.cell_name = cell_name(error.cell);
            error.gene_name = gene_name(error.gene);
        }
        Error::Repeated(error) => {
            error.cell_name = cell_name(error.cell);
            error.gene_name = gene_name(error.gene);
        }
        _ => {}
    }
    error
}

/// Blocks whose errors get names, and whose genes are those of a selection.
pub(super) struct NamedBlocks<'a> {
    pub(super) inner: Box<dyn CellBlocks>,
    pub(super) cell_name: Box<dyn Fn(u64) -> Option<String> + Send + 'a>,
    /// Names of all genes that are stored.
    pub(super) genes: &'a StringColumn,
    /// For each stored gene its place among those kept; none for one that is dropped. `None` keeps all.
    pub(super) map: Option<&'a [Option<u32>]>,
}

impl CellBlocks for NamedBlocks<'_> {
    fn next_block(&mut self, block: &mut CellBlock) -> crate::error::Result<bool> {
        let more = self.inner.next_block(block);
        let more = more.map_err(|error| name_error(error, &self.cell_name, self.genes))?;
        if let Some(map) = self.map.filter(|_| more) {
            select(block, map);
        }
        Ok(more)
    }
}

/// Keeps the entries of the genes that `map` has a place for.
fn select(block: &mut CellBlock, map: &[Option<u32>]) {
    let mut kept = 0;
    let mut start = 0;
    let ends = block.indptr.iter_mut().skip(1);
    let (genes, counts) = (&mut block.genes, &mut block.counts);
    for end in ends {
        for at in start..*end {
            let gene = genes.get(at).and_then(|&gene| *map.get(gene as usize)?);
            let count = counts.get(at).copied();
            if let (Some(gene), Some(count)) = (gene, count)
                && let (Some(to_gene), Some(to_count)) = (genes.get_mut(kept), counts.get_mut(kept))
            {
                *to_gene = gene;
                *to_count = count;
                kept += 1;
            }
        }
        start = *end;
        *end = kept;
    }
    genes.truncate(kept);
    counts.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_renumbers_and_drops() {
        let mut block = CellBlock {
            first_cell: 3,
            indptr: vec![0, 2, 2, 5],
            genes: vec![0, 2, 1, 2, 3],
            counts: vec![5, 6, 7, 8, 9],
        };
        select(&mut block, &[None, Some(0), Some(1), None]);
        assert_eq!(block.indptr, [0, 1, 1, 3]);
        assert_eq!(block.genes, [1, 0, 1]);
        assert_eq!(block.counts, [6, 7, 8]);
    }
}
