//! Matrices as NumPy arrays that share their memory.

#![allow(unsafe_code, reason = "NumPy arrays over memory that a Python object owns")]

use std::any::Any;

use numpy::PyArray1;
use numpy::ndarray::ArrayViewMut1;
use pyo3::prelude::*;

use crate::error::Result;
use crate::per_process::PerProcess;

/// Owns the memory of a matrix's arrays, and drops it when the last of them is gone. In a forked child it does not: another
/// thread of the parent may have held a lock that dropping it takes, and will never open it there.
#[pyclass(frozen, module = "celltile._native")]
struct SharedMemory {
    _owner: PerProcess<Box<dyn Any + Send + Sync>>,
}

/// `indptr`, indices and data.
pub(crate) type Arrays<'py, C> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<C>>);

/// `indptr`, indices and data, where they are.
pub(crate) type Slices<'o, C> = (&'o mut [i64], &'o mut [i32], &'o mut [C]);

/// The arrays that `arrays` finds in `owner`, without a copy. The last of them to go drops `owner`.
pub(crate) fn share<C, O>(
    py: Python<'_>,
    mut owner: Box<O>,
    arrays: impl FnOnce(&mut O) -> Slices<'_, C>,
) -> Result<Arrays<'_, C>>
where
    C: numpy::Element,
    O: Any + Send + Sync,
{
    let (indptr, indices, data) = arrays(&mut owner);
    let indptr = (indptr.as_mut_ptr(), indptr.len());
    let indices = (indices.as_mut_ptr(), indices.len());
    let data = (data.as_mut_ptr(), data.len());
    let owner: Box<dyn Any + Send + Sync> = owner;
    let owner = Bound::new(py, SharedMemory { _owner: PerProcess::new(owner) })?.into_any();
    // SAFETY: the slices are borrowed from what `owner` holds, which nothing in Rust looks at again before it is dropped.
    let indptr = unsafe { over(indptr, &owner) };
    // SAFETY: as above.
    let indices = unsafe { over(indices, &owner) };
    // SAFETY: as above.
    let data = unsafe { over(data, &owner) };
    Ok((indptr, indices, data))
}

/// An array over memory that `owner` keeps as it is.
///
/// # Safety
/// The memory holds so many initialised elements, stays where it is until `owner` is gone, and is reached through the
/// array only.
unsafe fn over<'py, T: numpy::Element>(
    (start, len): (*mut T, usize),
    owner: &Bound<'py, PyAny>,
) -> Bound<'py, PyArray1<T>> {
    // SAFETY: the caller's promise.
    let view = unsafe { ArrayViewMut1::from_shape_ptr(len, start) };
    // SAFETY: the caller's promise; NumPy keeps `owner` as the array's base.
    unsafe { PyArray1::borrow_from_array(&view, owner.clone()) }
}
