//! From options to what the threads need, with every option checked.

use std::sync::Arc;

use celltile::Dataset;

use crate::batch::{Element, Memory, bytes};
use crate::error::{Error, Result};
use crate::obs::Columns;
use crate::options::{Buffer, LoaderOptions, Seat, Shuffle, Transform, Uneven, Weighting};
use crate::order::{Order, Selection, hash};
use crate::prefetch::{GeneMap, Setup};
use crate::state::Segment;
use crate::stats::Counters;

/// Cells that stay together in an order without shuffling, where a buffer may end.
const STRIDE: usize = 64;

/// Most draws of an epoch.
const MOST_DRAWS: u64 = 1 << 48;

/// Most ranks times workers.
const MOST_LANES: u64 = 1 << 24;

pub(super) struct Prepared<C: Element> {
    pub(super) setup: Setup<C>,
    pub(super) segment: Segment,
    pub(super) id: String,
}

pub(super) fn prepare<C: Element>(dataset: Arc<Dataset>, options: &LoaderOptions) -> Result<Prepared<C>> {
    check_seat(options.seat)?;
    let most = u64::from(u32::MAX);
    if !(1..=most).contains(&options.batch_size) {
        return Err(Error::option("batch_size", options.batch_size, format!("1 to {most}")));
    }
    if options.group == 0 {
        return Err(Error::option("group", 0, "at least 1"));
    }
    if options.transform != Transform::Counts && !C::IS_FLOAT {
        return Err(Error::option("transform", "log1p_cp10k of int32", "float32"));
    }
    let cells = options.cells.as_ref().map(|cells| sorted_cells(cells, dataset.n_cells())).transpose()?;
    let mean = mean_bytes::<C>(&dataset);
    let buffer = match options.buffer {
        Buffer::Cells(cells) => cells,
        Buffer::Bytes(bytes) => bytes / mean,
    };
    let buffer = buffer.clamp(options.batch_size, most);
    let buffer_bytes = buffer.saturating_mul(mean);
    let memory = options.memory.unwrap_or_else(|| buffer_bytes.saturating_mul(3));
    if memory < buffer_bytes.min(dataset.n_cells().saturating_mul(mean)) {
        let expected = format!("at least {buffer_bytes}, a buffer of {buffer} cells");
        return Err(Error::option("memory", memory, expected));
    }
    let genes = options.genes.as_ref().map(|genes| GeneMap::new(genes, dataset.n_genes())).transpose()?;
    let columns = Columns::open(&dataset, &options.columns, options.cache.as_ref())?;
    let selection = select(&dataset, options, cells)?;
    if let Some(weighting) = &options.weighting {
        check_weights(weighting, &selection, dataset.n_cells())?;
    }
    let id = identify(&dataset, options, &selection);
    let rules = (options.seed, options.uneven, options.drop_last);
    let order = Order::new(selection, options.shuffle, options.weighting.clone(), rules);
    // Batches in the queue, one being filled and two with the caller.
    let resting = memory / options.batch_size.saturating_mul(mean).max(1) + 3;
    let setup = Setup {
        columns,
        order,
        genes,
        totals: options.totals,
        transform: options.transform,
        round_counts: options.round_counts || options.transform != Transform::Counts,
        on_damage: options.on_damage,
        memory,
        threads: options.threads.max(1),
        counters: Counters::default(),
        resting: Arc::new(Memory::new(usize::try_from(resting.min(256)).unwrap_or(256))),
        dataset,
    };
    let Seat { world, workers, .. } = options.seat;
    let segment = Segment { world, workers, batch_size: options.batch_size, buffer, steps: 0 };
    Ok(Prepared { setup, segment, id })
}

fn check_seat(seat: Seat) -> Result<()> {
    let lanes = seat.world.saturating_mul(seat.workers);
    if !(1..=MOST_LANES).contains(&lanes) {
        let found = format!("{} ranks of {} workers", seat.world, seat.workers);
        return Err(Error::option("world_size", found, format!("1 to {MOST_LANES} in all")));
    }
    if seat.rank >= seat.world {
        return Err(Error::option("rank", seat.rank, format!("less than world_size, {}", seat.world)));
    }
    if seat.worker >= seat.workers {
        return Err(Error::option("worker", seat.worker, format!("less than {}", seat.workers)));
    }
    Ok(())
}

/// Bytes of a decoded cell, on average.
fn mean_bytes<C>(dataset: &Dataset) -> u64 {
    let nnz = dataset.manifest().tile_nnz.iter().fold(0_u64, |sum, &nnz| sum.saturating_add(nnz));
    bytes::<C>(nnz.div_ceil(dataset.n_cells().max(1)), 1).max(1)
}

fn sorted_cells(cells: &[u64], n_cells: u64) -> Result<Arc<[u64]>> {
    let mut sorted = cells.to_vec();
    sorted.sort_unstable();
    if let Some(&last) = sorted.last().filter(|&&last| last >= n_cells) {
        return Err(Error::option("cells", last, format!("cells below {n_cells}")));
    }
    let repeated = sorted.iter().zip(sorted.iter().skip(1)).find(|(a, b)| a == b);
    if let Some((cell, _)) = repeated {
        let expected = "each cell once (weights draw cells more often)";
        return Err(Error::option("cells", format!("cell {cell} more than once"), expected));
    }
    Ok(sorted.into())
}

