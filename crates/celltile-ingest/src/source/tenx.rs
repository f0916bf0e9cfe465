use std::collections::BTreeMap;
use std::ops::Range;

use celltile::table::{Column, Index, Table, Text, Values};
use serde_json::{Map, Value, json};

use super::names::{NamedBlocks, name_error};
use super::{MatrixChoice, NotCarried, Source, SourceInfo, SourceOptions};
use crate::error::{Error, Result};
use crate::hdf5::{Dataset, File, Group, Node, NodeKind, StringColumn};
use crate::matrix::{CellBlocks, Matrix, Orientation, ReadOptions, Shape, SparseMatrix};

/// The type of features that are genes.
const GENE_EXPRESSION: &str = "Gene Expression";

/// A 10x feature-barcode matrix: version 3 (a group `matrix`) or 2 (a group a genome).
#[derive(Debug)]
pub struct TenxSource {
    info: SourceInfo,
    matrix: Matrix,
    barcodes: Dataset,
    features: Features,
    not_carried: Vec<NotCarried>,
}

/// The features of a file, and which of them are kept.
#[derive(Debug)]
struct Features {
    /// Names of all that are stored.
    all: StringColumn,
    /// Names of those kept.
    names: StringColumn,
    /// Other columns of those kept.
    columns: Vec<(String, StringColumn)>,
    /// For each stored feature its place among those kept; nothing if all are kept.
    map: Option<Vec<Option<u32>>>,
    /// Types that were dropped, and how many features of each.
    dropped: Vec<String>,
    /// Options that decided it.
    options: Map<String, Value>,
}

impl TenxSource {
    /// Whether the group `matrix` is a version 3 matrix.
    pub(super) fn is_v3(file: &File) -> Result<bool> {
        let Some(Node::Group(matrix)) = file.find("matrix")? else { return Ok(false) };
        let members = matrix.members()?;
        let has = |name: &str| members.iter().any(|(member, _)| member == name);
        Ok(has("barcodes") && has("indptr") && has("features"))
    }

    /// Groups that are version 2 matrices, by the name of their genome.
    pub(super) fn genomes(file: &File) -> Result<Vec<String>> {
        let root = file.root()?;
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
        let group = file.root()?.group("matrix")?;
        let node = group.group("features")?;
        let names = node.dataset("name")?.strings()?;
        let mut columns = Vec::new();
        for (column, path) in [("gene_ids", "id"), ("feature_types", "feature_type"), ("genome", "genome")] {
            if let Some(Node::Dataset(dataset)) = node.find(path)? {
                columns.push((column.to_owned(), dataset.strings()?));
            }
        }
        let listed = node.find("_all_tag_keys")?.and_then(Node::dataset);
        for tag in listed.map(|keys| keys.strings()).transpose()?.iter().flat_map(StringColumn::iter) {
            if tag != "genome"
                && let Some(Node::Dataset(dataset)) = node.find(tag)?
            {
                columns.push((tag.to_owned(), dataset.strings()?));
            }
        }
        let features = Features::new(file, node.path(), names, &columns, options)?;
        Self::open(file, &group, "10x v3", String::new(), features)
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
        let genome = match (&options.genome, genomes) {
            (Some(genome), _) => genomes.iter().find(|known| *known == genome).ok_or_else(|| {
                Error::Options(format!("{}: no genome {genome:?}; it has: {list}", file.name()))
            })?,
            (None, [only]) => only,
            (None, _) => {
                let what = format!("{}: several genomes ({list}): choose one with --genome", file.name());
                return Err(Error::Options(what));
            }
        };
        let group = file.root()?.group(genome)?;
        let strings = |name: &str| -> Result<Option<StringColumn>> {
            match group.find(name)? {
                Some(Node::Dataset(dataset)) => Ok(Some(dataset.strings()?)),
                _ => Ok(None),
            }
        };
        let (ids, names) = (strings("genes")?, strings("gene_names")?);
        let mut columns = Vec::new();
        let names = match (names, ids) {
            (Some(names), ids) => {
                columns.extend(ids.map(|ids| ("gene_ids".to_owned(), ids)));
                names
            }
            (None, Some(ids)) => ids,
            (None, None) => return Err(group.missing("gene_names")),
        };
        let why = if genomes.len() > 1 { format!("the chosen genome of {list}") } else { String::new() };
        let features = Features::new(file, group.path(), names, &columns, &SourceOptions::default())?;
        Self::open(file, &group, "10x v2", why, features)
    }

