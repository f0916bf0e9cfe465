use std::ops::Range;

use celltile::table::{Index, Table};
use serde_json::json;

use super::features::{Features, text};
use super::joined::JoinedBlocks;
use super::names::{NamedBlocks, name_error};
use super::{MatrixChoice, NotCarried, Source, SourceInfo, SourceOptions};
use crate::error::{Error, Result};
use crate::frame::ColumnChoice;
use crate::hdf5::{File, NodeKind, StringColumn};
use crate::matrix::{CellBlocks, Matrix, Orientation, ReadOptions, Shape, SparseMatrix};
use crate::tree::{Array, Group, Node};

/// A 10x feature-barcode matrix: version 3 (a group `matrix`) or 2 (a group a genome).
#[derive(Debug)]
pub struct TenxSource {
    info: SourceInfo,
    /// Of the same cells; the genes of one follow those of the other.
    matrices: Vec<Matrix>,
    barcodes: Array,
    features: Features,
    obs_choice: ColumnChoice,
    var_choice: ColumnChoice,
    not_carried: Vec<NotCarried>,
}

impl TenxSource {
    /// Whether the group `matrix` is a version 3 matrix.
    pub(super) fn is_v3(file: &File) -> Result<bool> {
        let Some(Node::Group(matrix)) = Group::of_file(file)?.child("matrix")? else { return Ok(false) };
        let members = matrix.members()?;
        let has = |name: &str| members.iter().any(|(member, _)| member == name);
        Ok(has("barcodes") && has("indptr") && has("features"))
    }

    /// Groups that are version 2 matrices, by the name of their genome.
    pub(super) fn genomes(file: &File) -> Result<Vec<String>> {
        let root = Group::of_file(file)?;
        let mut genomes = Vec::new();
        for (name, kind) in root.members()? {
            if kind == NodeKind::Group
                && let Some(Node::Group(group)) = root.child(&name)?
            {
                let members = group.members()?;
                let has = |name: &str| members.iter().any(|(member, _)| member == name);
                if has("barcodes") && has("indptr") && (has("genes") || has("gene_names")) {
                    genomes.push(name);
                }
            }
        }
        Ok(genomes)
    }

    /// Opens a version 3 file.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::Unsupported`] if no feature is left, and what is wrong with the file.
    pub fn open_v3(file: &File, options: &SourceOptions) -> Result<Self> {
        check_choice(file, &options.matrix)?;
        let group = Group::of_file(file)?.group("matrix")?;
        let node = group.group("features")?;
        let names = node.dataset("name")?.strings()?;
        let mut columns = Vec::new();
        for (column, path) in [("gene_ids", "id"), ("feature_types", "feature_type"), ("genome", "genome")] {
            if let Some(Node::Dataset(dataset)) = node.find(path)? {
                columns.push((column.to_owned(), dataset.strings()?));
            }
        }
        let listed = match node.find("_all_tag_keys")? {
            Some(Node::Dataset(keys)) => keys.strings()?,
            _ => StringColumn::default(),
        };
        for tag in listed.iter() {
            if tag != "genome"
                && let Some(Node::Dataset(dataset)) = node.find(tag)?
            {
                columns.push((tag.to_owned(), dataset.strings()?));
            }
        }
        let features = Features::new(file.name(), node.path(), names, &columns, options)?;
        Self::open(file, &[group], "10x v3", String::new(), features, options)
    }

