//! From edges to JSON.

use crate::axis::{Edges, Run};

/// The `chunk_grid` object of the specification.
pub(super) fn rectilinear<'a>(axes: impl Iterator<Item = &'a Edges>) -> String {
    let mut json = String::from(r#"{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":"#);
    list(&mut json, axes, |json, edges| match edges {
        Edges::Integer(edge) => integer(json, *edge),
        Edges::List(runs) => list(json, runs.iter(), run),
    });
    json.push_str("}}");
    json
}

/// The older form of ZEP 0003, with every edge of a list.
pub(super) fn zep0003<'a>(axes: impl Iterator<Item = &'a Edges>) -> String {
    let mut json = String::from(r#"{"name":"rectangular","configuration":{"chunk_shape":"#);
    list(&mut json, axes, |json, edges| match edges {
        Edges::Integer(edge) => integer(json, *edge),
        Edges::List(runs) => {
            list(json, runs.iter().flat_map(|run| (0..run.count).map(move |_| run.edge)), integer);
        }
    });
    json.push_str("}}");
    json
}

fn run(json: &mut String, run: Run) {
    if run.count == 1 {
        integer(json, run.edge);
    } else {
        list(json, [run.edge, run.count].into_iter(), integer);
    }
}

fn integer(json: &mut String, integer: u64) {
    json.push_str(&integer.to_string());
}

fn list<T>(json: &mut String, items: impl Iterator<Item = T>, write: impl Fn(&mut String, T)) {
    json.push('[');
    for (position, item) in items.enumerate() {
        if position > 0 {
            json.push(',');
        }
        write(json, item);
    }
    json.push(']');
}
