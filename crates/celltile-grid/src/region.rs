//! The chunks that a selection touches, and the part of each, as iterators that allocate nothing a chunk.

use std::ops::Range;

use crate::axis::RunSpan;
use crate::error::Place;
use crate::{Axis, AxisChunk, Grid, GridError};

/// What is selected along one axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection<'a> {
    /// Every index of a range.
    Range(Range<u64>),
    /// Every `step`-th index of a range, the first included.
    Stepped {
        /// The range.
        range: Range<u64>,
        /// The step, at least 1.
        step: u64,
    },
    /// These indices, in this order, repeated ones included. A chunk comes once where they are sorted, and once for each
    /// stretch of neighbours that it holds where they are not.
    Indices(&'a [u64]),
}

impl From<Range<u64>> for Selection<'_> {
    fn from(range: Range<u64>) -> Self {
        Self::Range(range)
    }
}

impl<'a> From<&'a [u64]> for Selection<'a> {
    fn from(indices: &'a [u64]) -> Self {
        Self::Indices(indices)
    }
}

impl Selection<'_> {
    /// How many indices are selected.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Range(range) => range.end.saturating_sub(range.start),
            Self::Stepped { range, step } => range.end.saturating_sub(range.start).div_ceil((*step).max(1)),
            // A slice is never longer than 2^63 bytes.
            Self::Indices(indices) => u64::try_from(indices.len()).unwrap_or(u64::MAX),
        }
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn check(&self, length: u64) -> Result<(), GridError> {
        match self {
            Self::Stepped { step: 0, .. } => Err(GridError::Step { place: Place::default() }),
            Self::Range(range) | Self::Stepped { range, .. } => {
                if range.start <= range.end && range.end <= length {
                    return Ok(());
                }
                let Range { start, end } = *range;
                Err(GridError::RangeOutside { place: Place::default(), start, end, length })
            }
            Self::Indices(indices) => match indices.iter().position(|&index| index >= length) {
                None => Ok(()),
                Some(position) => Err(GridError::IndexOutside {
                    place: Place::position(position),
                    index: indices.get(position).copied().unwrap_or_default(),
                    length,
                }),
            },
        }
    }

    /// The index at a position of the selection.
    fn index(&self, position: u64) -> Option<u64> {
        match self {
            Self::Range(range) => Some(range.start + position),
            Self::Stepped { range, step } => Some(range.start + position * step),
            Self::Indices(indices) => indices.get(usize::try_from(position).ok()?).copied(),
        }
    }
}

/// The part of one chunk that a selection along one axis touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisPart {
    /// The chunk.
    pub chunk: AxisChunk,
    /// The smallest range of elements of the chunk that holds the selected ones.
    pub within: Range<u64>,
    /// Positions in the selection: where the selected elements belong in a result.
    pub selected: Range<u64>,
    /// Whether the selected elements are all of `within`, in order.
    pub contiguous: bool,
}

impl AxisPart {
    /// Whether the part is all elements of the chunk that are inside the array, in order: a writer need not read the chunk.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.contiguous && self.within == (0..self.chunk.clipped)
    }
}

/// The chunks along one axis that a selection touches, in the order of the selection.
///
/// Made by [`Axis::select`]. Neighbouring chunks cost no search.
#[derive(Debug, Clone)]
pub struct AxisParts<'a> {
    axis: &'a Axis,
    selection: Selection<'a>,
    /// Position in the selection, and its end.
    next: u64,
    len: u64,
    /// The run of the last chunk.
    span: Option<RunSpan>,
}

impl AxisParts<'_> {
    fn span_of(&self, index: u64) -> Option<RunSpan> {
        if let Some(span) = self.span {
            if span.start <= index && index < span.end {
                return Some(span);
            }
            if let Some(next) = self.axis.span(span.ordinal + 1)
                && next.start <= index
                && index < next.end
            {
                return Some(next);
            }
        }
        self.axis.span_of_index(index)
    }

    /// From the position `next` on, whose index is `first`: how many selected indices are in the chunk, the smallest range
    /// that holds them, and whether they are all of it in order.
    fn stretch(&self, first: u64, chunk: &AxisChunk) -> (u64, Range<u64>, bool) {
        let left = self.len - self.next;
        let chunk_left = chunk.clipped - (first - chunk.origin);
        match &self.selection {
            Selection::Range(_) => {
                let n = left.min(chunk_left);
                (n, first..first + n, true)
            }
            Selection::Stepped { step, .. } => {
                let n = left.min((chunk_left - 1) / step + 1);
                (n, first..first + (n - 1) * step + 1, *step == 1 || n == 1)
            }
            Selection::Indices(indices) => {
                let start = usize::try_from(self.next).unwrap_or(usize::MAX);
                let mut range = first..first + 1;
                let (mut n, mut contiguous) = (1, true);
                for &index in indices.get(start..).unwrap_or_default().iter().skip(1) {
                    if index < chunk.origin || index - chunk.origin >= chunk.clipped {
                        break;
                    }
                    contiguous &= index == range.end;
                    range = range.start.min(index)..range.end.max(index + 1);
                    n += 1;
                }
                (n, range, contiguous)
            }
        }
    }
}