    /// Opens a version 2 file.
    ///
    /// # Errors
    ///
    /// [`Error::Options`] if there are several genomes and none was chosen, or not the chosen one; otherwise as
    /// [`TenxSource::open_v3`].
    pub fn open_v2(file: &File, genomes: &[String], options: &SourceOptions) -> Result<Self> {
        check_choice(file, &options.matrix)?;
        let list = genomes.join(", ");
        let chosen: Vec<&String> = match (options.genome.as_deref(), genomes) {
            (Some("all"), _) => genomes.iter().collect(),
            (Some(genome), _) => vec![genomes.iter().find(|known| *known == genome).ok_or_else(|| {
                Error::Options(format!("{}: no genome {genome:?}; it has: {list}", file.name()))
            })?],
            (None, [only]) => vec![only],
            (None, _) => {
                let what = format!(
                    "{}: several genomes ({list}): choose one with --genome, or all of them with --genome all",
                    file.name()
                );
                return Err(Error::Options(what));
            }
        };
        let (mut names, mut ids, mut of) =
            (StringColumn::default(), StringColumn::default(), StringColumn::default());
        let (mut all_ids, mut groups) = (true, Vec::new());
        for &genome in &chosen {
            let group = Group::of_file(file)?.group(genome)?;
            let strings = |name: &str| -> Result<Option<StringColumn>> {
                match group.find(name)? {
                    Some(Node::Dataset(dataset)) => Ok(Some(dataset.strings()?)),
                    _ => Ok(None),
                }
            };
            let (own_ids, own_names) = (strings("genes")?, strings("gene_names")?);
            all_ids &= own_ids.is_some() && own_names.is_some();
            let own_names =
                own_names.or_else(|| own_ids.clone()).ok_or_else(|| group.missing("gene_names"))?;
            if let Some(own_ids) = own_ids.filter(|own_ids| own_ids.len() != own_names.len()) {
                return Err(Error::Length {
                    file: file.name().to_owned(),
                    at: format!("{}/genes", group.path()),
                    found: format!("{} entries", own_ids.len()),
                    expected: format!("there are {} gene_names", own_names.len()),
                });
            }
            let own_ids = strings("genes")?;
            for (at, name) in own_names.iter().enumerate() {
                names.push(name);
                ids.push(own_ids.as_ref().and_then(|ids| ids.get(at)).unwrap_or(name));
                of.push(genome);
            }
            groups.push(group);
        }
        let mut columns = Vec::new();
        if all_ids {
            columns.push(("gene_ids".to_owned(), ids));
        }
        let why = match chosen.as_slice() {
            _ if genomes.len() == 1 => String::new(),
            [_] => format!("the chosen genome of {list}"),
            _ => format!("the genes of {list}, one after the other"),
        };
        if chosen.len() > 1 {
            columns.push(("genome".to_owned(), of));
        }
        let at = groups.iter().map(Group::path).collect::<Vec<_>>().join(", ");
        let plain = SourceOptions { obs: options.obs.clone(), ..SourceOptions::default() };
        let mut features = Features::new(file.name(), &at, names, &columns, &plain)?;
        if let Some(genome) = &options.genome {
            features.options.insert("genome".into(), json!(genome));
        }
        Self::open(file, &groups, "10x v2", why, features, options)
    }

    fn open(
        file: &File,
        groups: &[Group],
        format: &'static str,
        why: String,
        features: Features,
        options: &SourceOptions,
    ) -> Result<Self> {
        let mut matrices = Vec::new();
        let mut first: Option<Array> = None;
        let mut genes = 0_u64;
        for group in groups {
            let barcodes = group.dataset("barcodes")?;
            let cells = barcodes.len_1d()?;
            let own_genes = own_genes(group)?;
            if let Some(first) = &first
                && first.strings()? != barcodes.strings()?
            {
                return Err(Error::Unsupported {
                    file: file.name().to_owned(),
                    at: barcodes.path().to_owned(),
                    what: format!(
                        "other cells than in {} ({cells} and {}): genomes are read together only where their cells are \
                         the same; choose one with --genome",
                        first.path(),
                        first.len_1d()?
                    ),
                });
            }
            let shape = Shape { cells, genes: own_genes };
            check_shape(file, group, shape)?;
            // Columns of features by barcodes are rows of cells.
            let matrix = SparseMatrix::new(
                group.path(),
                Orientation::Csr,
                shape,
                group.dataset("data")?,
                group.dataset("indices")?,
                group.dataset("indptr")?,
            )?;
            genes = genes.saturating_add(own_genes);
            matrices.push(Matrix::Sparse(matrix));
            first = first.or(Some(barcodes));
        }
        let (Some(barcodes), Some(matrix)) = (first, matrices.first()) else {
            let (file, at, hint) = (file.name().to_owned(), "matrix".into(), String::new());
            return Err(Error::Missing { file, at, hint });
        };
        if genes != features.all.len() as u64 {
            return Err(Error::Length {
                file: file.name().to_owned(),
                at: "features".into(),
                found: format!("{} names", features.all.len()),
                expected: format!("there are {genes} identifiers"),
            });
        }
        let shape = Shape { cells: barcodes.len_1d()?, genes };
        let mut recorded = options.recorded();
        recorded.extend(features.options.clone());
        let paths: Vec<&str> = groups.iter().map(Group::path).collect();
        let info = SourceInfo {
            file: file.name().to_owned(),
            bytes: file.size(),
            format,
            matrix: paths.join("+"),
            why,
            encoding: "csr",
            dtype: matrix.dtype().to_string(),
            shape: Shape { genes: features.names.len() as u64, ..shape },
            stored: matrices.iter().map(Matrix::stored).sum(),
            dropped: features.dropped.clone(),
            notes: Vec::new(),
            options: recorded,
        };
        let (obs_choice, var_choice) = (options.obs.clone(), options.var.clone());
        Ok(Self { info, matrices, barcodes, features, obs_choice, var_choice, not_carried: Vec::new() })
    }
}

