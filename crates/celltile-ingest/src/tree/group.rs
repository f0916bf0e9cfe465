use std::fmt::Debug;
use std::sync::Arc;

use super::array::{Array, TreeArray};
use crate::error::{Error, Result};
use crate::hdf5::{self, Attribute, NodeKind};

/// A group of a container that is no HDF5 file.
pub trait TreeGroup: Debug + Send + Sync {
    /// Path in the container, without a slash at the front; empty for the outermost group.
    fn path(&self) -> &str;

    /// Names and kinds of what is in the group, in order of name.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    fn members(&self) -> Result<Vec<(String, NodeKind)>>;

    /// The member with exactly that name, which is one part of a path.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn child(&self, name: &str) -> Result<Option<TreeNode>>;

    /// The attribute of that name, if there is one.
    ///
    /// # Errors
    ///
    /// If the attributes cannot be read.
    fn attribute(&self, name: &str) -> Result<Option<Attribute>>;
}

/// A member of a [`TreeGroup`].
#[derive(Debug, Clone)]
pub enum TreeNode {
    /// A group.
    Group(Arc<dyn TreeGroup>),
    /// An array.
    Array(Arc<dyn TreeArray>),
}

/// A group or an array.
#[derive(Debug, Clone)]
pub enum Node {
    /// A group.
    Group(Group),
    /// An array.
    Dataset(Array),
}

impl Node {
    /// The attribute of that name, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the attributes cannot be read.
    pub fn attribute(&self, name: &str) -> Result<Option<Attribute>> {
        match self {
            Self::Group(group) => group.attribute(name),
            Self::Dataset(array) => array.attribute(name),
        }
    }

    /// The attribute of that name as one string; `None` if there is none or it is no string.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the attributes cannot be read.
    pub fn string_attribute(&self, name: &str) -> Result<Option<String>> {
        Ok(self.attribute(name)?.and_then(Attribute::into_string))
    }
}

impl From<hdf5::Node> for Node {
    fn from(node: hdf5::Node) -> Self {
        match node {
            hdf5::Node::Group(group) => Self::Group(group.into()),
            hdf5::Node::Dataset(dataset) => Self::Dataset(dataset.into()),
        }
    }
}

/// A group of a container; cheap to clone.
#[derive(Debug, Clone)]
pub struct Group(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Hdf5(hdf5::Group),
    Other { file: Arc<str>, group: Arc<dyn TreeGroup> },
}

impl From<hdf5::Group> for Group {
    fn from(group: hdf5::Group) -> Self {
        Self(Inner::Hdf5(group))
    }
}

impl Group {
    pub(super) fn other(file: Arc<str>, group: Arc<dyn TreeGroup>) -> Self {
        Self(Inner::Other { file, group })
    }

    /// The outermost group of an HDF5 file.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if it cannot be read.
    pub fn of_file(file: &hdf5::File) -> Result<Self> {
        Ok(file.root()?.into())
    }

    /// Path in the container, without a slash at the front; empty for the outermost group.
    pub fn path(&self) -> &str {
        match &self.0 {
            Inner::Hdf5(group) => group.path(),
            Inner::Other { group, .. } => group.path(),
        }
    }

    /// Name of the container, for messages.
    pub fn file_name(&self) -> &str {
        match &self.0 {
            Inner::Hdf5(group) => group.file_name(),
            Inner::Other { file, .. } => file,
        }
    }

    /// Names and kinds of what is in the group, in order of name.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if they cannot be listed.
    pub fn members(&self) -> Result<Vec<(String, NodeKind)>> {
        match &self.0 {
            Inner::Hdf5(group) => group.members(),
            Inner::Other { group, .. } => group.members(),
        }
    }

    /// The member with exactly that name.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if it cannot be read.
    pub fn child(&self, name: &str) -> Result<Option<Node>> {
        match &self.0 {
            Inner::Hdf5(group) => Ok(group.child(name)?.map(Node::from)),
            Inner::Other { file, group } => Ok(group.child(name)?.map(|node| match node {
                TreeNode::Group(group) => Node::Group(Self::other(Arc::clone(file), group)),
                TreeNode::Array(array) => Node::Dataset(Array::other(Arc::clone(file), array)),
            })),
        }
    }

    /// The member that a path of names, joined by `/`, leads to.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if something on the way cannot be read.
    pub fn find(&self, path: &str) -> Result<Option<Node>> {
        let mut node: Option<Node> = None;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let child = match &node {
                None => self.child(part)?,
                Some(Node::Group(group)) => group.child(part)?,
                Some(Node::Dataset(_)) => None,
            };
            match child {
                Some(child) => node = Some(child),
                None => return Ok(None),
            }
        }
        Ok(node)
    }

    /// The member of that name, which must be an array.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is none, [`Error::Damaged`] if it cannot be read or is a group.
    pub fn dataset(&self, name: &str) -> Result<Array> {
        match self.find(name)? {
            Some(Node::Dataset(array)) => Ok(array),
            Some(Node::Group(_)) => Err(self.not_a(name, "a group; expected an array")),
            None => Err(self.missing(name)),
        }
    }

    /// The member of that name, which must be a group.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is none, [`Error::Damaged`] if it cannot be read or is an array.
    pub fn group(&self, name: &str) -> Result<Self> {
        match self.find(name)? {
            Some(Node::Group(group)) => Ok(group),
            Some(Node::Dataset(_)) => Err(self.not_a(name, "an array; expected a group")),
            None => Err(self.missing(name)),
        }
    }

    fn child_path(&self, name: &str) -> String {
        if self.path().is_empty() { name.to_owned() } else { format!("{}/{name}", self.path()) }
    }

    fn not_a(&self, name: &str, what: &str) -> Error {
        Error::Damaged { file: self.file_name().to_owned(), at: self.child_path(name), what: what.into() }
    }

    pub(crate) fn missing(&self, name: &str) -> Error {
        let hint = self.elsewhere();
        Error::Missing { file: self.file_name().to_owned(), at: self.child_path(name), hint }
    }

    /// What a message about something absent adds: the other files that links of the container lead to.
    pub(crate) fn elsewhere(&self) -> String {
        match &self.0 {
            Inner::Hdf5(group) => group.elsewhere(),
            Inner::Other { .. } => String::new(),
        }
    }

    /// The member that lives at an address, as an object reference of HDF5 names it, and its name.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the group's members cannot be read.
    pub(crate) fn child_at(&self, address: u64) -> Result<Option<(String, Node)>> {
        match &self.0 {
            Inner::Hdf5(group) => Ok(group.child_at(address)?.map(|(name, node)| (name, node.into()))),
            Inner::Other { .. } => Ok(None),
        }
    }

    /// The attribute of that name, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the attributes cannot be read.
    pub fn attribute(&self, name: &str) -> Result<Option<Attribute>> {
        match &self.0 {
            Inner::Hdf5(group) => group.attribute(name),
            Inner::Other { group, .. } => group.attribute(name),
        }
    }

    /// The attribute of that name as one string; `None` if there is none or it is no string.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the attributes cannot be read.
    pub fn string_attribute(&self, name: &str) -> Result<Option<String>> {
        Ok(self.attribute(name)?.and_then(Attribute::into_string))
    }
}
