//! `Grid`: the chunk grid of an array.

use celltile_grid::Selection;
use celltile_grid::{Axis, Grid as Inner, GridError};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PySlice, PyTuple};

use crate::error::{Failure, Result};

/// Edges that are listed one by one, at most: a million-million fold run is an ordinary axis.
const LISTED: u64 = 10_000_000;
/// Chunks of a selection that are listed, at most.
const CHUNKS: usize = 10_000_000;

/// The chunk grid of an array: its shape, and where it is cut along each axis.
///
/// ``Grid(shape, chunks)`` takes one entry of ``chunks`` an axis: an integer for equal edges, or a list of edges, in
/// which ``(edge, count)`` stands for a run.
#[pyclass(module = "celltile._native", eq)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    inner: Inner,
}

/// An edge, or a run of equal ones.
#[derive(FromPyObject)]
enum Edge {
    One(u64),
    Run((u64, u64)),
}

/// How an axis is cut.
#[derive(FromPyObject)]
enum Cut {
    Equal(u64),
    Listed(Vec<Edge>),
}

/// A part of a chunk along one axis: its number, the elements of it that are selected (start, stop within the chunk), and
/// where they belong in the result (start, stop).
type Part = (u64, (u64, u64), (u64, u64));

/// How a grid is pickled: what makes it, and of what.
type Reduced<'py> = (Bound<'py, PyAny>, (String, Vec<u64>));

#[pymethods]
impl Grid {
    #[new]
    fn new(shape: Vec<u64>, chunks: Vec<Cut>) -> Result<Self> {
        if shape.len() != chunks.len() {
            let (found, expected) = (chunks.len(), shape.len());
            return Err(GridError::Dimensions { what: "chunks", found, expected }.into());
        }
        let axis = |(&length, cut): (&u64, Cut)| match cut {
            Cut::Equal(edge) => Axis::regular(length, edge),
            Cut::Listed(edges) => Axis::from_runs(edges.into_iter().map(|edge| match edge {
                Edge::One(edge) => (edge, 1),
                Edge::Run(run) => run,
            }))?
            .with_length(length),
        };
        let axes = shape.iter().zip(chunks).map(axis).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(Self { inner: Inner::new(axes) })
    }

    /// The grid of the ``chunk_grid`` object of an array's ``zarr.json``.
    #[staticmethod]
    fn from_json(text: &str, shape: Vec<u64>) -> Result<Self> {
        Ok(Self { inner: Inner::from_json(text, &shape)? })
    }

    /// The ``chunk_grid`` object, as canonical JSON.
    fn to_json(&self) -> String {
        self.inner.to_json()
    }

