use std::sync::OnceLock;

use celltile::table::{Categorical, Categories, Codes, Values};

use super::column;
use crate::error::Result;
use crate::hdf5::{Dtype, Field};
use crate::tree::{Array, Node, Tree};

/// A frame stored as a dataset of records, as anndata before 0.7 wrote it.
#[derive(Debug)]
pub(super) struct CompoundFrame {
    file: Tree,
    dataset: Array,
    rows: u64,
    size: usize,
    fields: Vec<Field>,
    index: Option<String>,
    columns: Vec<String>,
    /// All records, once a column was read.
    records: OnceLock<Vec<u8>>,
}

impl CompoundFrame {
    pub(super) fn open(file: &Tree, dataset: Array) -> Result<Self> {
        let Dtype::Compound(size, fields) = dataset.dtype().clone() else {
            return Err(dataset.damaged(format!("{}; expected a data frame", dataset.dtype())));
        };
        let rows = dataset.len_1d()?;
        let index = ["index", "_index"]
            .into_iter()
            .find(|name| fields.iter().any(|field| field.name == *name))
            .map(str::to_owned)
            .or_else(|| {
                let text =
                    |field: &&Field| matches!(field.dtype, Dtype::FixedString { .. } | Dtype::VarString);
                fields.first().filter(text).map(|field| field.name.clone())
            });
        let columns = fields
            .iter()
            .map(|field| field.name.clone())
            .filter(|name| Some(name) != index.as_ref())
            .collect();
        Ok(Self { file: file.clone(), dataset, rows, size, fields, index, columns, records: OnceLock::new() })
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn index_name(&self) -> Option<&str> {
        // anndata names the index as its field is named, `index` too.
        self.index.as_deref().filter(|name| *name != "_index")
    }

    pub(super) fn index_values(&self) -> Result<Values, String> {
        match &self.index {
            Some(name) => self.field_values(name),
            None => Err("the records have no field for the index".into()),
        }
    }

    /// The values of a field; where `uns/NAME_categories` exists, they are codes into that list.
    pub(super) fn column_values(&self, name: &str) -> Result<Values, String> {
        let values = self.field_values(name)?;
        let list = self.file.find(&format!("uns/{name}_categories")).map_err(|error| error.to_string())?;
        let (Some(Node::Dataset(list)), Values::Numeric(_)) = (list, &values) else { return Ok(values) };
        let Some(codes) = column::integers(&values) else { return Ok(values) };
        let categories = column::plain(&list)?;
        let categories = column::categories(&categories)?;
        // The list's name does not say whether it belongs to obs or var: codes outside it show that it does not.
        categorical(codes, categories)
            .map_err(|why| format!("{why}; uns/{name}_categories may belong to another frame"))
    }

    fn field_values(&self, name: &str) -> Result<Values, String> {
        let field = self.fields.iter().find(|field| field.name == name);
        let field = field.ok_or("the records have no such field")?;
        let size = field.dtype.size().ok_or_else(|| format!("{}; cannot be read", field.dtype))?;
        let bytes = match self.records.get() {
            Some(records) => records,
            None => {
                let records = self.dataset.read_all().map_err(|error| error.to_string())?;
                self.records.get_or_init(|| records)
            }
        };
        let mut values = Vec::with_capacity(bytes.len() / self.size.max(1) * size);
        for record in bytes.chunks_exact(self.size.max(1)) {
            let end = field.offset.checked_add(size);
            let value = end.and_then(|end| record.get(field.offset..end));
            values.extend_from_slice(value.ok_or("a field that reaches past its record")?);
        }
        column::from_bytes(&self.dataset, &field.dtype, &values)
    }
}

fn categorical(codes: impl Iterator<Item = i64>, categories: Categories) -> Result<Values, String> {
    let codes = Codes::collect(codes, categories.len()).map_err(|error| error.to_string())?;
    let values = Categorical::new(codes, categories, false).map_err(|error| error.to_string())?;
    Ok(Values::Category(values))
}