/// Features that a group has identifiers or names for.
fn own_genes(group: &Group) -> Result<u64> {
    for path in ["features/id", "features/name", "genes", "gene_names"] {
        if let Some(Node::Dataset(dataset)) = group.find(path)? {
            return dataset.len_1d();
        }
    }
    Err(group.missing("features"))
}

fn check_shape(file: &File, group: &Group, shape: Shape) -> Result<()> {
    let Some(Node::Dataset(declared)) = group.find("shape")? else { return Ok(()) };
    let found = crate::frame::small_integers(&declared)?;
    if found == [i128::from(shape.genes), i128::from(shape.cells)] {
        return Ok(());
    }
    Err(Error::Length {
        file: file.name().to_owned(),
        at: declared.path().to_owned(),
        found: format!("shape {found:?}"),
        expected: format!("there are {} features and {} barcodes", shape.genes, shape.cells),
    })
}

fn check_choice(file: &File, choice: &MatrixChoice) -> Result<()> {
    match choice {
        MatrixChoice::Auto => Ok(()),
        MatrixChoice::Path(path) => Err(Error::Options(format!(
            "{}: a 10x file has one matrix; {path:?} cannot be chosen",
            file.name()
        ))),
    }
}

impl Source for TenxSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn gene_names(&self) -> &StringColumn {
        &self.features.names
    }

    fn gene_ids(&self) -> Option<&StringColumn> {
        self.features.ids()
    }

    fn var(&self) -> Result<Table> {
        self.features.table(&self.info.file, &self.var_choice)
    }

    fn obs(&self) -> Result<Table> {
        let barcodes = self.barcodes.strings()?;
        let index = Index::new(None, text(&barcodes));
        self.obs_choice.table(barcodes.len(), index, Vec::new(), &self.info.file, "obs")
    }

    fn not_carried(&self) -> &[NotCarried] {
        &self.not_carried
    }

    fn by_gene(&self, _: &ReadOptions) -> bool {
        false
    }

    fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>> {
        let mut parts = Vec::with_capacity(self.matrices.len());
        let each =
            ReadOptions { memory: options.memory / self.matrices.len().max(1) as u64, ..options.clone() };
        for matrix in &self.matrices {
            let blocks = matrix
                .cells(range.clone(), &each)
                .map_err(|error| name_error(error, &|cell| self.cell_name(cell), &self.features.all))?;
            parts.push((matrix.shape().genes, blocks));
        }
        let inner: Box<dyn CellBlocks> = match parts.pop() {
            Some((_, only)) if parts.is_empty() => only,
            Some(last) => {
                parts.push(last);
                Box::new(JoinedBlocks::new(parts, options.clone()))
            }
            None => return Err(Error::Options(format!("{}: no matrix", self.info.file))),
        };
        Ok(Box::new(NamedBlocks {
            inner,
            cell_name: Box::new(|cell| self.cell_name(cell)),
            genes: &self.features.all,
            map: self.features.map.as_deref(),
        }))
    }

    fn cell_name(&self, cell: u64) -> Option<String> {
        let names = self.barcodes.strings().ok()?;
        names.get(usize::try_from(cell).ok()?).map(str::to_owned)
    }
}
