use std::sync::Arc;

use super::attribute::Attribute;
use super::dataset::Dataset;
use super::file::Shared;
use crate::error::{Error, Result};

/// Groups that are looked at for an object that a reference names.
const SEARCHED_GROUPS: usize = 1000;

/// An object that a link leads to.
#[derive(Clone, Debug)]
pub enum Node {
    /// A group.
    Group(Group),
    /// A dataset.
    Dataset(Dataset),
}

/// What a member of a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// A group.
    Group,
    /// A dataset.
    Dataset,
}

/// A group of an open file.
#[derive(Clone)]
pub struct Group {
    shared: Arc<Shared>,
    path: String,
    inner: hdf5_reader::group::Group,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Group {
    pub(crate) fn new(shared: Arc<Shared>, path: String, inner: hdf5_reader::group::Group) -> Self {
        Self { shared, path, inner }
    }

    /// Path in the file, without a slash at the front; empty for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Name of the file, for messages.
    pub fn file_name(&self) -> &str {
        &self.shared.name
    }

    fn damaged(&self, error: &hdf5_reader::error::Error) -> Error {
        let at = if self.path.is_empty() { "/" } else { &self.path };
        self.shared.damaged(at, error.to_string())
    }

    fn child_path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    /// Names and kinds of what is in the group; links that lead nowhere are left out. In order of name.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the group's links cannot be read.
    pub fn members(&self) -> Result<Vec<(String, NodeKind)>> {
        let (groups, datasets) = self.inner.member_names().map_err(|error| self.damaged(&error))?;
        let mut members: Vec<_> = groups
            .into_iter()
            .map(|name| (name, NodeKind::Group))
            .chain(datasets.into_iter().map(|name| (name, NodeKind::Dataset)))
            .collect();
        members.sort();
        Ok(members)
    }

    /// The member with exactly that name; links that lead nowhere count as absent.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if it, or the group's links, cannot be read.
    pub fn child(&self, name: &str) -> Result<Option<Node>> {
        use hdf5_reader::error::Error as Hdf5Error;
        let path = self.child_path(name);
        match self.inner.dataset(name) {
            Ok(dataset) => {
                return Ok(Some(Node::Dataset(Dataset::new(Arc::clone(&self.shared), path, dataset)?)));
            }
            Err(Hdf5Error::DatasetNotFound(_)) => {}
            Err(error) => return Err(self.shared.damaged(path, error.to_string())),
        }
        match self.inner.group(name) {
            Ok(group) => Ok(Some(Node::Group(Self::new(Arc::clone(&self.shared), path, group)))),
            Err(Hdf5Error::GroupNotFound(_)) => Ok(None),
            Err(error) => Err(self.shared.damaged(path, error.to_string())),
        }
    }

    /// What a message about something absent adds: the other files that links of the file lead to.
    pub(crate) fn elsewhere(&self) -> String {
        self.shared.elsewhere.hint()
    }

    /// The member that lives at an address, as an object reference names it, and its name. It may lie in a group below:
    /// a name with a slash in it is one.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the group's members cannot be read.
    pub fn child_at(&self, address: u64) -> Result<Option<(String, Node)>> {
        let mut budget = SEARCHED_GROUPS;
        self.search(address, &mut budget)
    }

    /// `budget` is how many groups may still be looked at: they may lie in each other in a circle.
    fn search(&self, address: u64, budget: &mut usize) -> Result<Option<(String, Node)>> {
        if let Some(name) = self.inner.child_name_by_address(address).map_err(|error| self.damaged(&error))? {
            return Ok(self.child(&name)?.map(|node| (name, node)));
        }
        for (name, kind) in self.members()? {
            if kind != NodeKind::Group || *budget == 0 {
                continue;
            }
            *budget -= 1;
            let Some(Node::Group(group)) = self.child(&name)? else { continue };
            if let Some((below, node)) = group.search(address, budget)? {
                return Ok(Some((format!("{name}/{below}"), node)));
            }
        }
        Ok(None)
    }

    /// All attributes, in no particular order.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if they cannot be read.
    pub fn attributes(&self) -> Result<Vec<Attribute>> {
        let raw = self.raw_attributes()?;
        Ok(raw.into_iter().map(|raw| Attribute::new(&self.shared, raw)).collect())
    }

    fn raw_attributes(&self) -> Result<Vec<hdf5_reader::RawAttribute>> {
        self.inner.raw_attributes().map_err(|error| self.damaged(&error))
    }

    /// The attribute of that name, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the attributes cannot be read.
    pub fn attribute(&self, name: &str) -> Result<Option<Attribute>> {
        let raw = self.raw_attributes()?.into_iter().find(|raw| raw.name() == name);
        Ok(raw.map(|raw| Attribute::new(&self.shared, raw)))
    }
}