impl Iterator for AxisParts<'_> {
    type Item = AxisPart;

    fn next(&mut self) -> Option<AxisPart> {
        if self.next >= self.len {
            return None;
        }
        let first = self.selection.index(self.next)?;
        let span = self.span_of(first)?;
        self.span = Some(span);
        let (chunk, origin) = span.locate(first);
        let clipped = span.edge.min(self.axis.length() - origin);
        let chunk = AxisChunk { chunk, origin, edge: span.edge, clipped };
        let (n, range, contiguous) = self.stretch(first, &chunk);
        let selected = self.next..self.next + n;
        self.next += n;
        Some(AxisPart { chunk, within: range.start - origin..range.end - origin, selected, contiguous })
    }
}

impl std::iter::FusedIterator for AxisParts<'_> {}

impl Axis {
    /// The chunks that a selection touches, with the part of each.
    ///
    /// # Errors
    ///
    /// If the selection is not within the array, or its step is 0.
    pub fn select<'a>(&'a self, selection: impl Into<Selection<'a>>) -> Result<AxisParts<'a>, GridError> {
        let selection = selection.into();
        selection.check(self.length())?;
        let len = selection.len();
        Ok(AxisParts { axis: self, selection, next: 0, len, span: None })
    }

    /// The numbers of the chunks that a range of indices touches.
    ///
    /// # Errors
    ///
    /// If the range is not within the array.
    pub fn chunk_range(&self, range: Range<u64>) -> Result<Range<u64>, GridError> {
        Selection::Range(range.clone()).check(self.length())?;
        match range.end.checked_sub(1).filter(|last| range.start <= *last) {
            Some(last) => Ok(self.locate(range.start)?.chunk..self.locate(last)?.chunk + 1),
            None => Ok(0..0),
        }
    }
}

/// The chunks of a grid that an orthogonal selection touches: the product of those along its axes, the last axis fastest.
///
/// Made by [`Grid::select`] and [`Grid::region`]. It lends one slice with an element an axis, and overwrites it with the
/// next, so it is no `Iterator`:
///
/// ```
/// use celltile_grid::Grid;
///
/// let grid = Grid::from_regular(&[4, 6], &[2, 4])?;
/// let mut parts = grid.region(&[1..3, 3..6])?;
/// let mut chunks = Vec::new();
/// while let Some(part) = parts.next_part() {
///     chunks.push((part[0].chunk.chunk, part[1].chunk.chunk, part[1].within.clone()));
/// }
/// assert_eq!(chunks, [(0, 0, 3..4), (0, 1, 0..2), (1, 0, 3..4), (1, 1, 0..2)]);
/// # Ok::<(), celltile_grid::GridError>(())
/// ```
#[derive(Debug, Clone)]
pub struct GridParts<'a> {
    /// An axis' parts from their start, and what is left of them.
    axes: Vec<(AxisParts<'a>, AxisParts<'a>)>,
    current: Vec<AxisPart>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Inside,
    After,
}

impl GridParts<'_> {
    /// The next chunk: its part along each axis. `None` after the last one; a grid of no dimensions has one chunk.
    pub fn next_part(&mut self) -> Option<&[AxisPart]> {
        let found = match self.state {
            State::Before => self.first(),
            State::Inside => self.advance(),
            State::After => false,
        };
        self.state = if found { State::Inside } else { State::After };
        found.then_some(&self.current)
    }

    fn first(&mut self) -> bool {
        for (_, rest) in &mut self.axes {
            match rest.next() {
                Some(part) => self.current.push(part),
                None => return false,
            }
        }
        true
    }

    fn advance(&mut self) -> bool {
        for ((start, rest), current) in self.axes.iter_mut().zip(&mut self.current).rev() {
            if let Some(part) = rest.next() {
                *current = part;
                return true;
            }
            rest.clone_from(start);
            if let Some(part) = rest.next() {
                *current = part;
            }
        }
        false
    }
}

impl Grid {
    /// The chunks that a selection along each axis touches together, with the part of each.
    ///
    /// # Errors
    ///
    /// If there is not one selection an axis, one is not within the array, or a step is 0.
    pub fn select<'a>(&'a self, selections: &[Selection<'a>]) -> Result<GridParts<'a>, GridError> {
        self.check_ndim("a selection", selections.len())?;
        let mut axes = Vec::with_capacity(self.ndim());
        for (number, (axis, selection)) in self.axes().iter().zip(selections).enumerate() {
            let parts = axis.select(selection.clone()).map_err(|error| error.on_axis(number))?;
            axes.push((parts.clone(), parts));
        }
        Ok(GridParts { axes, current: Vec::with_capacity(self.ndim()), state: State::Before })
    }

    /// The chunks that a box of indices touches, with the part of each.
    ///
    /// # Errors
    ///
    /// If there is not one range an axis, or one is not within the array.
    pub fn region<'a>(&'a self, ranges: &[Range<u64>]) -> Result<GridParts<'a>, GridError> {
        let selections: Vec<Selection<'a>> = ranges.iter().cloned().map(Selection::Range).collect();
        self.select(&selections)
    }
}
