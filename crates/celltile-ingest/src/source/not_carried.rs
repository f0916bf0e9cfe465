use crate::error::Result;
use crate::tree::{Group, Node, Tree};

/// Something that a file holds and a dataset does not.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NotCarried {
    /// Its path in the file.
    pub path: String,
    /// Its shape; empty for something without one.
    pub shape: Vec<u64>,
    /// What it is, in a word or two.
    pub what: String,
}

/// Groups of an h5ad file whose members are listed one by one.
const PARTS: [&str; 6] = ["layers", "obsm", "varm", "obsp", "varp", "uns"];

/// Everything in an h5ad file but obs, var and the matrix at `matrix`. Whatever cannot be read is listed without a shape:
/// it is not carried either way.
pub(super) fn list(file: &Tree, matrix: &str) -> Result<Vec<NotCarried>> {
    let mut found = Vec::new();
    let root = file.root();
    // Of a modality, paths start at its group.
    let prefix = if root.path().is_empty() { String::new() } else { format!("{}/", root.path()) };
    let (relative, matrix) = (matrix, &format!("{prefix}{matrix}"));
    for (name, _) in root.members()? {
        match name.as_str() {
            "obs" | "var" | "__DATA_TYPES__" => {}
            "X" => add(root, "X", matrix, &mut found),
            "raw" => {
                // Its var goes with its X.
                if relative != "raw/X"
                    && let Ok(Some(Node::Group(raw))) = root.child("raw")
                {
                    for (name, _) in raw.members().unwrap_or_default() {
                        add(&raw, &name, matrix, &mut found);
                    }
                } else if let Ok(Some(Node::Group(raw))) = root.child("raw") {
                    for (name, _) in raw.members().unwrap_or_default() {
                        if name != "var" && name != "X" {
                            add_members(&raw, &name, &mut found);
                        }
                    }
                }
            }
            "raw.X" | "raw.var" | "raw.varm" | "raw.cat" if relative == "raw.X" && name != "raw.varm" => {}
            _ if PARTS.contains(&name.as_str()) => match root.child(&name) {
                Ok(Some(Node::Group(part))) => {
                    for (name, _) in part.members().unwrap_or_default() {
                        add(&part, &name, matrix, &mut found);
                    }
                }
                _ => add(root, &name, matrix, &mut found),
            },
            _ => add(root, &name, matrix, &mut found),
        }
    }
    Ok(found)
}

fn add_members(parent: &Group, name: &str, found: &mut Vec<NotCarried>) {
    if let Ok(Some(Node::Group(group))) = parent.child(name) {
        for (name, _) in group.members().unwrap_or_default() {
            add(&group, &name, "", found);
        }
    }
}

fn add(parent: &Group, name: &str, matrix: &str, found: &mut Vec<NotCarried>) {
    let path = if parent.path().is_empty() { name.to_owned() } else { format!("{}/{name}", parent.path()) };
    if path == matrix {
        return;
    }
    let Ok(Some(node)) = parent.child(name) else {
        found.push(NotCarried { path, shape: Vec::new(), what: "unreadable".into() });
        return;
    };
    let encoding = node.string_attribute("encoding-type").ok().flatten();
    match node {
        Node::Dataset(dataset) => {
            if encoding.as_deref() == Some("null") {
                return;
            }
            found.push(NotCarried {
                path,
                shape: dataset.shape().to_vec(),
                what: dataset.dtype().to_string(),
            });
        }
        Node::Group(group) => {
            let shape = group.attribute("shape").ok().flatten().and_then(|shape| shape.unsigned());
            let legacy =
                || group.attribute("h5sparse_shape").ok().flatten().and_then(|shape| shape.unsigned());
            let members = group.members().map_or(0, |members| members.len());
            let what = encoding.filter(|name| !name.is_empty()).unwrap_or_else(|| "group".into());
            // An empty dictionary is nothing that could be lost.
            if members == 0 {
                return;
            }
            let what = if what == "dict" || what == "group" { format!("{what} of {members}") } else { what };
            found.push(NotCarried { path, shape: shape.or_else(legacy).unwrap_or_default(), what });
        }
    }
}
