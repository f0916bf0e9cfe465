//! Data frames of h5ad files and Zarr stores, obs and var, in every encoding that anndata 0.5 to 0.13 writes.
//!
//! - a group (since 0.7): a dataset or group a column, the index among them, named by the attributes `_index` and
//!   `column-order`; categories in groups, or (0.7) in `__categories`, referred to by an attribute of the codes;
//! - a dataset of a compound type (before 0.7), whose categories are in `uns/NAME_categories`.

mod choice;
mod column;
mod compound;
mod datetime;
mod encoded;

use celltile::table::{Column, Index, Table, Values};

use crate::error::{BadColumn, Error, Result};
use crate::hdf5::StringColumn;
use crate::tree::{Node, Tree};

pub(crate) use self::choice::damaged;
pub use self::choice::{ColumnChoice, Datetimes};
pub(crate) use self::column::{display_strings, plain};
use self::compound::CompoundFrame;
use self::encoded::GroupFrame;

/// A data frame in a file: its length and the names of its columns are known, their values are read when asked for.
#[derive(Debug)]
pub struct Frame {
    file: Tree,
    /// `obs` or `var`, for messages.
    kind: &'static str,
    path: String,
    rows: u64,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Group(GroupFrame),
    Compound(CompoundFrame),
}

impl Frame {
    /// The frame at a path. `kind` is what messages call it: `obs` or `var`.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is nothing, [`Error::Damaged`] if it is no data frame.
    pub fn open(file: &Tree, path: &str, kind: &'static str) -> Result<Self> {
        let node = file.find(path)?.ok_or_else(|| Error::Missing {
            file: file.name().to_owned(),
            at: path.to_owned(),
            hint: String::new(),
        })?;
        let (rows, form) = match node {
            Node::Group(group) => {
                let frame = GroupFrame::open(group)?;
                (frame.rows(), Form::Group(frame))
            }
            Node::Dataset(dataset) => {
                let frame = CompoundFrame::open(file, dataset)?;
                (frame.rows(), Form::Compound(frame))
            }
        };
        Ok(Self { file: file.clone(), kind, path: path.to_owned(), rows, form })
    }

    /// Number of rows: the length of the index.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Path of the frame in its file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Names of the columns, in order, the index not among them.
    pub fn columns(&self) -> &[String] {
        match &self.form {
            Form::Group(frame) => frame.columns(),
            Form::Compound(frame) => frame.columns(),
        }
    }

    /// The index's name, if it has one.
    pub fn index_name(&self) -> Option<&str> {
        match &self.form {
            Form::Group(frame) => frame.index_name(),
            Form::Compound(frame) => frame.index_name(),
        }
    }

    fn index_values(&self) -> Result<Values, String> {
        let values = match &self.form {
            Form::Group(frame) => frame.index_values(),
            Form::Compound(frame) => frame.index_values(),
        }?;
        self.check_rows(values)
    }

    fn check_rows(&self, values: Values) -> Result<Values, String> {
        if values.len() as u64 == self.rows {
            return Ok(values);
        }
        Err(format!("{} values; the index has {}", values.len(), self.rows))
    }

    /// The index as text: cell or gene names. Numbers are written out, missing names are empty.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if it cannot be read.
    pub fn names(&self) -> Result<StringColumn> {
        let damaged = |what| Error::Damaged {
            file: self.file.name().to_owned(),
            at: format!("{}: index", self.path),
            what,
        };
        let values = self.index_values().map_err(damaged)?;
        Ok(column::display_strings(&values))
    }

    /// The chosen columns and the index. All columns that the format cannot hold are told at once.
    ///
    /// # Errors
    ///
    /// [`Error::Columns`]; [`Error::Options`] for a chosen column that is not there.
    pub fn table(&self, choice: &ColumnChoice) -> Result<Table> {
        choice.check(self.file.name(), &self.path, self.columns())?;
        let mut bad = Vec::new();
        let mut columns = Vec::new();
        for name in self.columns().iter().filter(|name| choice.takes(name)) {
            let values = match &self.form {
                Form::Group(frame) => frame.column_values(name, choice.datetimes),
                Form::Compound(frame) => frame.column_values(name),
            };
            let values = values.and_then(|values| choice.convert(name, values));
            match values.and_then(|values| self.check_rows(values)) {
                Ok(values) => columns.push(Column::new(name.clone(), values)),
                Err(why) => bad.push(BadColumn { frame: self.kind.to_owned(), name: name.clone(), why }),
            }
        }
        let index = match self.index_values() {
            Ok(values) => Some(Index::new(self.index_name().map(str::to_owned), values)),
            Err(why) => {
                bad.insert(0, BadColumn { frame: self.kind.to_owned(), name: "index".into(), why });
                None
            }
        };
        if !bad.is_empty() {
            return Err(Error::Columns { file: self.file.name().to_owned(), columns: bad });
        }
        let rows = usize::try_from(self.rows).unwrap_or(usize::MAX);
        Table::new(rows, index, columns).map_err(|error| damaged(&error, self.file.name(), &self.path))
    }
}

/// The integers of a small dataset, such as a shape.
pub(crate) fn small_integers(dataset: &crate::tree::Array) -> Result<Vec<i128>> {
    let values = column::plain(dataset).map_err(|why| dataset.damaged(why))?;
    let integers = column::integers(&values).ok_or_else(|| dataset.damaged("expected integers"))?;
    Ok(integers.map(i128::from).collect())
}
