use crate::error::{Error, Result};
use crate::matrix::{CellBlock, CellBlocks, ReadOptions};

/// Matrices of the same cells side by side: the genes of each follow those of the one before.
pub(super) struct JoinedBlocks {
    parts: Vec<Part>,
    options: ReadOptions,
}

struct Part {
    /// Genes of the parts before.
    offset: u64,
    blocks: Box<dyn CellBlocks>,
    block: CellBlock,
    /// Cells of the block that were handed out.
    done: usize,
    ended: bool,
}

impl JoinedBlocks {
    /// Joins matrices, each with its number of genes.
    pub(super) fn new(parts: Vec<(u64, Box<dyn CellBlocks>)>, options: ReadOptions) -> Self {
        let mut offset = 0;
        let parts = parts.into_iter().map(|(genes, blocks)| {
            let part = Part { offset, blocks, block: CellBlock::default(), done: 0, ended: false };
            offset += genes;
            part
        });
        Self { parts: parts.collect(), options }
    }
}

impl CellBlocks for JoinedBlocks {
    fn next_block(&mut self, block: &mut CellBlock) -> Result<bool> {
        self.options.check_cancelled()?;
        for part in &mut self.parts {
            if !part.ended && part.done >= part.block.cells() {
                part.ended = !part.blocks.next_block(&mut part.block)?;
                part.done = 0;
                if part.ended {
                    part.block = CellBlock::default();
                }
            }
        }
        let cells = self.parts.iter().map(|part| part.block.cells() - part.done).min().unwrap_or(0);
        if cells == 0 {
            if self.parts.iter().all(|part| part.ended) {
                return Ok(false);
            }
            return Err(Error::Options("matrices that are joined have other numbers of cells".into()));
        }
        let first = self.parts.first();
        block.first_cell = first.map_or(0, |part| part.block.first_cell + part.done as u64);
        block.indptr.clear();
        block.indptr.push(0);
        block.genes.clear();
        block.counts.clear();
        for at in 0..cells {
            for part in &self.parts {
                let Some((genes, counts)) = part.block.cell(part.done + at) else { continue };
                let offset = u32::try_from(part.offset).unwrap_or(u32::MAX);
                block.genes.extend(genes.iter().map(|gene| gene.saturating_add(offset)));
                block.counts.extend_from_slice(counts);
            }
            block.indptr.push(block.genes.len());
        }
        for part in &mut self.parts {
            part.done += cells;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<CellBlock>);

    impl CellBlocks for Fixed {
        fn next_block(&mut self, block: &mut CellBlock) -> Result<bool> {
            if self.0.is_empty() {
                return Ok(false);
            }
            *block = self.0.remove(0);
            Ok(true)
        }
    }

    #[test]
    fn test_joined_blocks_of_other_lengths() {
        let block = |first_cell: u64, cells: &[&[u32]]| {
            let mut block = CellBlock { first_cell, indptr: vec![0], ..CellBlock::default() };
            for genes in cells {
                block.genes.extend_from_slice(genes);
                block.counts.extend(genes.iter().map(|gene| gene + 1));
                block.indptr.push(block.genes.len());
            }
            block
        };
        let left = Fixed(vec![block(0, &[&[0], &[1, 2]]), block(2, &[&[]])]);
        let right = Fixed(vec![block(0, &[&[4]]), block(1, &[&[], &[3]])]);
        let parts: Vec<(u64, Box<dyn CellBlocks>)> = vec![(10, Box::new(left)), (5, Box::new(right))];
        let mut joined = JoinedBlocks::new(parts, ReadOptions::default());
        let (mut found, mut out) = (Vec::new(), CellBlock::default());
        while joined.next_block(&mut out).unwrap() {
            assert_eq!(out.first_cell, found.len() as u64);
            found.extend((0..out.cells()).map(|at| out.cell(at).unwrap().0.to_vec()));
        }
        assert_eq!(found, [vec![0, 14], vec![1, 2], vec![13]]);
    }
}
