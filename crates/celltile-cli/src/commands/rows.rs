//! `celltile rows`: some cells, for people and for other tools.

mod genes;

use std::io::{self, BufWriter, Write};
use std::ops::Range;

use celltile::{Csr, Dataset};

use self::genes::Chosen;
use crate::args::dataset::{KeepTiles, Source};
use crate::args::{Cells, Threads};
use crate::failure::Failure;
use crate::ui::{self, Table};

/// Print some cells
///
/// A table has a line a cell with its most expressed genes. csv has a line a nonzero: cell, gene_index, gene, count.
/// mtx is a MatrixMarket file with a row a cell and a column a gene. Cells count from 0; in mtx from 1, as that format has it. Genes
/// stand in the dataset's order, or in that of --genes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// The cells: FIRST:END (END not among them), FIRST:, :END, or one number.
    #[arg(value_name = "CELLS")]
    cells: Cells,
    /// Names of the genes to print, with commas between, in this order; all if not given.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    genes: Option<Vec<String>>,
    /// The form.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    keep: KeepTiles,
    #[command(flatten)]
    threads: Threads,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Format {
    /// A line a cell.
    #[default]
    Table,
    /// MatrixMarket, cells x genes.
    Mtx,
    /// A line a nonzero.
    Csv,
}

/// Cells decoded at a time.
const BATCH: u64 = 4096;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let dataset = args.source.open_kept(args.threads.get(), &args.keep)?;
    let cells = args.cells.range(dataset.n_cells());
    // Checked here, before a header is printed.
    dataset.rows(cells.start..cells.start)?;
    if cells.end > dataset.n_cells() {
        return Err(celltile::Error::OutOfRange {
            what: "cell",
            index: cells.end - 1,
            len: dataset.n_cells(),
        }
        .into());
    }
    if args.keep.is_on() && dataset.storage().is_remote() {
        keep(&dataset, &cells)?;
    }
    let names = Names(dataset.gene_names()?);
    let chosen = match &args.genes {
        Some(genes) => Some(Chosen::new(&dataset, names.0.as_deref(), genes)?),
        None => None,
    };
    let some = Selection { dataset: &dataset, cells, names: &names, genes: chosen.as_ref() };
    let mut out = BufWriter::new(io::stdout().lock());
    match args.format {
        Format::Table => some.table(&mut out)?,
        Format::Mtx => some.mtx(&mut out)?,
        Format::Csv => some.csv(&mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// The genes' names, or their numbers where the dataset has none.
struct Names(Option<Vec<String>>);

impl Names {
    fn get(&self, gene: i32) -> String {
        let name = self.0.as_ref().and_then(|names| names.get(usize::try_from(gene).ok()?));
        name.cloned().unwrap_or_else(|| gene.to_string())
    }
}

/// Fetches the cells' tiles whole, so that they are kept.
fn keep(dataset: &Dataset, cells: &Range<u64>) -> Result<(), Failure> {
    let mut cell = cells.start;
    while cell < cells.end {
        let (tile, _) = dataset.locate(cell)?;
        dataset.tile_bytes(tile)?;
        cell = dataset.tile_cells(tile)?.end;
    }
    Ok(())
}

/// What is printed.
struct Selection<'a> {
    dataset: &'a Dataset,
    cells: Range<u64>,
    names: &'a Names,
    /// All genes if `None`.
    genes: Option<&'a Chosen>,
}

/// Genes of a cell that the table names.
const SHOWN: usize = 5;

impl Selection<'_> {
    /// Hands over the cells in order, in batches. Genes are places among those chosen, and ascend.
    fn batches(&self, mut take: impl FnMut(u64, &Csr) -> Result<(), Failure>) -> Result<(), Failure> {
        let read = celltile::ReadOptions::default();
        let read = self.genes.map_or(read, |genes| read.gene_map(genes.map()));
        let mut rows = Csr::new();
        let mut start = self.cells.start;
        while start < self.cells.end {
            let end = self.cells.end.min(start.saturating_add(BATCH));
            self.dataset.rows_into(start..end, &read, &mut rows)?;
            if self.genes.is_some() {
                genes::sort(&mut rows);
            }
            take(start, &rows)?;
            start = end;
        }
        Ok(())
    }

    /// The dataset's gene at a place.
    fn gene(&self, place: i32) -> i32 {
        self.genes.map_or(place, |genes| genes.gene(place))
    }

    fn name(&self, place: i32) -> String {
        self.names.get(self.gene(place))
    }

    fn table(&self, out: &mut impl Write) -> Result<(), Failure> {
        let mut first_batch = true;
        self.batches(|first, rows| {
            let mut table = Table::new(0..3);
            if std::mem::take(&mut first_batch) {
                table.row(["cell", "nonzeros", "total", "most expressed"]);
            }
            for (cell, (genes, counts)) in (first..).zip(rows.view()?.iter()) {
                let total: i64 = counts.iter().map(|&count| i64::from(count)).sum();
                let mut order: Vec<(i32, i32)> = counts.iter().copied().zip(genes.iter().copied()).collect();
                let shown = if self.genes.is_some() {
                    // Those asked for, in the order asked for.
                    order.len()
                } else {
                    order.sort_unstable_by_key(|&(count, gene)| (std::cmp::Reverse(count), gene));
                    SHOWN
                };
                let named =
                    order.iter().take(shown).map(|&(count, gene)| format!("{} {count}", self.name(gene)));
                let named = named.collect::<Vec<_>>().join(", ");
                table.row([
                    cell.to_string(),
                    ui::count(genes.len() as u64),
                    ui::count(total.unsigned_abs()),
                    named,
                ]);
            }
            table.write(out)?;
            Ok(())
        })
    }

    fn mtx(&self, out: &mut impl Write) -> Result<(), Failure> {
        // The number of nonzeros comes first, and is not worth the memory of all cells.
        let mut nonzeros = 0_u64;
        self.batches(|_, rows| {
            nonzeros += rows.nnz() as u64;
            Ok(())
        })?;
        let (start, end) = (self.cells.start, self.cells.end);
        let (genes, order) = match self.genes {
            None => (self.dataset.n_genes(), "in the dataset's order".to_owned()),
            Some(chosen) => {
                let names: Vec<String> = (0..).take(chosen.len()).map(|place| self.name(place)).collect();
                let names = names.join(" ").replace(['\n', '\r'], " ");
                (chosen.len() as u64, format!("as asked for: {names}"))
            }
        };
        writeln!(out, "%%MatrixMarket matrix coordinate integer general")?;
        writeln!(out, "%cells {start} to {end}, genes {order}")?;
        writeln!(out, "{} {genes} {nonzeros}", end - start)?;
        self.batches(|first, rows| {
            for (row, (genes, counts)) in (first - start + 1..).zip(rows.view()?.iter()) {
                for (gene, count) in genes.iter().zip(counts) {
                    writeln!(out, "{row} {} {count}", i64::from(*gene) + 1)?;
                }
            }
            Ok(())
        })
    }

    fn csv(&self, out: &mut impl Write) -> Result<(), Failure> {
        writeln!(out, "cell,gene_index,gene,count")?;
        self.batches(|first, rows| {
            for (cell, (genes, counts)) in (first..).zip(rows.view()?.iter()) {
                for (&gene, count) in genes.iter().zip(counts) {
                    writeln!(out, "{cell},{},{},{count}", self.gene(gene), quoted(self.name(gene)))?;
                }
            }
            Ok(())
        })
    }
}

/// As RFC 4180 has it.
fn quoted(text: String) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
