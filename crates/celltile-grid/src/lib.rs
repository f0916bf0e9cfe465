//! Rectilinear chunk grids: arithmetic and metadata, no I/O.