    /// The array's shape.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.shape())
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.inner.ndim()
    }

    /// Chunks along each axis that hold elements of the array.
    #[getter]
    fn chunk_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.active_shape())
    }

    /// Chunks along each axis that the grid declares.
    #[getter]
    fn declared_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.declared_shape())
    }

    /// The one chunk shape of a grid whose edges are all equal; none for any other.
    fn to_regular<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.inner.to_regular().map(|shape| PyTuple::new(py, shape)).transpose()
    }

    /// The declared edges of an axis as runs: ``(edge, count)``.
    fn runs(&self, axis: usize) -> Result<Vec<(u64, u64)>> {
        Ok(self.axis(axis)?.runs().map(|run| (run.edge, run.count)).collect())
    }

    /// The declared edges of an axis, one by one.
    fn edges(&self, axis: usize) -> Result<Vec<u64>> {
        let axis = self.axis(axis)?;
        if axis.n_declared() > LISTED {
            let message = format!("{} edges, at most {LISTED} are listed: use runs", axis.n_declared());
            return Err(Failure::Argument(message));
        }
        Ok(axis.edges().collect())
    }

    /// The chunk that holds an element, and the element's index within it: two tuples.
    fn locate<'py>(
        &self,
        py: Python<'py>,
        index: Vec<u64>,
    ) -> Result<(Bound<'py, PyTuple>, Bound<'py, PyTuple>)> {
        let found = self.inner.locate(&index)?;
        let chunk = PyTuple::new(py, found.iter().map(|position| position.chunk))?;
        Ok((chunk, PyTuple::new(py, found.iter().map(|position| position.within))?))
    }

    /// Where a chunk lies: a slice an axis, cut to the array.
    fn chunk<'py>(&self, py: Python<'py>, chunk: Vec<u64>) -> Result<Bound<'py, PyTuple>> {
        let places = self.inner.chunk(&chunk)?;
        let slices = places.iter().map(|place| {
            let stop = place.origin.saturating_add(place.clipped);
            slice(py, place.origin, stop)
        });
        Ok(PyTuple::new(py, slices.collect::<Result<Vec<_>>>()?)?)
    }

    /// The chunks that a selection touches: one entry an axis, a slice or a list of indices. Each chunk comes as a tuple of
    /// parts, one an axis: ``(chunk, (start, stop), (start, stop))``, the elements within the chunk, and their places in
    /// the result.
    fn select(&self, selection: Vec<Bound<'_, PyAny>>) -> Result<Vec<Vec<Part>>> {
        let mut owned = Vec::new();
        for (number, chosen) in selection.iter().enumerate() {
            owned.push(Chosen::new(chosen, self.axis(number)?.length())?);
        }
        let selections: Vec<Selection<'_>> = owned.iter().map(Chosen::as_selection).collect();
        let mut parts = self.inner.select(&selections)?;
        let mut out = Vec::new();
        while let Some(part) = parts.next_part() {
            if out.len() >= CHUNKS {
                return Err(Failure::Argument(format!("a selection of more than {CHUNKS} chunks")));
            }
            let axis = |part: &celltile_grid::AxisPart| {
                let (within, selected) = (&part.within, &part.selected);
                (part.chunk.chunk, (within.start, within.end), (selected.start, selected.end))
            };
            out.push(part.iter().map(axis).collect());
        }
        Ok(out)
    }

    /// Gives the array another shape: edges are kept, and one is appended where they do not reach.
    fn resize(&mut self, shape: Vec<u64>) -> Result<()> {
        Ok(self.inner.resize(&shape)?)
    }

    /// Grows the array along an axis by one chunk of that length.
    fn append(&mut self, axis: usize, edge: u64) -> Result<()> {
        Ok(self.inner.append(axis, edge)?)
    }

    /// Cuts the chunks of that number along an axis in two.
    fn split(&mut self, axis: usize, chunk: u64, at: u64) -> Result<()> {
        Ok(self.inner.split(axis, chunk, at)?)
    }

    /// Joins the chunks from ``start`` to before ``stop`` along an axis.
    fn merge(&mut self, axis: usize, start: u64, stop: u64) -> Result<()> {
        Ok(self.inner.merge(axis, start..stop)?)
    }

    fn copy(&self) -> Self {
        self.clone()
    }

    fn __repr__(&self) -> String {
        const SHOWN: usize = 4;
        let axes = self.inner.axes().iter().map(|axis| {
            if let (true, Some(edge)) = (axis.is_integer(), axis.regular_edge()) {
                return edge.to_string();
            }
            let mut runs: Vec<String> = axis
                .runs()
                .take(SHOWN)
                .map(|run| match run.count {
                    1 => run.edge.to_string(),
                    count => format!("({}, {count})", run.edge),
                })
                .collect();
            if axis.n_runs() > SHOWN {
                runs.push(format!("... {} runs", axis.n_runs()));
            }
            format!("[{}]", runs.join(", "))
        });
        let (shape, chunks) = (self.inner.shape(), axes.collect::<Vec<_>>().join(", "));
        format!("Grid(shape={shape:?}, chunks=[{chunks}])")
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Result<Reduced<'py>> {
        let inner = &slf.borrow().inner;
        Ok((slf.get_type().getattr("from_json")?, (inner.to_json(), inner.shape())))
    }
}

impl Grid {
    fn axis(&self, axis: usize) -> Result<&Axis> {
        let ndim = self.inner.ndim();
        Ok(self.inner.axes().get(axis).ok_or(GridError::AxisOutside { axis, ndim })?)
    }
}

/// A selection along an axis, with the indices that it borrows.
enum Chosen {
    Stepped { start: u64, stop: u64, step: u64 },
    Indices(Vec<u64>),
}

impl Chosen {
    fn new(chosen: &Bound<'_, PyAny>, length: u64) -> Result<Self> {
        if let Ok(slice) = chosen.cast::<PySlice>() {
            let length = isize::try_from(length)
                .map_err(|_| Failure::Argument(format!("a slice of an axis of length {length}")))?;
            let indices = slice.indices(length)?;
            let (Ok(start), Ok(stop), Ok(step)) =
                (u64::try_from(indices.start), u64::try_from(indices.stop), u64::try_from(indices.step))
            else {
                return Err(Failure::Argument("a slice with a negative step".to_owned()));
            };
            return Ok(Self::Stepped { start, stop: stop.max(start), step });
        }
        if chosen.is_instance_of::<PyInt>() {
            return Ok(Self::Indices(vec![chosen.extract()?]));
        }
        match chosen.extract() {
            Ok(indices) => Ok(Self::Indices(indices)),
            Err(_) => {
                Err(PyTypeError::new_err("a selection is a slice, an index or a list of indices").into())
            }
        }
    }

    fn as_selection(&self) -> Selection<'_> {
        match self {
            Self::Stepped { start, stop, step: 1 } => Selection::Range(*start..*stop),
            Self::Stepped { start, stop, step } => Selection::Stepped { range: *start..*stop, step: *step },
            Self::Indices(indices) => Selection::Indices(indices),
        }
    }
}

fn slice(py: Python<'_>, start: u64, stop: u64) -> Result<Bound<'_, PyAny>> {
    Ok(py.get_type::<PySlice>().call1((start, stop))?)
}