    fn open(
        file: &File,
        group: &Group,
        format: &'static str,
        why: String,
        features: Features,
    ) -> Result<Self> {
        let barcodes = group.dataset("barcodes")?;
        let shape = Shape { cells: barcodes.len_1d()?, genes: features.all.len() as u64 };
        if let Some(declared) = group.find("shape")?.and_then(Node::dataset) {
            let found = crate::frame::small_integers(&declared.clone().into())?;
            if found != [i128::from(shape.genes), i128::from(shape.cells)] {
                return Err(Error::Length {
                    file: file.name().to_owned(),
                    at: declared.path().to_owned(),
                    found: format!("shape {found:?}"),
                    expected: format!("there are {} features and {} barcodes", shape.genes, shape.cells),
                });
            }
        }
        // Columns of features by barcodes are rows of cells.
        let matrix = SparseMatrix::new(
            group.path(),
            Orientation::Csr,
            shape,
            group.dataset("data")?,
            group.dataset("indices")?,
            group.dataset("indptr")?,
        )?;
        let matrix = Matrix::Sparse(matrix);
        let info = SourceInfo {
            file: file.name().to_owned(),
            bytes: file.size(),
            format,
            matrix: group.path().to_owned(),
            why,
            encoding: "csr",
            dtype: matrix.dtype().to_string(),
            shape: Shape { genes: features.names.len() as u64, ..shape },
            stored: matrix.stored(),
            dropped: features.dropped.clone(),
            notes: Vec::new(),
            options: features.options.clone(),
        };
        Ok(Self { info, matrix, barcodes, features, not_carried: Vec::new() })
    }
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

impl Features {
    fn new(
        file: &File,
        at: &str,
        names: StringColumn,
        columns: &[(String, StringColumn)],
        options: &SourceOptions,
    ) -> Result<Self> {
        for (name, column) in columns {
            if column.len() != names.len() {
                return Err(Error::Length {
                    file: file.name().to_owned(),
                    at: format!("{at}: {name}"),
                    found: format!("{} entries", column.len()),
                    expected: format!("there are {} features", names.len()),
                });
            }
        }
        let mut dropped: BTreeMap<String, u64> = BTreeMap::new();
        let types = columns.iter().find(|(name, _)| name == "feature_types").map(|(_, types)| types);
        let genomes = columns.iter().find(|(name, _)| name == "genome").map(|(_, genomes)| genomes);
        let wanted = options.feature_types.as_deref();
        let mut map = Vec::with_capacity(names.len());
        let mut next = 0_u32;
        for at in 0..names.len() {
            let kind = types.and_then(|types| types.get(at)).unwrap_or(GENE_EXPRESSION);
            let genome = genomes.and_then(|genomes| genomes.get(at)).unwrap_or_default();
            let typed = match wanted {
                None => kind == GENE_EXPRESSION,
                Some(wanted) => wanted.iter().any(|wanted| wanted == kind || wanted == "all"),
            };
            // Features that are no genes have no genome.
            let placed = options.genome.as_deref().is_none_or(|wanted| wanted == genome || genome.is_empty());
            if typed && placed {
                map.push(Some(next));
                next = next.saturating_add(1);
            } else {
                let what = if typed { format!("genome {genome}") } else { kind.to_owned() };
                *dropped.entry(what).or_default() += 1;
                map.push(None);
            }
        }
        if next == 0 {
            let there: Vec<_> = dropped.iter().map(|(what, count)| format!("{count} of {what}")).collect();
            return Err(Error::Unsupported {
                file: file.name().to_owned(),
                at: at.to_owned(),
                what: format!("no feature is left to convert; there are: {}", there.join(", ")),
            });
        }
        let mut chosen = Map::new();
        if let Some(genome) = &options.genome {
            chosen.insert("genome".into(), json!(genome));
        }
        if let Some(types) = wanted {
            chosen.insert("feature_types".into(), json!(types));
        }
        let keep = |column: &StringColumn| -> StringColumn {
            map.iter().zip(column.iter()).filter(|(place, _)| place.is_some()).map(|(_, text)| text).collect()
        };
        Ok(Self {
            names: keep(&names),
            columns: columns.iter().map(|(name, column)| (name.clone(), keep(column))).collect(),
            all: names,
            dropped: dropped.into_iter().map(|(what, count)| format!("{count} features: {what}")).collect(),
            map: map.iter().any(Option::is_none).then_some(map),
            options: chosen,
        })
    }
}

fn text(strings: &StringColumn) -> Values {
    Values::Text(strings.iter().map(Some).collect::<Text>())
}

impl Source for TenxSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn gene_names(&self) -> &StringColumn {
        &self.features.names
    }

    fn gene_ids(&self) -> Option<&StringColumn> {
        self.features.columns.iter().find(|(name, _)| name == "gene_ids").map(|(_, ids)| ids)
    }

    fn var(&self) -> Result<Table> {
        let columns =
            self.features.columns.iter().map(|(name, column)| Column::new(name.clone(), text(column)));
        let index = Index::new(None, text(&self.features.names));
        Table::new(self.features.names.len(), Some(index), columns.collect()).map_err(|error| {
            Error::Damaged { file: self.info.file.clone(), at: "features".into(), what: error.to_string() }
        })
    }

    fn obs(&self) -> Result<Table> {
        let barcodes = self.barcodes.strings()?;
        let index = Index::new(None, text(&barcodes));
        Table::new(barcodes.len(), Some(index), Vec::new()).map_err(|error| Error::Damaged {
            file: self.info.file.clone(),
            at: "barcodes".into(),
            what: error.to_string(),
        })
    }

    fn not_carried(&self) -> &[NotCarried] {
        &self.not_carried
    }

    fn cells(&self, range: Range<u64>, options: &ReadOptions) -> Result<Box<dyn CellBlocks + '_>> {
        Ok(Box::new(NamedBlocks {
            inner: self
                .matrix
                .cells(range, options)
                .map_err(|error| name_error(error, &|cell| self.cell_name(cell), &self.features.all))?,
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
