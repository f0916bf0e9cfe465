use std::path::Path;

use super::{H5adSource, Source, SourceOptions, TenxSource};
use crate::error::{Error, Result};
use crate::hdf5::{File, NodeKind, OpenOptions};

/// Datasets at the root of CellRanger's `molecule_info.h5`.
const MOLECULE_INFO: [&str; 3] = ["barcode_idx", "count", "umi"];

/// What a file must hold to be read.
const EXPECTED: &str = "an h5ad file (X, obs, var) or a 10x feature-barcode matrix";

pub(super) fn open(path: &Path, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let file = File::open(path, OpenOptions { lock: !options.ignore_lock })?;
    let members = file.root()?.members()?;
    let has = |name: &str| members.iter().any(|(member, _)| member == name);
    if MOLECULE_INFO.iter().filter(|name| has(name)).count() >= 2 {
        return Err(Error::NotRecognised {
            file: file.name().to_owned(),
            found: "a molecule_info.h5 of CellRanger, which lists molecules".into(),
            expected: "the matrix beside it, filtered_feature_bc_matrix.h5 (or raw_feature_bc_matrix.h5)"
                .into(),
        });
    }
    if has("matrix") && TenxSource::is_v3(&file)? {
        return Ok(Box::new(TenxSource::open_v3(&file, options)?));
    }
    let genomes = TenxSource::genomes(&file)?;
    if !genomes.is_empty() {
        return Ok(Box::new(TenxSource::open_v2(&file, &genomes, options)?));
    }
    if has("obs") || has("var") || has("X") {
        return Ok(Box::new(H5adSource::open(&file, options)?));
    }
    let groups = members.iter().filter(|(_, kind)| *kind == NodeKind::Group).map(|(name, _)| name.as_str());
    let groups = groups.collect::<Vec<_>>();
    let found = if has("mod") && has("obs") {
        "an h5mu file".to_owned()
    } else {
        format!("an HDF5 file of another kind (groups: {})", groups.join(", "))
    };
    Err(Error::NotRecognised { file: file.name().to_owned(), found, expected: EXPECTED.into() })
}
