use celltile::table::Values;

use super::{Datetimes, column};
use crate::error::{Error, Result};
use crate::hdf5::NodeKind;
use crate::tree::{Group, Node};

/// A frame stored as a group.
#[derive(Debug)]
pub(super) struct GroupFrame {
    group: Group,
    rows: u64,
    /// Name of the index's dataset.
    index: String,
    columns: Vec<String>,
}

/// The group in which anndata 0.7 kept the categories of a frame.
const CATEGORIES: &str = "__categories";

impl GroupFrame {
    pub(super) fn open(group: Group) -> Result<Self> {
        let members = group.members()?;
        let has = |name: &str| members.iter().any(|(member, _)| member == name);
        let index = match group.string_attribute("_index")? {
            Some(name) => name,
            // Written by hand: the names that anndata would use.
            None => match ["_index", "index"].into_iter().find(|name| has(name)) {
                Some(name) => name.to_owned(),
                None => {
                    return Err(Error::Damaged {
                        file: group.file_name().to_owned(),
                        at: group.path().to_owned(),
                        what: "no data frame: neither an _index attribute nor an index".into(),
                    });
                }
            },
        };
        let node = group.find(&index)?.ok_or_else(|| group.missing(&index))?;
        let rows = match &node {
            Node::Dataset(dataset) => dataset.len_1d()?,
            Node::Group(values) => values.dataset("values").or_else(|_| values.dataset("codes"))?.len_1d()?,
        };
        let columns = match group.attribute("column-order")? {
            Some(order) => match order.strings() {
                Some(names) => names.to_vec(),
                // Without it columns would be lost: those with a slash in their name.
                None => {
                    return Err(Error::Damaged {
                        file: group.file_name().to_owned(),
                        at: format!("{}: column-order", group.path()),
                        what: "no names of columns that can be read".into(),
                    });
                }
            },
            None => members
                .into_iter()
                .filter(|(name, kind)| *name != index && !(name == CATEGORIES && *kind == NodeKind::Group))
                .map(|(name, _)| name)
                .collect(),
        };
        Ok(Self { group, rows, index, columns })
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn index_name(&self) -> Option<&str> {
        if self.index == "_index" { None } else { Some(&self.index) }
    }

    pub(super) fn index_values(&self) -> Result<Values, String> {
        self.column_values(&self.index, Datetimes::Refuse)
    }

    /// The values of a column. A slash in its name is a level of groups in the file.
    pub(super) fn column_values(&self, name: &str, datetimes: Datetimes) -> Result<Values, String> {
        let node = self.group.find(name).map_err(|error| error.to_string())?;
        let node = node.ok_or("listed in column-order, but not there")?;
        column::values(&self.group, node, datetimes)
    }
}
