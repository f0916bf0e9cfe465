use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray};
use arrow_schema::DataType;

use super::ObsField;
use crate::error::{Error, Result};
use crate::table::{
    Categorical, Categories, Codes, Column, ColumnMeta, Index, Numeric, StringKind, Table, TableError,
    TableMeta, Text, Values,
};

/// A column of the obs table: one Arrow array a tile, usually mapped from the local cache.
#[derive(Debug, Clone)]
pub struct ObsColumn {
    field: Arc<ObsField>,
    meta: ColumnMeta,
    tiles: Vec<ArrayRef>,
}

impl ObsColumn {
    pub(super) fn new(field: Arc<ObsField>, meta: ColumnMeta, tiles: Vec<ArrayRef>) -> Self {
        Self { field, meta, tiles }
    }

    /// Its line in the schema: name, kind, type and categories.
    #[must_use]
    pub fn field(&self) -> &ObsField {
        &self.field
    }

    /// What else is known of its source.
    #[must_use]
    pub fn meta(&self) -> &ColumnMeta {
        &self.meta
    }

    /// The values of each tile's cells, of the field's Arrow type: codes for a category, -1 for missing.
    #[must_use]
    pub fn tiles(&self) -> &[ArrayRef] {
        &self.tiles
    }

    /// The values of all cells in one piece, in memory.
    ///
    /// # Errors
    /// [`Error::Table`] if they do not fit what the metadata says of them.
    pub fn values(&self) -> Result<Values> {
        self.joined().map_err(|source| Error::Table {
            path: format!("obs column {:?}", self.field.name),
            source: Box::new(source),
        })
    }

    fn joined(&self) -> Result<Values, TableError> {
        let values = match &self.field.categories {
            Some(categories) => Categorical::new(self.codes()?, categories.clone(), false)?.into(),
            None if self.field.arrow_type == DataType::Utf8 => {
                let tiles = self.tiles.iter().map(|tile| tile.as_string::<i32>());
                let values: LargeStringArray = tiles.flat_map(|tile| tile.iter()).collect();
                Text::new(values, StringKind::Object).into()
            }
            None => {
                let array = self.concat()?;
                match array.data_type() {
                    DataType::Boolean => Values::bools(array.as_boolean().clone(), false),
                    // Masked floats keep their NaN: what the column is, `apply` says below.
                    _ => Numeric::new(array, self.meta.nullable)?.into(),
                }
            }
        };
        self.meta.apply(values)
    }

    fn codes(&self) -> Result<Codes, TableError> {
        let array = self.concat()?;
        let count = self.field.categories.as_ref().map_or(0, Categories::len);
        let codes = Codes::from_array(array.as_ref())?;
        codes.check(count)?;
        Ok(codes)
    }

    fn concat(&self) -> Result<ArrayRef, TableError> {
        match self.tiles.as_slice() {
            [] => Ok(arrow_array::new_empty_array(&self.field.arrow_type)),
            [one] => Ok(Arc::clone(one)),
            tiles => {
                let tiles: Vec<_> = tiles.iter().map(AsRef::as_ref).collect();
                Ok(arrow_select::concat::concat(&tiles)?)
            }
        }
    }
}

/// Some columns of the obs table, for all cells.
#[derive(Debug, Clone)]
pub struct Obs {
    rows: u64,
    columns: Vec<ObsColumn>,
    meta: TableMeta,
}

impl Obs {
    pub(super) fn new(rows: u64, columns: Vec<ObsColumn>, meta: TableMeta) -> Self {
        Self { rows, columns, meta }
    }

    /// Number of cells.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The columns, in the order in which they were asked for.
    #[must_use]
    pub fn columns(&self) -> &[ObsColumn] {
        &self.columns
    }

    /// The column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ObsColumn> {
        self.columns.iter().find(|column| column.field.name == name)
    }

    /// The columns as a Parquet file that pandas reads back as the frame it was: categories as dictionaries, the index
    /// first.
    ///
    /// # Errors
    /// As [`to_table`](Self::to_table); [`Error::Table`] for categories of several types, which Parquet cannot hold.
    pub fn to_parquet(&self) -> Result<Vec<u8>> {
        crate::genes::var_table::to_parquet_index_first(&self.to_table()?)
    }

    /// The columns of some tiles' cells only, one tile after the other: what few cells need of a large table. Nothing is copied.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a tile that there is not.
    pub fn of_tiles(&self, tiles: &[usize], rows: u64) -> Result<Self> {
        let chosen = |column: &ObsColumn| {
            let arrays = tiles.iter().map(|&tile| {
                column.tiles.get(tile).cloned().ok_or_else(|| Error::OutOfRange {
                    what: "tile",
                    index: u64::try_from(tile).unwrap_or(u64::MAX),
                    len: u64::try_from(column.tiles.len()).unwrap_or(u64::MAX),
                })
            });
            let tiles = arrays.collect::<Result<Vec<_>>>()?;
            Ok(ObsColumn { field: Arc::clone(&column.field), meta: column.meta, tiles })
        };
        let columns = self.columns.iter().map(chosen).collect::<Result<Vec<_>>>()?;
        Ok(Self { rows, columns, meta: self.meta.clone() })
    }

    /// The columns as a table in memory, with its index if that is among them.
    ///
    /// # Errors
    /// As [`ObsColumn::values`]; [`Error::Table`] if a column was asked for twice.
    pub fn to_table(&self) -> Result<Table> {
        let mut index = None;
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let values = column.values()?;
            match &self.meta.index {
                Some(meta) if meta.column == column.field.name => {
                    index = Some(Index::new(meta.name.clone(), values));
                }
                _ => columns.push(Column::new(column.field.name.clone(), values)),
            }
        }
        let rows = usize::try_from(self.rows).unwrap_or(usize::MAX);
        Table::new(rows, index, columns)
            .map_err(|source| Error::Table { path: "obs".to_owned(), source: Box::new(source) })
    }
}
