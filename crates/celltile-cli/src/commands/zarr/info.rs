//! `celltile zarr info`: the nodes of a store.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use celltile_zarr::GridForm;
use celltile_zarr::inspect::{ArrayInfo, NodeInfo, inspect};

use crate::failure::Failure;
use crate::ui::{self, Table};

/// Tell what a store holds: its groups, and shape, type, grid, codecs and size of its arrays
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store: a folder or URL.
    store: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let nodes = inspect(&super::open(&args.store)?)?;
    if nodes.is_empty() {
        return Err(Failure::Bad(format!("{}: no Zarr store there", args.store.display()).into()));
    }
    let mut table = Table::new(0..0);
    for node in &nodes {
        match node {
            NodeInfo::Group { path, encoding } => {
                table.row([path.clone(), format!("group {}", encoding.as_deref().unwrap_or_default())]);
            }
            NodeInfo::Array(array) => table.row(row(array)),
            NodeInfo::Broken { path, reason } => table.row([path.clone(), format!("not readable: {reason}")]),
            _ => {}
        }
    }
    let mut out = BufWriter::new(io::stdout().lock());
    table.write(&mut out)?;
    out.flush()?;
    Ok(())
}

fn row(array: &ArrayInfo) -> Vec<String> {
    let axes: Vec<String> = array
        .axes
        .iter()
        .map(|axis| {
            let edges = match (axis.smallest, axis.largest) {
                (smallest, largest) if smallest == largest => ui::count(largest),
                (smallest, largest) => format!("{} to {}", ui::count(smallest), ui::count(largest)),
            };
            format!("{} of {edges}", ui::count(axis.active))
        })
        .collect();
    let form = match (array.v2, array.form) {
        (true, _) => "format 2",
        (false, GridForm::Regular) => "regular",
        (false, GridForm::Rectilinear) => "rectilinear",
    };
    let by = |numbers: &[u64]| numbers.iter().map(|&n| ui::count(n)).collect::<Vec<_>>().join(" x ");
    let inner = array.inner.as_deref().map_or_else(String::new, |inner| format!(", inner {}", by(inner)));
    vec![
        array.path.clone(),
        format!("{} {}", array.data_type, by(&array.shape)),
        format!("{form}: {}{inner}", axes.join(" x ")),
        array.codecs.join(", "),
        format!("{} chunks stored, {}", ui::count(array.stored), ui::bytes(array.stored_bytes)),
    ]
}