/// The cells of an epoch, and where they may be cut.
fn select(dataset: &Dataset, options: &LoaderOptions, cells: Option<Arc<[u64]>>) -> Result<Selection> {
    let n_cells = dataset.n_cells();
    let tile_size = dataset.manifest().tile_size.max(1);
    let ends = || (1..=dataset.n_tiles()).map(|tile| tile.saturating_mul(tile_size).min(n_cells));
    if options.weighting.is_some() || options.shuffle == Shuffle::Cells {
        return Ok(Selection::new(n_cells, cells, std::iter::empty()));
    }
    Ok(match options.shuffle {
        Shuffle::Tiles => Selection::new(n_cells, cells, ends()),
        Shuffle::None => Selection::new(n_cells, cells, (0..n_cells).step_by(STRIDE)),
        Shuffle::Chunks | Shuffle::Cells => {
            let mut tiles: Vec<u64> = match &cells {
                None => (0..dataset.n_tiles()).collect(),
                Some(cells) => cells.iter().map(|cell| cell / tile_size).collect(),
            };
            tiles.dedup();
            let group = usize::try_from(options.group).unwrap_or(usize::MAX);
            let mut cuts = Vec::new();
            // Some tables at a time: one is larger than what is kept of it.
            for some in tiles.chunks(1024) {
                for (tile, bounds) in some.iter().zip(dataset.chunk_bounds(some)) {
                    let start = tile.saturating_mul(tile_size);
                    let bounds = match bounds {
                        Ok(bounds) => bounds,
                        // Without its table a tile is one group, whose cells are counted when they are missed.
                        Err(error) if options.on_damage.skips(&error) => {
                            vec![0, tile_size.min(n_cells.saturating_sub(start))]
                        }
                        Err(error) => return Err(error.into()),
                    };
                    cuts.extend(bounds.iter().step_by(group).map(|bound| start.saturating_add(*bound)));
                    cuts.extend(bounds.last().map(|bound| start.saturating_add(*bound)));
                }
            }
            Selection::new(n_cells, cells, cuts.into_iter())
        }
    })
}

fn check_weights(weighting: &Weighting, selection: &Selection, n_cells: u64) -> Result<()> {
    let weights = &weighting.weights;
    if weights.len() as u64 != n_cells {
        let expected = format!("{n_cells}, one a cell of the dataset");
        return Err(Error::option("weights", format!("{} weights", weights.len()), expected));
    }
    if let Some(at) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        let found = weights.get(at).map_or_else(String::new, f64::to_string);
        return Err(Error::option(
            "weights",
            format!("{found} for cell {at}"),
            "finite weights of at least 0",
        ));
    }
    let weight =
        |slot| usize::try_from(selection.cell(slot)).ok().and_then(|cell| weights.get(cell)).copied();
    let own = (0..selection.len()).filter_map(weight);
    let (sum, positive) = own.fold((0.0, 0_u64), |(sum, n), w| (sum + w, n + u64::from(w > 0.0)));
    if selection.len() > 0 && positive == 0 {
        return Err(Error::option("weights", "0 for every selected cell", "a weight above 0"));
    }
    if !f64::is_finite(sum) {
        return Err(Error::option("weights", "weights whose sum is infinite", "smaller weights"));
    }
    match weighting.draws {
        Some(draws) if draws > MOST_DRAWS => {
            Err(Error::option("draws", draws, format!("at most {MOST_DRAWS}")))
        }
        Some(draws) if !weighting.replacement && draws > positive => {
            let expected = format!("at most {positive}, the selected cells with a weight above 0");
            Err(Error::option("draws", draws, expected))
        }
        // Draws from no cells at all.
        Some(draws) if draws > 0 && selection.len() == 0 => Err(Error::option("draws", draws, "0")),
        _ => Ok(()),
    }
}

/// What decides the order, as a few digits.
fn identify(dataset: &Dataset, options: &LoaderOptions, selection: &Selection) -> String {
    let manifest = dataset.manifest();
    let mut key = vec![
        manifest.n_cells,
        manifest.n_genes,
        manifest.tile_size,
        hash(&manifest.tile_nnz),
        hash(&manifest.tile_bytes),
        options.seed,
        match options.shuffle {
            _ if options.weighting.is_some() => 4,
            Shuffle::None => 0,
            Shuffle::Tiles => 1,
            Shuffle::Chunks => 2,
            Shuffle::Cells => 3,
        },
        options.group,
        u64::from(options.uneven == Uneven::Pad),
        u64::from(options.drop_last),
    ];
    if options.cells.is_some() {
        key.push(hash(&(0..selection.len()).map(|slot| selection.cell(slot)).collect::<Vec<_>>()));
    }
    if let Some(weighting) = &options.weighting {
        key.push(hash(&weighting.weights.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>()));
        key.push(u64::from(weighting.replacement));
        key.push(weighting.draws.map_or(u64::MAX, |draws| draws));
    }
    let first = hash(&key);
    key.push(first);
    format!("{first:016x}{:016x}", hash(&key))
}
