use super::MatrixChoice;
use crate::error::{Error, Result};
use crate::matrix::{DenseMatrix, Matrix, Orientation, ReadOptions, Shape, SparseMatrix};
use crate::tree::{Group, Node, Tree};

/// A matrix of an h5ad file, or of a modality, opened.
pub(super) struct Picked {
    pub(super) path: String,
    pub(super) matrix: Matrix,
    pub(super) why: String,
}

/// Values looked at to decide whether a matrix holds counts.
const SAMPLE: u64 = 3 << 16;

/// Paths that hold the matrix of `raw`: since anndata 0.7, and before.
pub(super) const RAW: [&str; 2] = ["raw/X", "raw.X"];

/// Whether a path names the matrix of `raw`, which has genes of its own.
pub(super) fn is_raw(path: &str) -> bool {
    RAW.contains(&path)
}

/// Opens the matrix that the choice asks for. `shape_of` gives the cells and genes that a path must have.
pub(super) fn pick(
    file: &Tree,
    choice: &MatrixChoice,
    options: &ReadOptions,
    shape_of: &dyn Fn(&str) -> Result<Shape>,
) -> Result<Picked> {
    let there = available(file)?;
    let open = |path: &str| open_matrix(file, path, shape_of(path)?);
    let missing = |at: &str| {
        let hint = if there.is_empty() {
            "; it holds no matrix at all".to_owned()
        } else {
            format!("; available: {}", there.join(", "))
        };
        let hint = hint + &file.root().elsewhere();
        Error::Missing { file: file.name().to_owned(), at: at.to_owned(), hint }
    };
    if let MatrixChoice::Path(path) = choice {
        let path = path.trim_matches('/');
        let wanted: &[&str] = if is_raw(path) { &RAW } else { &[path] };
        let found = wanted.iter().find(|wanted| there.iter().any(|path| path == *wanted));
        let path = found.ok_or_else(|| missing(path))?;
        return Ok(Picked { path: (*path).to_owned(), matrix: open(path)?, why: "asked for".into() });
    }
    let candidates: Vec<&str> = ["raw/X", "raw.X", "layers/counts", "X"]
        .into_iter()
        .filter(|path| there.iter().any(|there| there == path))
        .collect();
    if let [only] = candidates.as_slice() {
        let matrix = open(only)?;
        return Ok(Picked { path: (*only).to_owned(), matrix, why: "the only candidate".into() });
    }
    if candidates.is_empty() {
        return Err(missing("X"));
    }
    let mut faults = Vec::new();
    for path in &candidates {
        options.check_cancelled()?;
        let fault = match open(path) {
            Ok(matrix) => match matrix.sample_fault(SAMPLE, options)? {
                None => {
                    let why = if faults.is_empty() {
                        format!("the first of {} that holds counts", candidates.join(", "))
                    } else {
                        format!("holds counts, unlike {}", faults.join("; "))
                    };
                    return Ok(Picked { path: (*path).to_owned(), matrix, why });
                }
                Some(fault) => {
                    format!(
                        "{path} ({} {} in cell {}, gene {})",
                        fault.kind, fault.value, fault.cell, fault.gene
                    )
                }
            },
            Err(error @ (Error::Io { .. } | Error::Cancelled)) => return Err(error),
            Err(error) => format!("{path} ({error})"),
        };
        faults.push(fault);
    }
    let others: Vec<_> = there.iter().filter(|path| !candidates.contains(&path.as_str())).cloned().collect();
    let hint =
        if others.is_empty() { String::new() } else { format!("; not looked at: {}", others.join(", ")) };
    Err(Error::Unsupported {
        file: file.name().to_owned(),
        at: "no matrix holds counts".into(),
        what: format!("{}{hint}", faults.join("; ")),
    })
}

/// Paths of all matrices, in the order in which people think of them.
fn available(file: &Tree) -> Result<Vec<String>> {
    let root = file.root();
    let mut found = Vec::new();
    for path in ["X", "raw/X", "raw.X"] {
        if let Some(node) = root.find(path)? {
            // Since anndata 0.12 an absent X is a dataset that says so.
            let null = node.string_attribute("encoding-type")?.as_deref() == Some("null");
            if !null {
                found.push(path.to_owned());
            }
        }
    }
    if let Some(Node::Group(layers)) = root.find("layers")? {
        found.extend(layers.members()?.into_iter().map(|(name, _)| format!("layers/{name}")));
    }
    Ok(found)
}

/// Opens the matrix at a path, in any encoding.
fn open_matrix(file: &Tree, path: &str, shape: Shape) -> Result<Matrix> {
    let node = match path.strip_prefix("layers/") {
        // A layer's name may hold slashes.
        Some(name) => match file.find("layers")? {
            Some(Node::Group(layers)) => layers.find(name)?,
            _ => None,
        },
        None => file.find(path)?,
    };
    match node {
        Some(Node::Dataset(values)) => Ok(Matrix::Dense(DenseMatrix::new(values, shape)?)),
        Some(Node::Group(group)) => Ok(Matrix::Sparse(open_sparse(&group, shape)?)),
        None => {
            Err(Error::Missing { file: file.name().to_owned(), at: path.to_owned(), hint: String::new() })
        }
    }
}

/// Opens a sparse matrix in a group of `data`, `indices` and `indptr`.
fn open_sparse(group: &Group, shape: Shape) -> Result<SparseMatrix> {
    let encoding = match group.string_attribute("encoding-type")? {
        Some(encoding) => encoding,
        None => group.string_attribute("h5sparse_format")?.unwrap_or_default(),
    };
    let orientation = match encoding.as_str() {
        "csr_matrix" | "csr" => Orientation::Csr,
        "csc_matrix" | "csc" => Orientation::Csc,
        other => {
            return Err(Error::Unsupported {
                file: group.file_name().to_owned(),
                at: group.path().to_owned(),
                what: format!("encoding {other:?}; expected csr_matrix, csc_matrix or a dense array"),
            });
        }
    };
    for name in ["shape", "h5sparse_shape"] {
        let Some(declared) = group.attribute(name)? else { continue };
        let declared = declared.integers();
        if declared.as_deref() != Some(&[shape.cells.into(), shape.genes.into()]) {
            let found = declared.map_or_else(|| "no integers".to_owned(), |shape| format!("{shape:?}"));
            return Err(Error::Length {
                file: group.file_name().to_owned(),
                at: group.path().to_owned(),
                found: format!("shape {found}"),
                expected: format!("there are {} cells and {} genes", shape.cells, shape.genes),
            });
        }
    }
    let (data, indices) = (group.dataset("data")?, group.dataset("indices")?);
    SparseMatrix::new(group.path(), orientation, shape, data, indices, group.dataset("indptr")?)
}
