//! Looks at every input before anything is read or written: what will be converted, and what is wrong with it.

use celltile::table::Table;

use crate::error::{Error, Result};
use crate::source::Source;

/// An input that was looked at: its tables are read and fit, so that only its cells can still be wrong.
pub struct Plan {
    source: Box<dyn Source>,
    obs: Table,
    var: Table,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("info", self.source.info()).finish_non_exhaustive()
    }
}

impl Plan {
    /// Reads the tables of an input. Columns that a dataset cannot hold are told all at once, those of obs and of var.
    ///
    /// # Errors
    ///
    /// [`Error::Columns`], or what is wrong with the file.
    pub fn look(source: Box<dyn Source>) -> Result<Self> {
        let (obs, var) = match (source.obs(), source.var()) {
            (Ok(obs), Ok(var)) => (obs, var),
            (Err(Error::Columns { file, mut columns }), Err(Error::Columns { columns: more, .. })) => {
                columns.extend(more);
                return Err(Error::Columns { file, columns });
            }
            // Anything else is worse than a column that can be left out.
            (Err(Error::Columns { .. }), Err(error)) | (Err(error), _) | (_, Err(error)) => {
                return Err(error);
            }
        };
        Ok(Self { source, obs, var })
    }

    /// The input.
    pub fn source(&self) -> &dyn Source {
        self.source.as_ref()
    }

    /// The cell table.
    pub fn obs(&self) -> &Table {
        &self.obs
    }

    /// The gene table, in the source's order.
    pub fn var(&self) -> &Table {
        &self.var
    }
}
